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
)  # fmt: skip


def test_what_tells_of_a_fault():
    """Numbers and the log count from the fault on; the exit status must be that of a failure."""
    assert not any(drill.tells(FAULT, QUIET, QUIET).values())
    now = drill.Look("no memory", 0, "no memory", {"aserve_oom_kills_total": 2}, QUIET.log)
    assert drill.tells(FAULT, QUIET, now) == {"status": False, "page": True, "metrics": True, "log": False}
    now = now._replace(exit_status=1, log=2 * QUIET.log)
    assert all(drill.tells(FAULT, QUIET, now).values())


@pytest.fixture
def tried(monkeypatch, tmp_path):
    """The names of faults that were put in; wrong[name]: what is to be wrong with it."""
    tried, wrong = [], {}

    def put(fault, folder):
        assert folder.is_dir()
        tried.append(fault.name)
        if "stop" in wrong.get(fault.name, ()):
            raise KeyboardInterrupt
        return {"seconds": {"log": 1.0}, "wrong": wrong.get(fault.name, [])}

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
        f"WRONG  {every[1]}: status - s, page - s, metrics - s, log 1.0 s\n       log: nothing"
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
    """They are ten, of ten names; in each, all tell within twenty seconds."""
    assert len({fault.name for fault in drill.FAULTS}) == 10
    for fault in drill.FAULTS:
        assert all(told.seconds <= 20 for told in (fault.status, fault.metrics, fault.log))
