"""A short run of tests/soak.py; `make soak` makes longer ones."""

import json
import pathlib
import subprocess
import sys

import pytest

SOAK = pathlib.Path(__file__).parent.parent / "soak.py"


@pytest.mark.slow
@pytest.mark.alone  # it judges memory, and clients served in time
@pytest.mark.parametrize(
    ("seconds", "flags"),
    [
        pytest.param(1, [], id="threads, briefly"),
        pytest.param(5, [], marks=pytest.mark.long, id="threads"),
        pytest.param(1, ["--threads", "0"], marks=pytest.mark.long, id="inline"),
    ],
)
def test_a_short_soak_leaves_nothing(seconds, flags, capsys):
    """Good clients are answered rightly amid bad ones, memory stays flat, no descriptor is left."""
    command = [sys.executable, str(SOAK), str(seconds), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")
    assert result["faults"] == []
    assert done.returncode == 0
    # How many a busy machine serves in this time is no verdict.
    assert result["good"] > 0
    assert result["bad"] > 0
