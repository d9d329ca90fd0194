"""Missing workers, since when, and why."""

import re

from aserve.processes.fleet import absences as absences_module
from aserve.processes.fleet.absences import Absences


def test_one_absence_tells_time_and_reason(monkeypatch):
    """The time is of the absence's beginning, the reason the last one."""
    absences = Absences()
    assert not absences
    absences.begin(2, "it was killed by SIGKILL")
    monkeypatch.setattr(absences_module.time, "time", lambda: 0.0)  # not asked for again
    absences.begin(2, "no module 'shop'")
    text = absences.describe(4)
    assert re.fullmatch(
        r"1 of 4 workers is missing since 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d, because no module 'shop'", text
    )
    assert absences
    assert absences.pop(2) and not absences


def test_of_several_the_longest_is_told(monkeypatch):
    """The longest absence is told."""
    absences, now = Absences(), [2e9]
    monkeypatch.setattr(absences_module.time, "time", lambda: now[0])
    absences.begin(1, "one")
    now[0] -= 60
    absences.begin(2, "two")
    assert absences.describe(2).startswith("2 of 2 workers are missing since 2033-")
    assert absences.describe(2).endswith("because two")
    assert absences.pop(2) and absences.describe(2).endswith("because one")
