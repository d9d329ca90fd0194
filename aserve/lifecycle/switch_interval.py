"""Shortens how long a thread of CPython may keep the GIL while others wait for it.

Owns:     shorten_switch_interval.
Thread:   the main thread, before further threads.
Spec:     sys.setswitchinterval.
Not here: a program that calls aserve.run or makes a Server, with threads of its own (docs/embedding.md); the time to wake another worker
          (workers/executor.py).

A computing request keeps the GIL for CPython's whole interval whenever a quick request releases the GIL to wait for a client. With 5 ms, a few
computing requests leave time for a few hundred quick ones a second; with 1 ms for as many as the CPU can do.
"""

from __future__ import annotations

import sys

from ..workers.cpu import HAS_GIL

CPYTHON_SECONDS = 0.005  # the default since Python 3.2
# Measured 2026-11-26 with 3.11, eight threads on one CPU, two clients of an app that computes for 20 ms beside four of `hello`: 8,417 to 12,497
# quick requests a second, with 5 ms 688 to 2,281. With ten clients of the first kind each request has 212 context switches, not 30; CPU time a
# request did not differ beyond the noise, 10 %.
SECONDS = 0.001


def shorten_switch_interval() -> bool:
    """Shorten the wait for the GIL, on CPython; return whether a change was made. Keep an interval set before."""
    if not HAS_GIL or sys.implementation.name != "cpython" or sys.getswitchinterval() != CPYTHON_SECONDS:
        return False
    sys.setswitchinterval(SECONDS)
    return True
