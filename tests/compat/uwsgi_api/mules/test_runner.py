"""The process of a mule; tests/e2e/test_uwsgi_mules.py has real ones."""

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


def test_messages_go_to_the_apps_function(run, post, caplog):
    """Each message goes to the app's function; a failure is logged, and the next message comes. The end waits for the running call."""
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
    """A message without a function is dropped, and the log advises."""
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
    def hook(message):
        raise fault(3)

    post.send("2", b"m")
    if fault is SystemExit:
        assert run(hook=lambda: hook) == 3
    else:
        with pytest.raises(KeyboardInterrupt):
            run(hook=lambda: hook)


def test_a_wait_is_ended(run):
    def begin():
        signal.signal(signal.SIGALRM, lambda *what: end())
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    before = signal.getsignal(signal.SIGALRM)
    try:
        assert run(begin=begin) == 0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_just_before_a_wait(run, post):
    """The signal ends the wait, though the kernel gives it to another thread: as one that comes before the poll, it does not interrupt it."""

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


def test_a_file_is_run_as_a_script(run, tmp_path, caplog):
    """The file is run as a script; the script's end ends the process, and the supervisor starts another."""
    file = tmp_path / "mule.py"
    file.write_text("assert __name__ == '__main__'\nopen('done', 'w').close()\n")
    folder = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert run(str(file)) == 1
    finally:
        os.chdir(folder)
    assert (tmp_path / "done").exists() and "the program of mule 2 has ended" in caplog.text


def test_a_function_is_called(run):
    """The function is imported, and called; SIGTERM ends a function without a wish for messages in the midst."""
    assert run(f"{__name__}:end") == 0


def test_a_program_with_messages(run, post):
    """The program ends when it asks for the next message, or for a while."""
    post.send("2", b"m")
    found = []

    def begin():
        found.append(FUNCTIONS["mule_get_msg"](timeout=0))
        end()
        found.append("still here")
        FUNCTIONS["mule_get_msg"]()

    assert run(begin=begin) == 0 and found == [b"m", "still here"]


def test_no_message_lets_the_program_go_on(run):
    """A wait without a message is followed by the program's next act; it may be ended there."""
    found = []

    def begin():
        found.append(FUNCTIONS["mule_get_msg"](timeout=0))
        end()
        found.append("never")

    assert run(begin=begin) == 0 and found == [b""]
