"""The process of a mule; tests/e2e/test_uwsgi_mules.py has real ones."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from aserve.compat.uwsgi_api.mules import functions
from aserve.compat.uwsgi_api.mules.functions import FUNCTIONS
from aserve.compat.uwsgi_api.mules.runner import run_mule
from aserve.compat.uwsgi_api.process import Process, become

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mules need Linux")


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """SIGTERM and the way to wait for messages are as before behind the test."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(functions, "waiting", functions.waiting)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def run(post, caplog):
    """Run mule 2: run(program, hook=..., begin=...) -> its status."""
    caplog.set_level("INFO", "aserve")
    become(Process(0, mule_id=2))
    return lambda program="-", hook=lambda: None, begin=lambda: None: run_mule(2, post, program, begin, hook)


def end():
    """Be told to end."""
    os.kill(os.getpid(), signal.SIGTERM)


def test_messages(run, post, caplog):
    """Each goes to the app's function; one that fails is logged, and the next one comes. The end waits for the one that is under way."""
    found = []

    def hook(message):
        found.append(message)
        if message == b"fails":
            raise LookupError(message)
        if message == b"end":
            end()
            found.append(b"still here")

    for message in (b"one", b"fails", b"end", b"not any more"):
        post.send("2", message)
    assert run(hook=lambda: hook) == 0
    assert found == [b"one", b"fails", b"end", b"still here"]
    assert "the function for a message of a mule has failed" in caplog.text and caplog.messages[-1] == "stopped"


def test_without_a_function(run, post, caplog):
    """A message that has no function is dropped, and the log says what to write."""
    found = iter([None, lambda message: end()])
    post.send("2", b"lost")
    post.send("2", b"end")
    assert run(hook=lambda: next(found)) == 0
    assert (
        "a message of 4 octets is dropped: the app has no function for it (uwsgi.mule_msg_hook, or @mulefunc)"
        in caplog.messages
    )


@pytest.mark.parametrize("fault", [KeyboardInterrupt, SystemExit])
def test_ends_by_itself(run, post, fault):
    """What is the end of a process ends it."""

    def hook(message):
        raise fault(3)

    post.send("2", b"m")
    if fault is SystemExit:
        assert run(hook=lambda: hook) == 3
    else:
        with pytest.raises(KeyboardInterrupt):
            run(hook=lambda: hook)


def test_a_wait_is_ended(run):
    """One that waits for a message ends at once."""

    def begin():
        signal.signal(signal.SIGALRM, lambda *what: end())
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    before = signal.getsignal(signal.SIGALRM)
    try:
        assert run(begin=begin) == 0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_just_before_a_wait(run, post):
    """It ends the wait, though the kernel gives it to another thread: as one that comes before the poll, it does not interrupt it."""

    def end_later():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        time.sleep(0.05)
        end()

    thread = threading.Thread(target=end_later)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        assert run(begin=thread.start) == 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        thread.join()


def test_a_file(run, tmp_path, caplog):
    """It is run as a script; its end is the end of the process, which the supervisor makes good."""
    file = tmp_path / "mule.py"
    file.write_text("assert __name__ == '__main__'\nopen('done', 'w').close()\n")
    folder = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert run(str(file)) == 1
    finally:
        os.chdir(folder)
    assert (tmp_path / "done").exists() and "the program of mule 2 has ended" in caplog.text


def test_a_function(run):
    """It is imported, and called; SIGTERM ends it where it is, if it has asked for no message."""
    assert run(f"{__name__}:end") == 0


def test_a_program_with_messages(run, post):
    """It ends when it asks for the next one, or for a while."""
    post.send("2", b"m")
    found = []

    def begin():
        found.append(FUNCTIONS["mule_get_msg"](timeout=0))
        end()
        found.append("still here")
        FUNCTIONS["mule_get_msg"]()

    assert run(begin=begin) == 0 and found == [b"m", "still here"]


def test_no_message(run):
    """A wait that is over without a message is followed by what the program does; it may be ended there."""
    found = []

    def begin():
        found.append(FUNCTIONS["mule_get_msg"](timeout=0))
        end()
        found.append("never")

    assert run(begin=begin) == 0 and found == [b""]
