"""The time that counts for limits."""

from __future__ import annotations

from aserve.processes.clock import STOPPED_SECONDS, TURN_SECONDS, Clock


class Machine:
    """What the clock looks at."""

    def __init__(self):
        self.now = 100.0
        self.clock = Clock(lambda: self.now)

    def after(self, seconds):
        """Let so much time pass; return what the clock shows then."""
        self.now += seconds
        return self.clock()


def test_it_goes_on():
    """As the system's does, also while another process has the CPU."""
    machine = Machine()
    assert [machine.after(seconds) for seconds in (0.5, 1.0, 2.9)] == [100.5, 101.5, 104.4]
    assert machine.clock.seconds_to(105.4) == 1.0 and machine.clock.seconds_to(3.0) == 0.0


def test_a_stop(caplog):
    """The time for which the process was stopped is left out, but for that of one wait, and logged; each time."""
    machine = Machine()
    assert machine.after(60.0) == 101.0 and "this process was stopped for 59 s; that time does not" in caplog.text
    assert machine.after(1.0) == 102.0
    assert machine.after(TURN_SECONDS + STOPPED_SECONDS) == 103.0 and caplog.text.count("was stopped for") == 2
