"""Process 1 hands signals on, reaps, and ends with the server. The system is replaced; tests/e2e/test_first_process.py has the real one."""

import errno
import os
import signal

import pytest

from aserve.core import descriptors, forks
from aserve.lifecycle import first_process
from aserve.lifecycle.first_process import leave_first_process


class Ended(Exception):
    """Raised in place of an end."""


@pytest.fixture
def system(monkeypatch):
    """Return the system's calls; this is process 1."""
    done = []
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(os, "kill", lambda *what: done.append(what))
    monkeypatch.setattr(descriptors, "list_open", lambda: {2, 5})
    monkeypatch.setattr(os, "close", done.append)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda how, signals: {signal.SIGUSR2})
    monkeypatch.setattr(forks, "disown_all_handlers", lambda: {signal.SIGTERM: None})
    monkeypatch.setattr(forks, "own_handlers", lambda earlier, are_first: done.append((earlier, are_first)))

    def end(status):
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    return done


def test_another_process_goes_on(monkeypatch):
    """There is nothing to do elsewhere."""
    monkeypatch.setattr(os, "fork", None)
    leave_first_process({})


def test_the_server_is_the_child(system, monkeypatch):
    """Handlers stay, and the child has the process's names."""
    pids = iter([1, 7, 7])
    monkeypatch.setattr(os, "getpid", lambda: next(pids))
    monkeypatch.setattr(os, "fork", lambda: 0)
    environ = {"LISTEN_PID": "1", "WATCHDOG_PID": "5"}
    leave_first_process(environ)
    assert environ == {"LISTEN_PID": "7", "WATCHDOG_PID": "5"}
    assert system == [({signal.SIGTERM: None}, True)]


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3 << 8, 3), (signal.SIGKILL, 137)])
def test_the_first_process_stands_by(system, monkeypatch, status, code):
    """Signals reach the server; other processes are reaped, until the server ends."""
    signals = iter([signal.SIGTERM, signal.SIGCHLD, signal.SIGCHLD, signal.SIGCHLD])
    ended = iter([(5, 0), (0, 0), ChildProcessError(errno.ECHILD, ""), (9, 0), (77, status)])

    def waitpid(*_):
        found = next(ended)
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(os, "fork", lambda: 77)
    monkeypatch.setattr(first_process.signal, "sigwait", lambda _: next(signals))
    monkeypatch.setattr(os, "waitpid", waitpid)
    with pytest.raises(Ended, match=f"^{code}\\Z"):
        leave_first_process({})
    assert system == [5, (77, signal.SIGTERM)]
