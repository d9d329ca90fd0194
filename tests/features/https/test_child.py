"""The child: its result, or the reason without one."""

import os
import sys

import pytest

from aserve.features.https import child as child_module
from aserve.features.https.child import CODE, ROOT, ChildError, OrderProcess
from aserve.features.https.folder import FileOwner


def run(monkeypatch, code, **arguments):
    """Return the result of a child with this code."""
    monkeypatch.setattr(child_module, "CODE", code)
    return OrderProcess({"do": "this"}, **arguments).wait()


def test_a_child_reads_its_job_and_prints_its_result(monkeypatch):
    assert run(monkeypatch, "import json, sys; print(json.dumps({'job': json.load(sys.stdin)}))") == {
        "job": {"do": "this"}
    }


def test_where_it_looks(monkeypatch):
    """The child imports this aserve, and nothing from the server's folder."""
    code = "import os, sys, json; print(json.dumps({'folder': os.getcwd(), 'root': sys.argv[-1]}))"
    assert run(monkeypatch, code) == {"folder": "/", "root": ROOT}
    assert (
        os.path.isfile(os.path.join(ROOT, "aserve/features/https/program.py"))
        and "aserve.features.https.program" in CODE
    )


def test_it_inherits_the_lock(monkeypatch):
    """So its turn lasts as long as the child."""
    reading, writing = os.pipe()
    try:
        run(monkeypatch, f"import os; os.write({writing}, b'x'); print('{{}}')", keep=(writing,))
        assert os.read(reading, 9) == b"x"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise ImportError('no acme here')", "ImportError: no acme here"),
        ("import os; os._exit(3)", "ended with status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with status -9"),
    ],
)
def test_no_result_tells_the_last_line(monkeypatch, code, why):
    with pytest.raises(ChildError, match=why):
        run(monkeypatch, code)


def test_a_child_has_a_time_limit(monkeypatch):
    """An endless child is ended: nothing waits for ever."""
    monkeypatch.setattr(child_module, "MAX_SECONDS", 0.05)
    with pytest.raises(ChildError, match=r"took more than 0\.05 s"):
        run(monkeypatch, "import time; time.sleep(60)")


def test_no_python_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ChildError, match=r"/nowhere/python cannot be started: No such file"):
        OrderProcess({})
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ChildError, match="Python cannot be started"):
        OrderProcess({})


def test_python_behind_a_link(monkeypatch, tmp_path):
    """The line names the unreadable file: a virtual environment has only a link to it, which all users may follow."""
    (tmp_path / "python").symlink_to("/nowhere/versions/3.11/bin/python3")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ChildError, match=r"^/nowhere/versions/3\.11/bin/python3 cannot be started: No such file"):
        OrderProcess({})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_owns_the_files(monkeypatch):
    """The child's files belong to the server's later user; a user that may not run Python is an error, too."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")
    monkeypatch.setattr(child_module, "ROOT", "")
    given = []
    monkeypatch.setattr(child_module.subprocess, "Popen", lambda words, **kwargs: given.append(kwargs))
    OrderProcess({}, owner=FileOwner(54321, 7))
    assert (given[0]["user"], given[0]["group"], given[0]["extra_groups"]) == (54321, 7, [])
