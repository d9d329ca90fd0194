"""A client's leaves cost no other client a request: a request waits while too many of its connection run, and is not refused."""

from types import SimpleNamespace

import pytest
from h2.errors import ErrorCodes
from harness.http2 import request

from aserve._cparsers import lib
from aserve.features.http2.calls import RETURN_COUNT
from aserve.tls.sessions import OwnSession


@pytest.fixture
def crowded(connect):
    """A client of two streams at a time, with two reset ones whose requests the app has not ended."""
    client = connect(max_streams=2)
    client.harness.service.ends = client.harness.log
    leave(client, client.ask(), client.ask())
    assert len(jobs(client)) == 2
    return client


def leave(client, *streams):
    client.pump(runs=False)
    for stream in streams:
        client.h2.reset_stream(stream)
    client.pump(runs=False)


def jobs(client):
    return client.harness.executor.jobs


def test_a_request_behind_requests_that_run_on(crowded):
    """A request waits until the app has ended another, and is answered then; the body comes in meanwhile."""
    stream = crowded.ask(*request(b"POST"), data=b"abc")
    crowded.pump(runs=False)
    assert not crowded.resets and len(jobs(crowded)) == 2
    crowded.harness.executor.run_job()
    crowded.harness.executor.flush()
    crowded.pump(runs=False)
    assert len(jobs(crowded)) == 2 and jobs(crowded)[1][1].body.length == 3
    crowded.pump()
    assert crowded.ended == {stream} and crowded.bodies[stream] == b"/abc"


def test_requests_in_the_order_of_their_arrival(crowded):
    """The request with the longest wait begins first."""
    streams = [crowded.ask(*request(b"GET", path)) for path in (b"/1", b"/2")]
    crowded.pump()
    assert list(crowded.bodies) == streams and not crowded.resets


def test_a_request_whose_client_leaves_while_it_waits(crowded):
    """The app never gets the request, and the access log has its end at once."""
    leave(crowded, crowded.ask())
    assert crowded.harness.log.cuts == [True] and not crowded.session.has_streams
    stream = crowded.ask()
    crowded.pump()
    assert len(crowded.harness.log.cuts) == 4 and crowded.ended == {stream} and not crowded.harness.service.lost


def test_more_open_streams_than_are_allowed(crowded):
    """Waiting requests are open: a client beyond the limit is refused."""
    crowded.forget_max_streams()
    streams = [crowded.ask() for _ in range(3)]
    crowded.pump()
    assert crowded.ended == set(streams[:2]) and crowded.resets == {streams[2]: ErrorCodes.REFUSED_STREAM}


def test_a_drain_with_requests_that_wait(crowded):
    """Accepted requests then wait for a thread, like any, and are answered."""
    stream = crowded.ask()
    crowded.pump(runs=False)
    crowded.harness.service.is_draining = True
    crowded.session.drain()
    assert len(jobs(crowded)) == 3
    crowded.pump()
    assert crowded.ended == {stream}


def test_a_lost_connection_with_requests_that_wait(crowded):
    """The app gets no waiting request."""
    crowded.ask()
    crowded.pump(runs=False)
    crowded.transport.lose()
    crowded.harness.executor.run()
    assert len(crowded.harness.log.cuts) == 3 and not crowded.harness.service.lost


def test_a_flood_of_requests_that_wait(crowded):
    """A client that asks and leaves again and again costs no further app call, no memory, and is stopped."""
    while not crowded.is_closed:
        leave(crowded, crowded.ask())
    assert crowded.goaways[-1][1] == ErrorCodes.ENHANCE_YOUR_CALM
    assert lib.H2_BURST - 10 < len(crowded.harness.log.cuts) < lib.H2_BURST and len(jobs(crowded)) == 2
    crowded.harness.executor.run()
    assert not crowded.harness.service.lost


@pytest.mark.parametrize("how", ["nobody waits", "it has ended", "the lane has sent it"])
def test_a_request_behind_one_of_the_lane_s(connect, how):
    """A request in the lane, from which the connection has come, leaves its place to one that waits."""
    client, in_lane = connect(max_streams=1), [1]
    client.session._calls.elsewhere = lambda: len(in_lane)
    stream = client.ask()
    client.pump(runs=False)
    assert not jobs(client)
    in_lane.clear()
    if how == "nobody waits":
        client.session.begin(3, b"", b"")
    elif how == "it has ended":
        assert not client.session.adopt(3, SimpleNamespace(connection=SimpleNamespace(exchange=None)))
    else:
        client.session.on_second()
    client.pump(runs=False).pump()
    assert client.ended == {stream}


@pytest.mark.parametrize("is_own", [False, True])
def test_a_connection_that_the_lane_does_not_take(connect, is_own):
    """The lane is asked for a session of C's, not of Python's ssl module; without a place there, the connection is served on."""
    client, asked = connect(), []
    client.harness.service.take_carrier = lambda *given: asked.append(given) or False
    client.transport.extra["ssl_object"] = OwnSession.__new__(OwnSession) if is_own else object()
    for _ in range(RETURN_COUNT + 1):
        stream = client.ask()
        client.pump()
    assert len(asked) == 2 * is_own and stream in client.ended and client.session in client.harness.service.connections
    large = client.ask(*request(b"POST"), ends=False)
    for number in range(40):
        client.h2.send_data(large, b"x" * 16_000, end_stream=number == 39)
        client.pump()
    assert large in client.ended and len(asked) == 2 * is_own
    client.ask(*request(b"POST"), data=b"abc")  # a small body is the lane's
    for _ in range(RETURN_COUNT):
        client.ask()
    client.pump()
    assert len(asked) == 3 * is_own


def test_a_stream_that_the_client_has_not_ended_stays(connect):
    """Nor is the lane asked beside octets that the transport holds."""
    client, asked = connect(), []
    client.harness.service.take_carrier = lambda *given: asked.append(given) or False
    client.transport.extra["ssl_object"] = OwnSession.__new__(OwnSession)
    client.ask(*request(b"POST"), ends=False)
    for _ in range(RETURN_COUNT):
        client.ask()
        client.pump()
    assert not asked
    client.transport.is_stuck = True
    client.h2.end_stream(1)
    client.pump()
    for _ in range(RETURN_COUNT):
        client.ask()
        client.pump()
    assert not asked
