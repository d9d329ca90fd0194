"""The app's own time limits: the process ends at the limit, at no cost to further requests."""

import os
import signal
import threading
import time

import pytest

from aserve.compat.uwsgi_api import harakiri as module
from aserve.compat.uwsgi_api import process as process_module
from aserve.compat.uwsgi_api.harakiri import end_overdue, set_user_harakiri
from aserve.compat.uwsgi_api.process import Process, become
from aserve.compat.uwsgi_api.request import remembering


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """The signals sent by this process to itself; no thread looks at limits."""
    found = []
    monkeypatch.setattr(process_module, "_present", Process())
    monkeypatch.setattr(module, "_limits", {})
    monkeypatch.setattr(module, "_looking", [None])
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid == os.getpid(), number)))
    return found


@pytest.mark.parametrize(
    ("process", "signals", "text"),
    [
        (Process(1, 4242), [(True, signal.SIGTERM)], "it is replaced"),
        (Process(1, 0), [], "nothing can replace it"),
        (Process(0, 4242, mule_id=2), [(True, signal.SIGKILL)], "it is killed"),
    ],
)
def test_an_overdue_process_is_replaced(sent, caplog, process, signals, text):
    """A worker is replaced, a mule is killed; the log tells the thread's place, once."""
    become(process)
    set_user_harakiri(3)
    end_overdue(time.monotonic())
    assert sent == [] and not caplog.messages
    end_overdue(time.monotonic() + 3)
    end_overdue(time.monotonic() + 3)
    assert sent == signals and len(caplog.messages) == 1
    assert text in caplog.messages[0] and "test_an_overdue_process_is_replaced" in caplog.messages[0]


def test_a_done_call_ends_nothing(sent):
    set_user_harakiri(3)
    set_user_harakiri(0)
    set_user_harakiri(0)
    end_overdue(time.monotonic() + 3)
    assert sent == []


def test_a_request_that_has_ended(sent):
    """A request's limit ends with it, also without the app's word; so does a thread's."""
    become(Process(1, 4242))

    def app(environ, start_response):
        set_user_harakiri(3)
        end_overdue(time.monotonic())
        assert len(module._limits) == 1

    remembering(app)({}, None)
    thread = threading.Thread(target=set_user_harakiri, args=(3,))
    thread.start()
    thread.join()
    end_overdue(time.monotonic() + 3)
    assert sent == [] and module._limits == {}


def test_a_thread_looks(sent, monkeypatch):
    """The thread is started by the first limit; a forked child has neither."""
    began, threads = threading.Event(), []
    monkeypatch.setattr(module, "_looking", [])

    def look(now):
        began.set()
        threads.extend(module._looking)
        module._looking.clear()

    monkeypatch.setattr(module, "end_overdue", look)
    set_user_harakiri(3)
    assert began.wait(20)
    (thread,) = threads
    thread.join(20)
    module._looking.append(thread)
    set_user_harakiri(3)
    module._forget()
    assert module._looking == [] and module._limits == {}
