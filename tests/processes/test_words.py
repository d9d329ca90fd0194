"""Messages of children, and bugs of ours in handling one."""

from __future__ import annotations

import signal

import pytest
from harness.supervising import told

from aserve.core.page import MOLD, TRIAL
from aserve.processes.child import Child
from aserve.processes.words import Words

TERM = signal.SIGTERM


@pytest.mark.parametrize("slot", [TRIAL, 1, MOLD])
def test_the_kind_of_process(slot):
    """The same word is handled by another noun if a worker, a mold or a trial says it."""
    words, heard = Words(), []
    for number, table in {TRIAL: words.of_trials, 1: words.of_workers, MOLD: words.of_molds}.items():
        table["ready"] = lambda child, message, fds, number=number: heard.append((number, child.slot, fds))
    words.hear(Child(7, slot, 1, None, None, 0, 0), {"say": "ready"}, [3])
    assert heard == [(slot, slot, [3])]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours(supervised, caplog):
    """It is logged, and the loop goes on."""
    one = supervised(1)
    (child,) = one.start()
    one.say(child, say="nonsense")
    assert "internal error; please report this as a bug in aserve" in caplog.text
    one.signal(TERM)
    assert told(one, child) == [{"do": "drain", "stopping": True}]


@pytest.mark.provokes("internal error; please report this as a bug in aserve")
def test_a_bug_of_ours_in_last_words(supervised):
    """Who has said them is replaced, like any other."""
    one = supervised(1)
    (child,) = one.start()
    one.system.workers_ends[child.pid].send({"say": "nonsense"})
    one.system.ends.append((child.pid, 9))
    one.reap()
    assert one.children == []
    (successor,) = one.turn(0.11)
    assert successor.slot == child.slot
