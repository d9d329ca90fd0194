"""Bodies of requests over HTTP/2 in the lane: which are kept there until they are whole, and what becomes of those that do not come."""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes
from harness.http2 import request
from harness.waiting import wait_until

pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]
LARGE = b"x" * 600_000  # beyond --body-memory
PIECE = b"x" * 60_000


def app(environ, start_response):
    """Answer with the path, the announced length, and the body; or as the path says."""
    path = environ["PATH_INFO"]
    body = environ["wsgi.input"].read()
    if path == "/error":
        raise ValueError(len(body))
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    answer = f"{path} {environ.get('CONTENT_LENGTH')} ".encode() + (body if len(body) < 1000 else b"...")
    if path == "/written":
        write(answer[:3])
        return [answer[3:]]
    return [answer]


class Served:
    """A server, and a client of it."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    def send(self, number, part, is_last=False):
        """Send a part of a body."""
        self.client.send_data(number, part, is_last)
        self.client.flush()

    def begin(self, path, *fields, part=b""):
        """Begin a request whose body is to go on."""
        return self.client.ask(request(b"POST", path, *fields), part, is_whole=False)

    def end(self, *asked, part=b""):
        """End the bodies of requests; return the answers."""
        for number in asked:
            self.send(number, part, True)
        return self.answers(*asked)

    def answers(self, *asked):
        """Return the bodies of the responses."""
        return self.client.bodies(*asked)

    def post(self, path, body, *fields):
        """Return the answer to a request with a body."""
        return self.answers(self.client.ask(request(b"POST", path, *fields), body))[0]

    def wait_until_received(self):
        """Wait until the server has received all that the client has sent."""
        assert self.answers(self.client.ask(request(b"GET", b"/in-order"))) == [b"/in-order None "]

    @property
    def lane(self):
        return self.server.server._listening.lane

    @property
    def is_in_lane(self):
        """Whether no connection is on the event loop."""
        return self.server.call(lambda: not self.server.server._listening.connections)

    @property
    def count(self):
        """The connections of the server."""
        return self.server.call(lambda: self.lane.count + len(self.server.server._listening.connections))


@pytest.fixture
def serve(serve_http2):
    """Start a server, and connect; a further client is `connect`."""

    def serve(**settings):
        server, client = serve_http2(app, **settings)
        server.hold_clock()  # a body that takes more than a moment would leave the lane
        return Served(server, client)

    serve.connect = lambda server: Served(server, serve_http2.connect(server))
    return serve


def length(octets):
    """Return the field that announces a body."""
    return (b"content-length", b"%d" % len(octets))


def test_bodies_are_answered_in_the_lane(serve):
    """The length may be announced or not: the app is told of it in both cases."""
    served = serve()
    for body in (b"", b"a", b"abc" * 300, PIECE, b"x" * 500_000):
        shown = body if len(body) < 1000 else b"..."
        assert served.post(b"/1", body) == b"/1 %d %s" % (len(body), shown)
        assert served.post(b"/2", body, length(body)) == b"/2 %d %s" % (len(body), shown)
    assert served.is_in_lane and served.server.call(lambda: served.lane.request_count) == 10


def test_bodies_that_come_side_by_side(serve):
    """Each request gets the octets of its own stream."""
    served = serve()
    asked = [served.begin(b"/%d" % number) for number in range(50)]
    for part in (b"a", b"bc", b""):
        for number in asked:
            served.send(number, part * number)
    answers = served.end(*reversed(asked), part=b"d")
    assert answers == [b"/%d %d %s" % (n // 2, 3 * n + 1, (b"a" * n + b"bc" * n + b"d")[: 1000 if 3 * n + 1 < 1000 else 0])
                       for n in reversed(asked)]  # fmt: skip
    assert served.is_in_lane and served.count == 1


def test_a_body_without_room_in_a_batch(serve):
    """The batch is full, for which a small one stands here: the connection goes on on the event loop."""
    served = serve()
    served.lane.set.input_cap = 200_000
    assert served.post(b"/1", b"x" * 150_000) == b"/1 150000 ..." and served.is_in_lane
    assert served.post(b"/2", b"x" * 250_000) == b"/2 250000 ..." and not served.is_in_lane


def test_a_body_that_ends_by_trailers(serve):
    """Trailers are dropped, as over HTTP/1.1."""
    served = serve()
    number = served.begin(b"/1", part=b"body")
    served.client.frames.send_headers(number, [(b"x-sum", b"1")], end_stream=True)
    served.client.flush()
    assert served.answers(number) == [b"/1 4 body"] and served.is_in_lane


@pytest.mark.parametrize("what", ["expect", "large", "long", "padded", "health", "goaway", "much"])
def test_a_body_on_its_way_goes_along(serve, what):
    """Whatever takes the connection to the event loop, the octets that have come are the app's."""
    served = serve(healthcheck_path="/up")
    first, second = served.begin(b"/1", part=b"a"), served.begin(b"/2", length(b"bcd"), part=b"b")
    served.send(first, b"b")
    served.wait_until_received()
    assert served.is_in_lane
    frames, others = served.client.frames, []
    if what == "expect":
        assert served.post(b"/3", b"abc", (b"expect", b"100-continue")) == b"/3 3 abc"
    elif what == "large":
        assert served.post(b"/3", LARGE, length(LARGE)) == b"/3 600000 ..."
    elif what == "long":
        assert served.post(b"/3", LARGE) == b"/3 600000 ..."
    elif what == "padded":
        other = served.begin(b"/3")
        for _ in range(2400):  # beyond the window of a stream, but for updates
            while frames.local_flow_control_window(other) < 300:
                served.client.receive()
            frames.send_data(other, b"x", pad_length=255)
            served.client.flush()
        assert served.end(other) == [b"/3 2400 ..."]
    elif what == "health":
        assert served.answers(served.client.ask(request(b"GET", b"/up"), b"abc")) != [b"/up 3 abc"]
    elif what == "goaway":
        served.client.send_octets(bytes.fromhex("000008 07 00 00000000 00000000 00000000"))
    else:
        others = [served.begin(b"/3", part=PIECE) for _ in range(80)]  # beyond what is kept for one client
    wait_until(lambda: not served.is_in_lane)
    assert served.end(*others, part=b"x") == [b"/3 60001 ..."] * len(others)
    assert served.end(first, second, part=b"cd") == [b"/1 4 abcd", b"/2 3 bcd"]


def test_the_window_of_a_body_on_its_way(serve):
    """The client gets room once for each octet, in the lane and on the event loop."""
    served = serve()
    octets = b"x" * 200_000
    number = served.begin(b"/1", part=octets)
    served.wait_until_received()
    assert served.is_in_lane and served.post(b"/2", LARGE) == b"/2 600000 ..."
    frames, window = served.client.frames, 1 << 18
    assert not served.is_in_lane and window // 2 < frames.local_flow_control_window(number) <= window
    assert served.end(number, part=octets * 2) == [b"/1 600000 ..."]


@pytest.mark.parametrize("path", [b"/error", b"/written"])
def test_a_response_that_is_not_the_lane_s_has_the_body(serve, path):
    """A request has its body where Python goes on with it, beside a body that has not all come."""
    served = serve()
    first = served.begin(b"/1", part=b"a")
    answer = served.post(path, b"abc")
    assert b"Internal Server Error" in answer if path == b"/error" else answer == b"/written 3 abc"
    assert not served.is_in_lane
    assert served.end(first, part=b"b") == [b"/1 2 ab"]


def test_a_slow_body_is_the_event_loop_s(serve):
    """Its limits of time hold from then on; a body that does not come is refused, and the connection goes on."""
    served = serve(body_seconds=5)
    first, second = served.begin(b"/1", part=b"a"), served.begin(b"/2")
    served.wait_until_received()
    served.server.pass_seconds_until(lambda: not served.is_in_lane)
    assert served.end(first, part=b"b") == [b"/1 2 ab"]
    served.server.pass_seconds_until(lambda: not served.client.is_quiet() and served.client.streams[second].is_over)
    assert b"408" in served.answers(second)[0]
    assert served.post(b"/3", b"abc") == b"/3 3 abc"


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_beyond_the_largest_is_refused(serve, is_announced):
    """--max-body holds in the lane, too."""
    served = serve(max_body_bytes=1000)
    fields = [length(b"x" * 1001)] if is_announced else []
    assert served.post(b"/1", b"x" * 1000) == b"/1 1000 ..." and served.is_in_lane
    assert b"413" in served.post(b"/2", b"x" * 1001, *fields)


@pytest.mark.parametrize("sent", [b"abcd", b"ab"])
def test_a_body_unlike_its_length_is_malformed(serve, sent):
    """RFC 9113 8.1.1: the stream is reset, and the app does not get the request; others go on."""
    served = serve()
    first, other = served.begin(b"/1", length(b"abc"), part=b"a"), served.begin(b"/2", part=b"x")
    assert served.end(first, part=sent[1:]) == [b""]
    assert served.client.streams[first].reset_code == ErrorCodes.PROTOCOL_ERROR
    assert served.end(other, part=b"y") == [b"/2 2 xy"]
    assert served.server.statistics().requests == 1


@pytest.mark.parametrize("how", ["reset", "close", "half-close"])
def test_a_body_that_never_ends_leaves_nothing(serve, how):
    """The stream is reset, or the client leaves: the places are free, and other requests are answered."""
    served = serve()
    asked = [served.begin(b"/%d" % number, part=b"abc") for number in range(3)]
    served.wait_until_received()
    assert served.count == 3
    if how == "reset":
        for number in asked:
            served.client.frames.reset_stream(number)
        served.client.flush()
        assert served.post(b"/3", b"abc") == b"/3 3 abc"
        wait_until(lambda: served.count == 1)
    elif how == "half-close":
        served.client.end_sending()
        served.client.recv_to_end()
    served.client.close()
    wait_until(lambda: served.count == 0)


def test_bodies_on_their_way_at_a_drain(serve):
    """They have come to the server before its GOAWAY, and are answered."""
    served = serve()
    first = served.begin(b"/1", part=b"a")
    served.wait_until_received()
    served.server.begin_drain()
    while not served.client.goaways:
        served.client.receive()
    assert served.end(first, part=b"b") == [b"/1 2 ab"]


def test_requests_on_their_way_are_connections(serve):
    """--max-connections counts them: a stream beyond is refused, and may be sent again."""
    served = serve(max_connections=3)
    served.wait_until_received()
    wait_until(lambda: not served.lane.set.nothers)  # a connection counts twice while it comes from the event loop
    asked = [served.begin(b"/%d" % number) for number in range(3)]
    refused = served.client.ask(request(b"GET", b"/3"))
    served.answers(refused)
    assert served.client.streams[refused].reset_code == ErrorCodes.REFUSED_STREAM
    served.server.pass_seconds_until(lambda: not served.is_in_lane)  # on the event loop they have their places still
    assert served.end(*asked, part=b"a") == [b"/%d 1 a" % number for number in range(3)]


def test_all_bodies_of_a_lane_have_a_bound(serve):
    """Beyond it a connection is the event loop's; nothing is lost."""
    served = serve()
    octets = b"x" * 120_000
    others = []
    while len(others) < 100 and served.is_in_lane:
        others.append(serve.connect(served.server))
        begun = [others[-1].begin(b"/1", length(octets + b"y"), part=octets) for _ in range(7)]
        others[-1].wait_until_received()
    assert 64 < len(others) < 100, len(others)
    assert others[-1].end(*begun, part=b"y") == [b"/1 120001 ..."] * 7
