"""Requests lost with their worker are told and counted."""

import json
from types import SimpleNamespace

import pytest

from aserve.core.page import State, new_page
from aserve.core.tally import LOST
from aserve.extension import Life, Lost
from aserve.features import Config, on_life
from aserve.processes.children.child import Child
from aserve.processes.fleet.plan import Plan
from aserve.processes.monitoring.overview import Overview


def overview_of(on_life):
    """Return the Overview of a supervisor without extensions."""
    return Overview(None, SimpleNamespace(statuses=None), on_life=on_life)


def new_child(was_at, config=None, has_told=False):
    """Return the ended worker in slot 3, process 4711."""
    child = Child(4711, 3, 1, Plan(config or Config(), None), None, 1, -1)
    child.page, child.was_at, child.has_told = new_page(), was_at, has_told
    return child


@pytest.fixture
def losses(tmp_path):
    """losses(was_at, before, ...) -> lines of the access log; the worker is in slot 3, as process 4711."""
    made = overview_of(on_life)
    config = Config(access_log=str(tmp_path / "log"), access_log_format="json")

    def losses(was_at, before=State.READY, has_told=False, is_oom=False):
        made.on_end(new_child(was_at, config, has_told), before, is_oom)
        return (
            [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
            if was_at and not has_told
            else []
        )

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
    assert losses.by_reason() == {f'reason="{reason}"': 2}


@pytest.mark.parametrize(("was_at", "has_told"), [([], False), ([(1.0, "GET /a")], True)])
def test_nothing_is_lost(losses, was_at, has_told):
    """The worker had no request, or has finished its requests at the end of its drain."""
    losses(was_at, State.DRAINING, has_told)
    assert losses.by_reason() == {}


@pytest.mark.provokes("internal error")
@pytest.mark.parametrize("was_at", [[], [(1.0, "GET /a")]])
def test_extensions_know_of_ends_and_losses(was_at, caplog):
    """Extensions learn of each end, and before it of the losses; a failing extension keeps no other from its turn."""
    events = []

    def fail(event, context):
        events.append((event, context.lost))
        raise KeyError("x")

    overview_of(fail).on_end(new_child(was_at), State.READY, is_oom=False)
    lost = Lost(3, 4711, was_at)
    assert events == [*([(Life.DIED, lost)] if was_at else []), (Life.REAPED, lost)]
    assert caplog.text.count("please report this as a bug") == len(events)
