"""A short run of tests/soak.py; SOAK_SECONDS makes it longer."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

SOAK = pathlib.Path(__file__).parent.parent / "soak.py"
SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))


@pytest.mark.slow
@pytest.mark.alone  # it judges memory, and clients that are served in time
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("flags", [[], ["--threads", "0"]], ids=["threads", "inline"])
def test_soak(flags, capsys):
    """Good clients are answered rightly amid bad ones, memory stays flat, no descriptor is left."""
    if flags and "SOAK_SECONDS" not in os.environ:
        seconds = min(SECONDS, 1.0)  # inline once more, but shortly
    else:
        seconds = SECONDS
    command = [sys.executable, str(SOAK), str(seconds), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 50, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")
    assert result["faults"] == []
    assert done.returncode == 0
    assert result["good"] > 20
    assert result["bad"] > 20
