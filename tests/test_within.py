"""A command's processes end with the command, which has a limit."""

import os
import pathlib
import subprocess
import sys

import pytest
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

WITHIN = [sys.executable, "-I", str(pathlib.Path(__file__).parent / "within.py")]


@pytest.mark.skipif(sys.platform != "linux", reason="processes find a new parent on Linux")
def test_what_a_command_leaves_behind(tmp_path):
    """An orphan in a new session is killed; the exit status is the command's."""
    script = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid); sys.exit(7)"
    )
    done = subprocess.run(
        [*WITHIN, "100", sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 7
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_the_limit_of_a_command():
    """SIGTERM ends the command, and a line tells the remedy."""
    done = subprocess.run([*WITHIN, "1", "sleep", "1000"], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 128 + 15
    assert done.stderr.startswith("This has taken 1 s, its limit, and ends. `make test-whole` runs ")
