"""The table of a stream's states: a listed pair leads somewhere, an unlisted one is a bug."""

from aserve.features.http2.states import TRANSITIONS, Event, State

# Pairs that can never come about, each with its reason; any other pair must be in the table.
IMPOSSIBLE = {
    **{
        (state, Event.FINAL_HEAD): "there is one, and nothing is written behind the end"
        for state in State
        if state != State.HEAD
    },
    **{(state, Event.CLOSE): "it has an end already" for state in State if state >= State.ENDED},
    **{(State.CLOSED, event): "it is over" for event in (Event.CUT, Event.LOST)},
}


def test_every_pair_is_listed_or_impossible():
    """Each state and event either has its transition, or a reason why they never meet."""
    assert set(TRANSITIONS) | set(IMPOSSIBLE) == {(state, event) for state in State for event in Event}
    assert not set(TRANSITIONS) & set(IMPOSSIBLE)


def test_states_follow_one_another():
    """A stream never returns to an earlier state."""
    assert all(after >= before for (before, _), after in TRANSITIONS.items())
