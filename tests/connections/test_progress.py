"""The clocks of a client, second by second. (A late client's end: test_timeouts.py.)"""

import pytest

from aserve.connections.progress import LINGER_BYTES, Progress
from aserve.core.body import BufferedBody
from aserve.features import Config


def new_progress(**settings):
    """Return the clocks of a client that has just connected."""
    return Progress(Config(**settings))


def first_second(progress, asks, most=60):
    """Return the first second in which `asks` answers, and the answer."""
    for second in range(1, most):
        progress.tick()
        found = asks()
        if found:
            return second, found
    return None


@pytest.mark.parametrize(
    ("is_new", "is_draining", "second"), [(True, False, 6), (False, False, 11), (True, True, 3), (False, True, 3)]
)
def test_idling_has_its_time_by_stage(is_new, is_draining, second):
    """--head-timeout for the first request, --keep-alive for each further one; in a drain both are shorter."""
    progress = new_progress(head_seconds=5, keep_alive_seconds=10)
    assert first_second(progress, lambda: progress.has_idled(is_new, is_draining)) == (second, True)


def test_a_late_head():
    """--head-timeout."""
    progress = new_progress(head_seconds=5)
    assert first_second(progress, progress.why_late_head) == (
        6,
        "the request head did not come in time (--head-timeout)",
    )


def test_a_late_body():
    """--body-timeout counts from the last progress, with and without a rate."""
    progress, body = new_progress(body_seconds=5, min_rate_bytes=0), BufferedBody(100, 50)
    late = (6, "the request body did not come in time (--body-timeout)")
    assert first_second(progress, lambda: progress.why_late_body(body)) == late
    progress.move()
    assert first_second(progress, lambda: progress.why_late_body(None)) == late


def test_a_slow_body():
    """--min-rate: the mean of a window; the app's turn ends the window."""
    progress, body = new_progress(body_seconds=5, min_rate_bytes=2), BufferedBody(100, 50)

    def receive():
        progress.move()  # something always comes
        return progress.why_late_body(body)

    assert first_second(progress, receive, 6) is None
    progress.rest()
    assert first_second(progress, receive) == (7, "the request body came more slowly than --min-rate")


@pytest.mark.parametrize(
    ("read_bytes", "found"),
    [
        (0, (6, "the client did not read for --write-timeout")),
        (9, (7, "the client read more slowly than --min-rate")),
        (10, None),
    ],
)
def test_a_slow_reader(read_bytes, found):
    """--write-timeout and --min-rate."""
    progress = new_progress(write_seconds=5, min_rate_bytes=10)
    assert first_second(progress, lambda: progress.why_slow_reader(progress, read_bytes)) == found


def test_a_slow_reader_without_a_rate():
    """--min-rate 0: an octet a second will do."""
    progress = new_progress(write_seconds=5, min_rate_bytes=0)
    assert first_second(progress, lambda: progress.why_slow_reader(progress, 1)) is None


@pytest.mark.parametrize(("is_draining", "quiet", "second"), [(False, True, 3), (False, False, 31), (True, False, 3)])
def test_lingering_has_its_time(is_draining, quiet, second):
    """Two seconds without an octet, 30 in all; in a drain two in all."""
    progress = new_progress()

    def linger():
        if not quiet:
            progress.move()
        return progress.has_lingered(is_draining)

    assert first_second(progress, linger) == (second, True)


def test_dropped_octets_have_a_limit():
    progress = new_progress()
    assert not progress.drop(LINGER_BYTES)
    assert progress.drop(1)


def test_the_time_without_a_need_of_the_loop():
    progress = new_progress()
    progress.tick()
    progress.move()
    assert (progress.quiet_seconds, progress.plain_seconds) == (0.0, 1.0)
    progress.stay_on_loop()
    assert progress.plain_seconds == 0.0
