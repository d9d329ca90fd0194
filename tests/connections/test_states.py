"""The table of a connection's states: a listed pair leads somewhere, an unlisted one is a bug."""

import pytest

from aserve.connections.states import TRANSITIONS, Event, State

# Pairs that can never come about, each with its reason; any other pair must be in the table.
IMPOSSIBLE = {
    (State.NEW, Event.TAKE_COMPLETION): "there is no worker",
    (State.NEW, Event.DONE): "there is no response",
    (State.IDLE, Event.TAKE_COMPLETION): "there is no worker",
    (State.IDLE, Event.DONE): "there is no response",
    (State.RECEIVING, Event.TAKE_COMPLETION): "there is no worker",
    (State.RECEIVING, Event.DONE): "there is no response",
    (State.RUNNING, Event.BEGIN): "what comes meanwhile waits for the end of the exchange",
    (State.RUNNING, Event.REQUEST): "one exchange at a time",
    (State.LOOP_ENDS, Event.BEGIN): "what comes meanwhile waits for the end of the exchange",
    (State.LOOP_ENDS, Event.REQUEST): "one exchange at a time",
    **{
        (State.LINGERING, event): "what comes is dropped; there is no exchange"
        for event in (Event.BEGIN, Event.REQUEST, Event.TAKE_COMPLETION, Event.DONE, Event.LINGER)
    },
    **{
        (State.CLOSING, event): "nothing is read any more; there is no exchange"
        for event in (Event.BEGIN, Event.REQUEST, Event.TAKE_COMPLETION, Event.DONE, Event.LINGER)
    },
    **{
        (state, Event.DETACH): "only one that waits for a request goes elsewhere, or becomes a WebSocket"
        for state in State
        if state > State.IDLE and state != State.LOOP_ENDS
    },
    **{
        (State.DETACHED, event): "who has the descriptor now has the connection"
        for event in Event
        if event not in (Event.LOST, Event.DETACH, Event.ADOPT, Event.KEPT)
    },
    **{
        (state, event): "only at the beginning"
        for state in State
        for event in (Event.ADOPT, Event.KEPT)
        if state != State.NEW
    },
    **{
        (State.CLOSED, event): "the transport is gone"
        for event in Event
        if event not in (Event.ADOPT, Event.DETACH, Event.KEPT)
    },
}


def test_every_pair_is_listed_or_impossible():
    """Each state and event either has its transition, or a reason why they never meet."""
    pairs = {(state, event) for state in State for event in Event}
    assert set(TRANSITIONS) | set(IMPOSSIBLE) == pairs
    assert set(TRANSITIONS) & set(IMPOSSIBLE) == set()


def test_an_unlisted_pair_raises():
    with pytest.raises(KeyError):
        TRANSITIONS[State.IDLE, Event.DONE]


@pytest.mark.parametrize("state", [state for state in State if state < State.CLOSED])
def test_every_connection_ends(state):
    """From anywhere, losing the transport is the end, and closing leads to closing."""
    assert TRANSITIONS[state, Event.LOST] == State.CLOSED
    assert TRANSITIONS[state, Event.CLOSE] == State.CLOSING


def test_every_state_is_reached():
    reached, new = set(), {State.NEW}
    while new:
        reached |= new
        new = {to for (state, _), to in TRANSITIONS.items() if state in reached} - reached
    assert reached == set(State)


def test_the_order_of_the_states():
    """Comparisons rest on the order: no request is expected from RUNNING on, none is served after LOOP_ENDS."""
    order = ["NEW", "IDLE", "RECEIVING", "RUNNING", "LOOP_ENDS", "LINGERING", "CLOSING", "CLOSED", "DETACHED"]
    assert [state.name for state in sorted(State)] == order
