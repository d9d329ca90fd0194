"""An exception that one thread raises in another."""

from __future__ import annotations

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


@pytest.mark.interrupted
def test_it_hits_the_thread_and_no_other():
    """A thread that computes meets the exception at its next step."""
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


@pytest.mark.interrupted
def test_what_has_not_hit_is_taken_back():
    """A thread that was interrupted at its own hand goes on unharmed once it has retracted that."""
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
