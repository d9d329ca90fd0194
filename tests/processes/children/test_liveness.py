"""A worker's event loop from outside: when to warn, when to replace, and when a process is only stopped."""

import pytest

from aserve.core.footprint import Activity
from aserve.processes.children.liveness import Finding, Pulse, Verdict

WELL = Finding(Verdict.WELL)


class Watched:
    """A pulse, and a clock with a second for each look."""

    def __init__(self, warning_seconds=10.0, timeout_seconds=60.0):
        self.pulse = Pulse(warning_seconds, timeout_seconds)
        self.now = 1000.0
        self.tick = 0
        self.cpu_seconds = 5.0
        self.state = "S"

    def look(self, turns=False, cpu=0.0, is_known=True):
        self.now += 1.0
        self.tick += turns
        self.cpu_seconds += cpu
        activity = Activity(self.state, self.cpu_seconds) if is_known else None
        return self.pulse.look(self.tick, activity, self.now)

    def verdicts(self, count, **how):
        return [self.look(**how).verdict for _ in range(count)]


def test_a_loop_that_turns():
    """Nothing is to be done, however long."""
    watched = Watched()
    assert {watched.look(turns=True) for _ in range(500)} == {WELL}


def test_a_loop_that_stands_still():
    """One warning after the first time, and a replacement from the second time on."""
    watched = Watched()
    watched.look(turns=True)
    assert watched.verdicts(9) == [Verdict.WELL] * 9
    assert watched.verdicts(1) == [Verdict.WARN]
    assert watched.verdicts(49) == [Verdict.WELL] * 49
    assert watched.verdicts(3) == [Verdict.REPLACE] * 3


def test_one_that_turns_again():
    """After a warning the turn is told; the next time begins anew."""
    watched = Watched()
    watched.look(turns=True)
    watched.verdicts(5)
    assert watched.look(turns=True) == WELL
    assert watched.verdicts(10)[-1] == Verdict.WARN
    watched.verdicts(24)
    assert watched.look(turns=True) == Finding(Verdict.RECOVERED, "its event loop turns again, after 34 s")
    assert watched.look(turns=True) == WELL
    assert watched.verdicts(10) == [Verdict.WELL] * 9 + [Verdict.WARN]


def test_one_that_turns_again_after_all():
    """A loop under replacement is told to turn again, too."""
    watched = Watched(0.0, 3.0)
    watched.look(turns=True)
    assert watched.verdicts(4)[-2:] == [Verdict.REPLACE] * 2
    assert watched.look(turns=True).verdict == Verdict.RECOVERED


@pytest.mark.parametrize(
    ("warning", "timeout", "verdicts"),
    [(0.0, 0.0, {Verdict.WELL}), (3.0, 0.0, {Verdict.WELL, Verdict.WARN}), (0.0, 5.0, {Verdict.WELL, Verdict.REPLACE})],
)
def test_without_the_one_or_the_other(warning, timeout, verdicts):
    """0 is never."""
    watched = Watched(warning, timeout)
    watched.look(turns=True)
    assert {*watched.verdicts(100)} == verdicts


@pytest.mark.parametrize(
    ("state", "cpu", "is_known", "text"),
    [
        ("S", 0.0, True, "its event loop has not turned for 10 s, and the process has used 0.0 s of CPU time meanwhile: it waits for something"),
        ("D", 0.0, True, "and the process has used 0.0 s of CPU time meanwhile: it waits for a disk or a network file system"),
        ("R", 0.98, True, "and the process has used 9.8 s of CPU time meanwhile: it computes, or code in C holds the GIL"),
        ("D", 0.5, True, "and the process has used 5.0 s of CPU time meanwhile: it computes, or code in C holds the GIL"),
        ("S", 0.0, False, "its event loop has not turned for 10 s"),
    ],
)  # fmt: skip
def test_what_it_does_meanwhile(state, cpu, is_known, text):
    """CPU time tells a waiting loop from a computing one, where known."""
    watched = Watched()
    watched.state = state
    watched.look(turns=True, is_known=is_known)
    for _ in range(10):
        found = watched.look(cpu=cpu, is_known=is_known)
    assert found.verdict == Verdict.WARN and found.text.endswith(text)


@pytest.mark.parametrize("state", ["T", "t"])
def test_a_worker_that_was_stopped(state):
    """A process stopped by a signal or a debugger does not hang, however long; nor when it goes on."""
    watched = Watched()
    watched.look(turns=True)
    watched.state = state
    assert {*watched.verdicts(500)} == {Verdict.WELL}
    watched.state = "R"
    assert watched.look() == WELL and watched.look(turns=True) == WELL
