"""`pytest --children`: each test runs once, in one of the children; what becomes of one is told."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from harness.children import Shares

TESTS = pathlib.Path(__file__).parent

pytestmark = pytest.mark.checkout

CONFTEST = """
from harness import children

def pytest_addoption(parser):
    parser.addoption("--children", type=int)

def pytest_configure(config):
    children.configure(config)
"""

CASES = """
import os
import signal
import pytest

@pytest.fixture(scope="module")
def owner():
    return os.getpid()

@pytest.mark.parametrize("number", range(60))
def test_it(number, owner, tmp_path, capfd):
    assert owner == os.getpid()
    with open(os.environ["RECORD"], "a") as record:
        record.write(f"{number} ")
    print("output of", number)
    assert capfd.readouterr().out == f"output of {number}\\n"
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 20:
        pytest.skip("for a reason")
    assert number != 33
"""


def test_whatever_becomes_of_them(tmp_path):
    """What passes, fails and is skipped is counted; one that kills its process has failed, and the others run all the same, each once."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(CASES)
    (tmp_path / "record").touch()
    command = [sys.executable, "-Im", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(tmp_path)]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "--children", "3", str(tmp_path)]
    environ = {"RECORD": str(tmp_path / "record"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert sorted(map(int, (tmp_path / "record").read_text().split())) == [*range(60)]
    assert done.returncode == 1 and "2 failed, 57 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert sorted(re.findall(r"^FAILED \S*\[(\d+)\]", done.stdout, re.MULTILINE)) == ["33", "7"]
    assert "the process that ran it has ended: SIGKILL" in done.stdout and "for a reason" in done.stdout


@pytest.mark.parametrize(("children", "count"), [(1, 0), (1, 3), (4, 2), (3, 10)])
def test_shares(children, count, tmp_path):
    """Each test is taken once, whichever child is quick; a child that has none left takes half of the largest share."""
    with (tmp_path / "lock").open("wb") as lock:
        shares = Shares(children, count, lock)
        taken = [shares.take(0) for _ in range(count)]
        assert sorted(taken) == [*range(count)]
        assert [shares.take(child) for child in range(children)] == [-1] * children


def test_a_child_in_place_of_another(tmp_path):
    """It goes on with the test that its predecessor had taken, and not with the one that it was at."""
    with (tmp_path / "lock").open("wb") as lock:
        shares = Shares(2, 10, lock)
        before = shares.pairs(0)
        assert [next(before), next(before)] == [(0, 1), (1, 2)] and shares.running(0) == 1
        assert [number for number, _ in shares.pairs(0)][:2] == [2, 3]
        assert shares.running(0) == -1
