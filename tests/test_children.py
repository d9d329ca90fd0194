"""`pytest --children`: each test runs once, in any of the children; each child's fate is told."""

import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest
from harness.children import Child, Parent, Shares
from harness.waiting import wait_until

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


ENDS_EARLY = """
import os
import pathlib
import subprocess
import time
import pytest

RECORD = pathlib.Path(os.environ["RECORD"])

@pytest.fixture
def process():
    process = subprocess.Popen(["sleep", "100"])
    yield process
    process.kill()
    process.wait()

@pytest.mark.parametrize("number", range(2))
def test_waits(number, process):
    RECORD.write_text(str(process.pid))
    time.sleep(100)

@pytest.mark.parametrize("number", range(2))
def test_fails(number):
    while not RECORD.read_text():
        time.sleep(0.01)
    assert False
"""

DOES_NOT_BEGIN = """
begin = children.begin_child

def begin_and_fail(*arguments):
    begin(*arguments)
    raise RuntimeError("it has not begun")

children.begin_child = begin_and_fail
"""


def run(tmp_path, cases, *flags, conftest=CONFTEST, ends=False):
    """Run pytest over tests; what they tell is in the file `record`. With `ends` SIGTERM ends it, once a test has told something."""
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_it.py").write_text(cases)
    (tmp_path / "record").touch()
    command = [sys.executable, "-Im", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(tmp_path)]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", *flags, str(tmp_path)]
    environ = {"RECORD": str(tmp_path / "record"), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ends:
        wait_until(lambda: (tmp_path / "record").read_text(), 100)
        process.terminate()
    out, err = process.communicate(timeout=100)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.long_on_pypy
def test_whatever_becomes_of_them(tmp_path):
    """Passed, failed and skipped tests are counted; a test with a killed process has failed, and the rest run all the same, each once."""
    done = run(tmp_path, CASES, "--children", "3")
    assert sorted(map(int, (tmp_path / "record").read_text().split())) == [*range(60)]
    assert done.returncode == 1 and "2 failed, 57 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert sorted(re.findall(r"^FAILED \S*\[(\d+)\]", done.stdout, re.MULTILINE)) == ["33", "7"]
    assert "the process that ran it has ended: SIGKILL" in done.stdout and "for a reason" in done.stdout
    told = re.findall(r"all: FAILED \S*\[(\d+)\]: (.*)", done.stderr)  # at once: make does not keep the line back
    assert sorted(told) == [("33", "assert 33 != 33"), ("7", "the process that ran it has ended: SIGKILL")]


@pytest.mark.long_on_pypy
def test_the_end_at_a_failure(tmp_path):
    """With -x a second child's running test is interrupted, and the fixtures are torn down."""
    done = run(tmp_path, ENDS_EARLY, "-x", "--children", "2")
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout + done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "record").read_text()), 0)


@pytest.mark.long_on_pypy
def test_the_end_by_a_signal(tmp_path):
    """The signal names the running tests, and their fixtures are torn down."""
    done = run(tmp_path, ENDS_EARLY, "-k", "waits", "--children", "2", ends=True)
    assert done.returncode == 2 and "SIGTERM after 0 of 2 tests" in done.stdout, done.stdout + done.stderr
    assert re.search(r"these ran: \S*::test_waits\[\d\] \(for \d+ s\)", done.stderr)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "record").read_text()), 0)


@pytest.mark.long_on_pypy
def test_a_child_that_does_not_begin(tmp_path):
    """The error ends the run, which has failed, with the reason."""
    done = run(tmp_path, CASES, "--children", "2", conftest=CONFTEST + DOES_NOT_BEGIN)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "a process of tests has ended by status 3 outside of a test" in done.stdout
    assert "RuntimeError: it has not begun" in done.stderr


def test_last_reports_are_told_at_the_end(tmp_path):
    """An ended child's sent results are told, though the pipe is open elsewhere; also at the end of the run."""
    told = []
    hook = types.SimpleNamespace(
        pytest_report_from_serializable=lambda config, data: data,
        pytest_runtest_logreport=lambda report: told.append(report),
    )
    session = types.SimpleNamespace(
        config=types.SimpleNamespace(hook=hook), shouldfail="", shouldstop="", Failed=pytest.Session.Failed
    )
    parent = Parent(1, "all")
    with (tmp_path / "lock").open("wb") as lock:
        parent._shares = Shares(1, 0, lock)
    for session.shouldfail in ["", "-x"]:
        reports, sender = multiprocessing.Pipe(duplex=False)
        process = subprocess.Popen(["true"])
        parent._children[reports] = Child(0, process.pid, reports)
        for message in (["first"], ["second"]):
            sender.send(message)
        try:
            while parent._children:
                parent._look(session, parent._children[reports])
        except session.Failed:
            told.append("the end")
        process.wait()
        sender.close()
        assert not parent._children and reports.closed
    assert told == ["first", "second", "first", "the end"]


@pytest.mark.parametrize(("children", "count"), [(1, 0), (1, 3), (4, 2), (3, 10)])
def test_shares_give_each_test_once(children, count, tmp_path):
    """A child with none left takes half of the largest share."""
    with (tmp_path / "lock").open("wb") as lock:
        shares = Shares(children, count, lock)
        taken = [shares.take(0) for _ in range(count)]
        assert sorted(taken) == [*range(count)]
        assert [shares.take(child) for child in range(children)] == [-1] * children


def test_a_child_in_place_of_another(tmp_path):
    """A new child goes on with the test taken by the dead child, and not with the test that killed."""
    with (tmp_path / "lock").open("wb") as lock:
        shares = Shares(2, 10, lock)
        before = shares.pairs(0)
        assert [next(before), next(before)] == [(0, 1), (1, 2)] and shares.give_up(0) == 1
        assert [number for number, _ in shares.pairs(0)][:2] == [2, 3]
        assert shares.give_up(0) == -1
