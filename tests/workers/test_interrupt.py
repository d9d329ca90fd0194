"""An exception raised by one thread in another."""

import subprocess
import sys
import threading
import time

import pytest
from harness.waiting import PATIENCE_SECONDS

from aserve.core.errors import RequestTimeout
from aserve.workers.interrupt import find_interrupt


@pytest.mark.parametrize("module", ["ctypes", "__pypy__.thread"])
def test_where_nothing_can_be_raised(monkeypatch, module):
    """An interpreter without the means has everything else."""
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys.implementation, "name", "pypy" if "pypy" in module else "cpython")
    interrupt, retract = find_interrupt()
    assert interrupt is None
    retract()


def test_it_hits_the_thread_and_no_other():
    """A computing thread meets the exception at its next step."""
    interrupt, _ = find_interrupt()
    assert interrupt is not None
    hit, begun = [], threading.Event()

    def compute():
        try:
            begun.set()
            end = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < end:
                time.sleep(0)  # not `pass`: CPython 3.13.0 has the jump of an empty loop outside of `try`
        except RequestTimeout as exc:
            hit.append(exc)

    thread = threading.Thread(target=compute)
    thread.start()
    begun.wait()
    interrupt(thread.ident, RequestTimeout)
    thread.join()
    assert len(hit) == 1


def test_what_has_not_hit_is_taken_back():
    """A thread interrupted at its own hand goes on unharmed once it has retracted that."""
    interrupt, retract = find_interrupt()
    assert interrupt is not None
    outcome = []

    def work():
        try:
            try:
                interrupt(threading.get_ident(), RequestTimeout)
            finally:
                retract()
        except RequestTimeout:
            outcome.append("hit")
        time.sleep(0)
        outcome.append("unharmed")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome[-1] == "unharmed"


TRACED = """
import faulthandler, sys, threading, time
from aserve.core.errors import RequestTimeout
from aserve.workers.interrupt import find_interrupt
faulthandler.dump_traceback_later({patience}, exit=True)
how, is_pending, is_early = {case}
interrupt, retract = find_interrupt()
lock, hit, begun = threading.Lock(), [], threading.Event()
lock.acquire()
def call():
    pass
def see(*arguments):
    return see
def work():
    begun.set()
    try:
        lock.acquire()
        while True:
            call()
            time.sleep(0)
    except RequestTimeout:
        hit.append(1)
    retract()
    call()
ACQUIRES = ("work", work.__code__.co_firstlineno + 3)
if is_early:
    getattr(threading, how)(see)
thread = threading.Thread(target=work, daemon=True)
thread.start()
begun.wait()
seen = []
while len(seen) < 5 or {{*seen[-5:]}} != {{ACQUIRES}}:  # until it waits in lock.acquire(): an interrupt before that would meet it at once
    frame = sys._current_frames()[thread.ident]
    seen.append((frame.f_code.co_name, frame.f_lineno))
    time.sleep(0.01)
if is_early:
    getattr(sys, how)(see)
if is_pending:
    interrupt(thread.ident, RequestTimeout)
else:
    retract()
getattr(sys, how)(see)
call()
assert not hit
lock.release()
if is_pending:
    thread.join()
    assert hit
call()
"""


@pytest.mark.parametrize("how", ["setprofile", "settrace"])
@pytest.mark.parametrize("is_pending", [True, False])
@pytest.mark.parametrize("is_early", [True, False])
def test_threads_that_are_traced(how, is_pending, is_early):
    """All go on, also where a thread has not met its exception yet, or never will: CPython 3.11 let them look for it for ever."""
    script = TRACED.format(case=(how, is_pending, is_early), patience=PATIENCE_SECONDS)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS)
    assert found.returncode == 0, found.stderr
