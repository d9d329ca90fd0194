"""One child: its state, and its end."""

import itertools

import pytest

from aserve.core.page import Field, State, new_page
from aserve.features import Config
from aserve.processes.children.child import TRANSITIONS, Child, Event, describe_end, describe_requests
from aserve.processes.fleet.plan import Plan

# Pairs that cannot come about, and why.
IMPOSSIBLE = {
    (State.READY, Event.READY): "it says so once",
    (State.DRAINING, Event.DRAIN): "it is told once",
    (State.KILLED, Event.DRAIN): "it is to end sooner",
    **{(State.ENDED, event): "it is forgotten" for event in Event},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair_has_a_row(state, event):
    """Each state and event is in the table, or cannot come about; so nothing is in both."""
    assert ((state, event) in TRANSITIONS) is not ((state, event) in IMPOSSIBLE)


def new_child():
    child = Child(7, 2, 3, Plan(Config(), None), None, 1, -1)
    child.page = new_page()
    return child


def test_a_life_goes_from_fork_to_end():
    """A child lives from the fork to the end; its state at a kill is kept."""
    child = new_child()
    assert str(child) == "worker 2 (pid 7)" and child.state == State.STARTING and child.served_seconds == 0
    assert child.transition(Event.READY) == State.STARTING
    assert child.ready_at >= child.began_at and child.served_seconds >= 0
    assert child.transition(Event.DRAIN) == State.READY and child.killed_in is None
    assert child.transition(Event.KILL) == State.DRAINING and child.page[Field.STATE] == State.KILLED
    child.transition(Event.KILL)
    assert child.killed_in == State.DRAINING
    assert child.transition(Event.END) == State.KILLED and child.state == State.ENDED


def test_what_cannot_be_is_a_bug():
    """An impossible event raises, and nothing changes."""
    child = new_child()
    child.transition(Event.READY)
    with pytest.raises(KeyError):
        child.transition(Event.READY)
    assert child.state == State.READY


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "exited with status 0"),
        (3 << 8, "exited with status 3"),
        (9, "was killed by SIGKILL"),
        (11 | 128, "was killed by SIGSEGV"),  # with a core
        (50, "was killed by signal 50"),
    ],
)
def test_ends_are_told_in_words(status, text):
    assert describe_end(status) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (2, "; it was at: GET /0 (9.0 s), GET /1 (8.0 s)"),
        (12, f"; it was at: {', '.join(f'GET /{n} ({9 - n}.0 s)' for n in range(10))}, and 2 more"),
    ],
)
def test_what_it_was_at(count, text):
    """The log names the child's requests, up to some number."""
    assert describe_requests([(9.0 - n, f"GET /{n}") for n in range(count)], shows_queries=False) == text


def test_what_it_was_at_and_queries():
    """Queries are shown only on demand."""
    found = [(1.0, "GET /a?token=x")]
    assert describe_requests(found, shows_queries=False) == "; it was at: GET /a?... (1.0 s)"
    assert describe_requests(found, shows_queries=True) == "; it was at: GET /a?token=x (1.0 s)"
