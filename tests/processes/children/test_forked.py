"""A forked process around its work: its reason for failing, and signals for others."""

import errno
import os
import select
import signal

import pytest

from aserve.core import forks
from aserve.core.errors import BindError
from aserve.lifecycle.load_error import LoadError
from aserve.processes.children import forked
from aserve.processes.children.channel import Channel
from aserve.settings import ConfigError


@pytest.fixture
def ends():
    """The supervisor's end of a channel, and the process's."""
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def failing(fault):
    """Return work that fails in this way."""

    def run():
        raise fault

    return run


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (LoadError("no module 'a'", "Traceback: here\n"), "no module 'a'"),
        (BindError("cannot write the access log"), "cannot write the access log"),
        (ConfigError("no certificate"), "no certificate"),
        # --user may not read the interpreter's folder: no bug.
        (ImportError("No module named 'x'"), "it cannot import what aserve needs: No module named 'x'"),
    ],
)
def test_a_failure_tells_its_reason(ends, fault, why):
    """The supervisor reads the reason, with the app's traceback; the exit status is 1."""
    ours, theirs = ends
    assert forked.tell_failure(theirs, failing(fault)) == 1
    assert ours.receive()[0] == {"say": "failed", "why": why, "traceback": getattr(fault, "app_traceback", "")}


def test_work_that_succeeds(ends):
    """The work's exit status is the process's, and the supervisor reads nothing."""
    ours, theirs = ends
    assert forked.tell_failure(theirs, lambda: 3) == 3
    with pytest.raises(BlockingIOError):
        ours.receive()


def test_what_the_surroundings_lack(ends, caplog):
    """A lack is no bug of ours: the supervisor reads the advice."""
    ours, theirs = ends
    assert forked.tell_failure(theirs, failing(OSError(errno.EMFILE, "Too many open files"))) == 1
    assert ours.receive()[0]["why"].startswith("too many open files: `ulimit -n` is ")
    assert "internal error" not in caplog.text


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours(ends, caplog):
    """A bug's traceback is in this process's log; the supervisor reads the exception alone."""
    ours, theirs = ends
    assert forked.tell_failure(theirs, failing(ValueError("a bug"))) == 1
    assert ours.receive()[0] == {"say": "failed", "why": "ValueError: a bug", "traceback": ""}
    assert "internal error; please report this as a bug in aserve" in caplog.text


def test_a_long_traceback_fits(ends):
    """The end of a long traceback is kept, whatever its characters."""
    ours, theirs = ends
    fault = LoadError("\u00e9" * 10_000, "\U0001f600" * 100_000 + "the end")
    assert forked.tell_failure(theirs, failing(fault)) == 1
    said = ours.receive()[0]
    assert said["why"] == "\u00e9" * 500 and said["traceback"].endswith("\U0001f600the end")


def test_an_order_to_end_before_the_import(ends, monkeypatch):
    """Such an order ends the process at once: an import may take its time, or hang."""
    ours, theirs = ends
    killed = []
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    ours.send({"do": "drain", "stopping": True})
    with forked.dying_with(theirs):
        assert killed == [(os.getpid(), signal.SIGKILL)]


@pytest.mark.parametrize("is_told", [True, False])
def test_the_end_of_the_supervisor_during_the_import(ends, is_told):
    """The kernel kills the process, as at the supervisor's order to end."""
    ours, theirs = ends
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            with forked.dying_with(theirs):
                theirs.send({"say": "it imports"})
                signal.pause()
        finally:
            os._exit(0)
    theirs.close()
    select.select([ours], [], [])
    assert ours.receive() is not None  # so the kernel knows of it by now
    if is_told:
        ours.send({"do": "drain", "stopping": True})
    ours.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_signals_that_are_left_to_the_supervisor(monkeypatch):
    """The supervisor's signals end nothing here; a process forked by the app gets the earlier handlers."""
    monkeypatch.setattr(forked.faulthandler, "enable", lambda: None)
    earlier = dict.fromkeys(forked.LEFT_AT_START, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    for number, handler in earlier.items():
        signal.signal(number, handler)  # the suite may run under `nohup`, or by a shell's `&`
    forked.prepare_process()
    for number in forked.LEFT_AT_START:
        signal.raise_signal(number)
    assert {number: before for number, (_, before) in forks._handlers.items()} == earlier
