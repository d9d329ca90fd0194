"""tests/drill.py, with faults that take no time; `make drill` puts in those that it is for."""

from __future__ import annotations

import json

import drill
import pytest
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]
QUIET = drill.Look(status="", exit_status=0, page="", numbers={"aserve_oom_kills_total": 1}, log="it serves\n")
FAULT = drill.Fault(
    "memory runs out", lambda site: None, is_failure=True,
    status=drill.Told("no memory", 5), metrics=drill.Told("aserve_oom_kills_total", 5), log=drill.Told("it serves", 5),
    quiet=drill.Quiet(4.0, "has crashed"),
)  # fmt: skip


def test_what_tells_of_a_fault():
    """Numbers and the log count from the fault on; the exit status must be that of a failure."""
    assert not any(drill.tells(FAULT, QUIET, QUIET).values())
    now = drill.Look("no memory", 0, "no memory", {"aserve_oom_kills_total": 2}, QUIET.log)
    assert drill.tells(FAULT, QUIET, now) == {"status": False, "page": True, "metrics": True, "log": False}
    now = now._replace(exit_status=1, log=2 * QUIET.log)
    assert all(drill.tells(FAULT, QUIET, now).values())


def test_what_still_tells_of_it():
    """Any warning but one that is over, an exit status, what goes on being counted, and a new line of the log that is a warning."""
    over = QUIET._replace(
        status="serving\n\nneeds a look:\n- a worker has crashed\n  do",
        page="a worker has crashed do",
        log=" WARNING  it has crashed\n",
    )
    assert not any(drill.still_tells(FAULT, QUIET, over, over).values())
    now = over._replace(
        status="- no memory\n",
        page="no memory",
        numbers={"aserve_oom_kills_total": 2},
        log=f"{over.log} ERROR  again\n",
    )
    assert all(drill.still_tells(FAULT, QUIET, over, now).values())
    assert drill.still_tells(FAULT, QUIET, now, now._replace(status="", exit_status=1)) == {
        "status": True, "page": True, "metrics": False, "log": False,
    }  # fmt: skip


def test_a_gauge_behind_a_fault():
    """It is nearer to what it was before than to what tells of the fault."""
    fault = FAULT._replace(metrics=drill.Told("aserve_waiting", 5, at_least=10))
    for number, tells in ((8, True), (7, False)):
        now = QUIET._replace(numbers={"aserve_waiting": number})
        before = QUIET._replace(numbers={"aserve_waiting": 3})
        assert drill.still_tells(fault, before, now, now)["metrics"] is tells


@pytest.fixture
def clock(monkeypatch):
    """clock[0]: the time, which only sleeps let pass."""
    now = [0.0]
    monkeypatch.setattr(drill.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(drill.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


@pytest.mark.parametrize(
    ("loud", "found"),
    [
        ((0.0, 2.0), (2.5, [])),
        ((1.0, 2.0), (2.5, [])),
        ((0.0, 99.0), (None, ["status: still tells of it"])),
        ((0.0, 5.0), (None, ["quiet, but not for long"])),
    ],
)
def test_when_it_is_quiet(clock, loud, found):
    """Once nothing tells of the fault for three seconds: since the first of these, within the seconds of the fault."""
    look = lambda: QUIET._replace(exit_status=int(loud[0] <= clock[0] <= loud[1]))  # noqa: E731
    assert drill.wait_for_quiet(FAULT, QUIET, look) == found


@pytest.fixture
def tried(monkeypatch, tmp_path):
    """The names of faults that were put in; wrong[name]: what is to be wrong with it."""
    tried, wrong = [], {}

    def put(fault, folder):
        assert folder.is_dir()
        tried.append(fault.name)
        if "stop" in wrong.get(fault.name, ()):
            raise KeyboardInterrupt
        return {"seconds": {"log": 1.0}, "quiet": 4.5, "wrong": wrong.get(fault.name, [])}

    monkeypatch.setattr(drill, "drill", put)
    monkeypatch.setattr(drill, "RESULTS", tmp_path / "build/drill.json")
    return tried, wrong


def test_a_run_that_was_stopped(tried, capsys):
    """It goes on behind the last that was told; what was not told is tried once more, and a whole run is followed by a new one."""
    (names, wrong), every = tried, [fault.name for fault in drill.FAULTS]
    wrong.update({every[1]: ["log: nothing within 5 s"], every[3]: ["stop"]})
    with pytest.raises(KeyboardInterrupt):
        drill.main([])
    assert names == every[:4] and [*json.loads(drill.RESULTS.read_text())] == every[:3]
    assert (
        f"WRONG  {every[1]}: status - s, page - s, metrics - s, log 1.0 s; quiet again after 4.5 s\n       log: nothing"
        in capsys.readouterr().out
    )
    names.clear()
    wrong.clear()
    assert drill.main([]) == 0
    assert names == [every[1], *every[3:]]
    names.clear()
    assert drill.main([]) == 0 and names == every
    names.clear()
    wrong[every[0]] = ["log"]
    assert drill.main(["--again", every[0]]) == 1 and names == every[:1]


def test_ten_faults():
    """They are ten, of ten names; in each, all tell within twenty seconds, and nothing does behind a minute and a little."""
    assert len({fault.name for fault in drill.FAULTS}) == 10
    for fault in drill.FAULTS:
        assert (
            all(told.seconds <= 20 for told in (fault.status, fault.metrics, fault.log)) and fault.quiet.seconds <= 70
        )
