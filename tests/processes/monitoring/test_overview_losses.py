"""Requests lost with their worker are told and counted."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from aserve.core.page import State
from aserve.core.tally import LOST
from aserve.extension import Life, Lost
from aserve.features import Config, on_life
from aserve.features.metrics.table import place_of_requests
from aserve.features.metrics.totals import Totals
from aserve.lifecycle.supervision import Supervision
from aserve.processes.children.pages import Pages
from aserve.processes.fleet.plan import Plan
from aserve.processes.monitoring.overview import Overview


def overview_of(on_life, *parts):
    """Return the Overview of a supervisor with these parts of extensions."""
    return Overview(Pages(1), None, SimpleNamespace(statuses=None), lambda context: parts, on_life=on_life)


def worker(was_at, config=None, has_told=False):
    """Return an ended worker, in slot 3, as process 4711."""
    return SimpleNamespace(
        was_at=was_at, plan=Plan(config or Config(), None), slot=3, pid=4711, has_told=has_told, page_number=1, is_worker=True
    )  # fmt: skip


@pytest.fixture
def losses(tmp_path):
    """losses(was_at, before, ...) -> lines of the access log; the worker is in slot 3, as process 4711."""
    totals, part = Totals(), Supervision()
    part.on_lost = totals.add_lost
    made = overview_of(on_life, part)
    config = Config(access_log=str(tmp_path / "log"), access_log_format="json")

    def losses(was_at, before=State.READY, has_told=False, is_oom=False):
        made.on_end(worker(was_at, config, has_told), before, is_oom)
        return (
            [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
            if was_at and not has_told
            else []
        )

    losses.counted = lambda: totals.with_present([]).get(3, [0] * 100)[place_of_requests("none", "cut")]
    losses.by_reason = lambda: {
        name.partition(" ")[2]: n for name, n in made.tally.describe().items() if name.startswith(LOST) and n
    }
    return losses


@pytest.mark.parametrize(
    ("before", "is_oom", "reason"),
    [
        (State.READY, False, "crash"),
        (State.READY, True, "oom"),
        (State.KILLED, False, "killed"),
        (State.DRAINING, False, "crash"),
    ],
)
def test_each_is_told_and_counted(losses, before, is_oom, reason):
    """A line with the dead process, one more among all requests, and one by its reason."""
    lines = losses([(2.0, "GET /a"), (1.0, "GET /b")], before, is_oom=is_oom)
    assert [(line["url.path"], line["process.pid"], line["aserve.end"]) for line in lines] == [
        ("/a", 4711, "worker_died"), ("/b", 4711, "worker_died"),
    ]  # fmt: skip
    assert losses.counted() == 2 and losses.by_reason() == {f'reason="{reason}"': 2}


@pytest.mark.parametrize(("was_at", "has_told"), [([], False), ([(1.0, "GET /a")], True)])
def test_nothing_is_lost(losses, was_at, has_told):
    """The worker had no request, or has finished its requests at the end of its drain."""
    losses(was_at, State.DRAINING, has_told)
    assert losses.counted() == 0 and losses.by_reason() == {}


@pytest.mark.provokes("internal error")
@pytest.mark.parametrize("was_at", [[], [(1.0, "GET /a")]])
def test_extensions_know_of_ends_and_losses(was_at, caplog):
    """Extensions learn of each end, and before it of the losses; a failing extension keeps no other from its turn."""
    events = []

    def fail(event, context):
        events.append((event, context.lost))
        raise KeyError("x")

    overview_of(fail).on_end(worker(was_at), State.READY, is_oom=False)
    lost = Lost(3, 4711, was_at)
    assert events == [*([(Life.DIED, lost)] if was_at else []), (Life.REAPED, lost)]
    assert caplog.text.count("please report this as a bug") == len(events)
