"""The guards of the tests themselves: an unhandled fault fails the running test, and tells the place."""

import pathlib
import re
import subprocess
import sys

import floors
import pytest
from harness.faults import describe, faults_in

TESTS = pathlib.Path(__file__).parent

pytestmark = pytest.mark.checkout

# A conftest for tests elsewhere, with all of ours.
CONFTEST = f"""
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("aserve_conftest", {str(TESTS / "conftest.py")!r})
module = sys.modules["conftest"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
globals().update({{name: value for name, value in vars(module).items() if not name.startswith("__")}})
"""

RAISES = '''
import asyncio, gc, logging, threading
import floors
import pytest

def fall():
    raise ValueError("on the floor")

@pytest.mark.one_way
@pytest.mark.any_parser
def test_callback_of_a_server(server):
    server.call(lambda: asyncio.get_running_loop().call_soon(fall))
    server.call(lambda: None)

def test_callback_of_a_loop():
    async def main():
        asyncio.get_running_loop().call_soon(fall)
        await asyncio.sleep(0)
    asyncio.run(main())

def test_task():
    async def main():
        asyncio.get_running_loop().create_task(falls())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    async def falls():
        fall()
    asyncio.run(main())
    gc.collect()

def test_our_own_bug():
    try:
        fall()
    except ValueError:
        logging.getLogger("aserve").exception("internal error; please report this as a bug in aserve")

def test_process(start_process, tmp_path):
    (tmp_path / "falling.py").write_text("""
import threading
def app(environ, start_response):
    def fall():
        raise ValueError("on the floor")
    thread = threading.Thread(target=fall)
    thread.start()
    thread.join()
    start_response("204 No Content", [])
    return []
""")
    import urllib.request
    urllib.request.urlopen(start_process(f"{tmp_path}/falling.py:app").url).close()

def test_thread():
    thread = threading.Thread(target=fall)
    thread.start()
    thread.join()

def test_finalizer():
    class Falls:
        def __del__(self):
            fall()
    Falls()
    gc.collect()
'''


PROVOKED = RAISES[: RAISES.index("@pytest.mark.one_way")]
for _name, _line in (("test_our_own_bug", "please report this"), ("test_task", "another line")):
    _test = RAISES[RAISES.index(f"def {_name}(") :]
    PROVOKED += f'@pytest.mark.provokes("{_line}")\n{_test[: _test.index("def test_", 5)]}'


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> str:
    """Return what pytest says of both files of tests."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(RAISES)
    (folder / "test_provoked.py").write_text(PROVOKED)
    command = [sys.executable, "-Im", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", str(folder)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False
    )
    return done.stdout


@pytest.mark.long_on_pypy
@pytest.mark.slow
def test_what_nobody_has_handled_fails_its_test(said):
    """In a callback, a task, a thread, a finalizer, a process, or logged by us: the test fails, and shows the place."""
    names = [line.split("(")[0][len("def ") :] for line in RAISES.splitlines() if line.startswith("def test_")]
    failed = re.findall(r"^(?:FAILED|ERROR) \S*test_it.py::(\w+)", said, re.MULTILINE)
    assert sorted(failed) == sorted(names), said
    shown = re.split(r"^_{3,} .* _{3,}$", said, flags=re.MULTILINE)[1:]
    assert len(shown) == len(names) + 1  # and a test of the second file
    for part in shown:
        assert "ValueError: on the floor" in part and 'raise ValueError("on the floor")' in part, part


@pytest.mark.long_on_pypy
@pytest.mark.slow
def test_a_fault_that_is_provoked_passes(said):
    """A test with the line named provokes the fault on purpose; any further line still fails the test."""
    assert "test_provoked.py::test_our_own_bug" not in said, said
    assert "test_provoked.py::test_task" in said, said


def test_a_context_is_shown_with_its_traceback():
    """The words of asyncio are there, and the place of the exception."""
    try:
        raise KeyError("lost")
    except KeyError as exc:
        text = describe({"message": "Exception in callback", "exception": exc, "handle": "<Handle>"})
    assert text.startswith("Exception in callback\nhandle: '<Handle>'\nTraceback")
    assert "test_faults.py" in text and text.endswith("KeyError: 'lost'")
    assert describe({}) == "an event loop's exception handler was called"


def test_a_log_is_searched():
    """Faults are shown with the following lines; a failing app, and a provoked fault, are none."""
    log = "app failed\nTraceback\nValueError\nException in callback f()\nTraceback\nOSError"
    assert faults_in(log) == "Exception in callback f()\nTraceback\nOSError"
    assert faults_in(log, ("in callback f",)) == faults_in("app failed\nTraceback") == ""


def test_each_exception_is_there():
    """The table of `make coverage` names existing modules, below 100 alone."""
    assert all((TESTS.parent / name).is_file() and floor < 100 for name, floor in floors.FLOORS.items())


def test_below_a_floor(monkeypatch):
    """A module below the floor, or a missing module, is told; a risen module is not. A new module's floor is 100."""
    monkeypatch.setattr(floors, "missing_in", lambda name: "12")
    table = {"same.py": 99, "low.py": 98, "risen.py": 50, "gone.py": 99}
    found = {"same.py": 99.0, "low.py": 97.9, "risen.py": 60.0, "whole.py": 100.0, "new.py": 99.9}
    assert floors.judge(found, table) == [
        "gone.py: was not measured; is it still there?",
        "low.py: 97.9 %, below its floor of 98 %; not reached: 12",
        "new.py: 99.9 %, below its floor of 100 %; not reached: 12",
    ]
