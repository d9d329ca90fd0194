"""An app's calls to have jobs done."""

import os
import subprocess
import sys

import pytest

from aserve.compat.uwsgi_api import process as process_module
from aserve.compat.uwsgi_api.process import Process
from aserve.compat.uwsgi_api.spooler import functions as module
from aserve.compat.uwsgi_api.spooler.folder import list_jobs, read_job
from aserve.compat.uwsgi_api.spooler.functions import (
    DECORATORS,
    FUNCTIONS,
    do_decorated,
    has_decorated,
    spool,
    spooler_get_task,
    spooler_jobs,
    use_folders,
)
from aserve.compat.uwsgi_api.spooler.runner import SPOOL_OK, SPOOL_RETRY, values_of
from aserve.compat.uwsgi_api.spooler.supervising import SPOOLER_VARIABLE


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    folders = [str(tmp_path / name) for name in "ab"]
    monkeypatch.setattr(module, "_functions", {})
    use_folders(folders)
    yield folders
    use_folders(())


def do_all(folder):
    """Do present jobs as a spooler does; return the results."""
    return [do_decorated(values_of(due.path, *read_job(due.path))) for due in list_jobs(folder)]


def test_spool_takes_a_dict_or_names(folders):
    path = spool(
        {b"a": b"\xff", "b": "\xe9", "c": 5, b"body": b"the body", "at": "5000.5", "priority": 3}, d=memoryview(b"x")
    )
    (due,) = list_jobs(folders[0])
    assert os.fsencode(due.path) == path and (due.priority, due.at) == (3, 5000.5)
    assert read_job(due.path) == ({b"a": b"\xff", b"b": b"\xc3\xa9", b"c": b"5", b"d": b"x"}, b"the body")
    assert spooler_jobs() == [path] and FUNCTIONS["send_to_spooler"] is FUNCTIONS["spool"] is spool
    assert FUNCTIONS["set_spooler_frequency"](5) is True
    task = spooler_get_task(path)
    assert (
        task[b"a"] == b"\xff"
        and task["body"] == b"the body"
        and task["spooler_task_name"] == os.path.basename(due.path)
    )
    os.unlink(path)
    assert spooler_get_task(path) is None


def test_another_folder_may_be_named(folders):
    spool({b"spooler": os.fsencode(folders[1])})
    assert len(list_jobs(folders[1])) == 1 and list_jobs(folders[0]) == []
    with pytest.raises(ValueError, match="'/tmp' is no folder of jobs: --spooler has /"):
        spool(spooler="/tmp")


def test_decorators_make_calls_jobs(folders):
    """A call is a job; the function gets the values as text, and its result counts only with spoolraw."""
    done = []

    def do(values):
        done.append(values)
        return 7

    assert not has_decorated()
    for name, result in (("spool", SPOOL_OK), ("spoolforever", SPOOL_RETRY), ("spoolraw", 7)):
        spooled = DECORATORS[name](do)
        assert spooled.__name__ == "do" and has_decorated()
        path = spooled({"a": b"\xff"}, b="c", body=b"d")
        assert do_all(folders[0]) == [result]
        assert done.pop() == {
            "spooler_task_name": os.path.basename(os.fsdecode(path)),
            "a": b"\xff",
            "b": "c",
            "body": "d",
        }
        os.unlink(path)
    os.unlink(spooled.spool({"a": "b"}))
    with pytest.raises(KeyError):
        do_decorated({b"ud_spool_func": b"gone"})


def test_arguments_are_passed_if_asked(folders):
    done = []

    @DECORATORS["spool"](pass_arguments=True)
    def add(*arguments, **named):
        done.append((arguments, named))

    add(1, [2], x={"y": None}, priority=9, at=5)
    (due,) = list_jobs(folders[0])
    assert (due.priority, due.at) == (9, 5) and do_all(folders[0]) == [SPOOL_OK]
    assert done == [((1, [2]), {"x": {"y": None}})]


def test_what_a_client_sends(folders):
    """A client's names replace none of ours, and none is unpickled for a function that takes a dict."""
    done = []
    form = {
        "args": "no pickle",
        "kwargs": "no pickle",
        "ud_spool_func": "gone",
        b"ud_spool_func": "gone",
        "ud_spool_ret": "0",
    }
    for name, result in (("spool", SPOOL_OK), ("spoolforever", SPOOL_RETRY), ("spoolraw", None)):
        path = DECORATORS[name](lambda values: done.append(values))(form)
        assert do_all(folders[0]) == [result]
        values = done.pop()
        assert (values["args"], values["kwargs"]) == ("no pickle", "no pickle")
        os.unlink(path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pids_are_of_the_supervisors_spoolers(monkeypatch):
    """Spoolers are children of the supervisor with a folder of jobs; other processes are none, nor another user's."""
    monkeypatch.setattr(process_module, "_present", Process(0, os.getpid()))
    code = "import sys; print('begun', flush=True); sys.stdin.read()"
    started = [
        subprocess.Popen([sys.executable, "-I", "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for env in ({SPOOLER_VARIABLE: "/jobs"}, {})
    ]
    for each in started:
        assert each.stdout.readline() == b"begun\n"
    assert module.spooler_pids() == [started[0].pid] and module.spooler_pid() == started[0].pid
    for each in started:
        each.communicate()
    assert module.spooler_pids() == [] and module.spooler_pid() == 0
    monkeypatch.setattr(process_module, "_present", Process())
    assert module.spooler_pids() == []
    monkeypatch.setattr(module, "_children_of", lambda pid: [1 << 30])
    assert module.spooler_pids() == []
