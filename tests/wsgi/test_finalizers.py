"""A finalizer's calls do not wait: neither on the event loop's thread, nor within code of ours."""

import asyncio
import threading
import types

import pytest

from aserve.core.errors import AppError
from aserve.wsgi.finalizers import refuse_inside


def within(name, call):
    """Call this within a function of the module of this name, as a finalizer is called there."""

    def caller():
        call()

    types.FunctionType(caller.__code__, {"__name__": name}, "caller", None, caller.__closure__)()


def write(loop=None):
    refuse_inside(loop)


async def test_a_finalizer_on_the_event_loop():
    """The loop must not wait for a worker; an app's own loop may call."""
    write(object())
    with pytest.raises(AppError, match="on the event loop's thread"):
        write(asyncio.get_running_loop())


def test_a_caller_between():
    """On PyPy functools.partial() has a frame: the look begins at the module called by the app."""
    eval("refuse(None, called)", {"refuse": refuse_inside, "called": globals()})


@pytest.mark.parametrize("name", ["aserve.core.budgets", "aserve.connections.lane.wire_fast", "aserve.wsgi.response"])
def test_a_finalizer_within_code_that_locks(name):
    """The lock may be held by this very thread."""
    with pytest.raises(AppError, match=name):
        within("app", lambda: within(name, lambda: within("app", write)))


def test_the_app_itself():
    """The app may call: within the gateway, through wrappers, and in its own threads, without frames of ours."""
    within("aserve.connections.connection", lambda: within("aserve.wsgi.gateway", lambda: within("app", write)))
    within("aserve.core.x", lambda: within("aserve.wsgi.gateway", lambda: within("aserve.features.x", write)))
    within("threading", write)


def test_a_wait_within_the_module_that_is_called():
    """Frames of the asking module are the call's own: a live body waits in one that may lock."""
    namespace = {"__name__": "aserve.core.body", "refuse_inside": refuse_inside}
    exec("def read():\n    read_until()\ndef read_until():\n    refuse_inside(None)", namespace)
    within("app", namespace["read"])
    with pytest.raises(AppError, match=r"aserve\.core\.budgets"):
        within("aserve.core.budgets", lambda: within("app", namespace["read"]))


class Finalizing(threading.Thread):
    """A thread with garbage in Thread.start, and in its first lines."""

    def __init__(self, outcomes):
        self.outcomes = outcomes
        super().__init__()
        self._started, self._has_begun = self, threading.Event()

    def __hash__(self):
        self.finalize("start")
        return super().__hash__()

    def finalize(self, where):
        try:
            write()
        except AppError as exc:
            self.outcomes[where] = str(exc)
        else:
            self.outcomes[where] = "called"

    def is_set(self):
        return self._has_begun.is_set()

    def set(self):
        self.finalize("first lines")
        self._has_begun.set()

    def wait(self, timeout=None):
        return self._has_begun.wait(timeout)

    def run(self):
        self.finalize("run")


def test_a_finalizer_while_a_thread_starts():
    """The event loop may wait in Thread.start for this very thread: a call that waits for the loop would stop loop and thread."""
    outcomes = {}
    thread = Finalizing(outcomes)
    thread.start()
    thread.join(10)
    refusal = "a finalizer or signal handler called the response of a request within threading"
    assert outcomes == {"start": refusal, "first lines": refusal, "run": "called"}
