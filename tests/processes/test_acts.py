"""Acts after a worker's failed start: on processes of numbers alone. With --reload: test_events_reloads_development.py."""

import signal

import pytest
from harness.supervising import slots_of, told

from aserve.core.page import State

TERM = signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"why": "no module 'a'", "traceback": "Traceback: here\n"}, "no module 'a'"),
        (None, "it exited with status 3 before it was ready, without a word"),
    ],
)
def test_a_start_that_fails_ends_the_command(supervised, words, why):
    """The error tells why, with the app's traceback; nothing else is tried."""
    one = supervised()
    (first,) = one.turn()
    if words:
        one.say(first, say="failed", **words)
    assert one.end(first, status=3) == [] and one.supervisor.fleet.is_ending
    failure = one.supervisor.acts.start_failure
    assert str(failure) == f"{first} could not start: {why}"
    assert failure.app_traceback == (words or {}).get("traceback", "")


def test_a_fork_that_fails_at_the_start(supervised):
    """The same, with the system's reason."""
    one = supervised()
    one.system.fork_error = OSError(11, "Resource temporarily unavailable")
    assert one.turn() == []
    assert str(one.supervisor.acts.start_failure) == (
        "worker 1 could not start: it could not be forked: Resource temporarily unavailable"
    )


def test_one_that_cannot_be_replaced(supervised, caplog):
    """The log tells once the missing worker, since when, why, and what to do; and once the app's traceback."""
    one = supervised(2)
    first, second = one.start()
    one.end(second, number=9)
    for pause in (0.01, 0.1, 0.2, 0.4, 0.8):
        (child,) = one.turn(pause + 0.01)
        one.say(child, say="failed", why="no module 'a'", traceback="Traceback: here\n")
        one.end(child, status=1)
    assert first.state == State.READY
    assert f"{child} could not start: no module 'a'; the next try is in 1.6 s" in caplog.text
    assert "degraded: 1 of 2 workers is missing since 2" in caplog.text
    assert caplog.text.count("because no module 'a'; correct it; SIGHUP tries again at once") == 1
    assert caplog.text.count("Traceback: here") == 1


def test_a_fork_that_fails_later(supervised, caplog):
    """A failed fork is tried again, like a failed start."""
    one = supervised(1)
    (child,) = one.start()
    one.end(child, number=9)
    one.system.fork_error = OSError(12, "Cannot allocate memory")
    assert one.turn(0.11) == []
    one.system.fork_error = None
    assert one.turn(0.09) == [] and slots_of(one.turn(0.02)) == [1]
    assert "worker 1 could not start: it could not be forked: Cannot allocate memory; the next" in caplog.text


def test_what_is_too_late(supervised):
    """A killed worker is not ready any more; a failed start at the end does not matter."""
    one = supervised(2, start_seconds=1)
    (first,) = one.turn()
    one.say(first, say="ready")
    second = one.children[1]
    one.turn(1.1)
    one.say(second, say="ready")
    assert second.state == State.KILLED and told(one, second) == []
    one.signal(TERM)
    assert one.end(second, number=6) == [] and one.supervisor.fleet.exit_status == 0
    assert one.end(first) == []


def test_one_that_fails_when_it_is_not_wanted_any_more(supervised, caplog):
    """A failed start of an unwanted worker does not matter, either."""
    one = supervised(1)
    (first,) = one.start()
    one.signal(signal.SIGTTIN)
    second = one.children[-1]
    one.signal(signal.SIGTTOU)
    one.say(second, say="failed", why="no module 'a'", traceback="Traceback: here\n")
    assert one.end(second, status=1) == [] and one.children == [first]
    assert "could not start" not in caplog.text and "Traceback" not in caplog.text
