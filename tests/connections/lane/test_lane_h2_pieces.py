"""Responses in pieces over HTTP/2, sent in C: each stays in the lane while there is room for its pieces, and is the same as Python's."""

import threading

import pytest
from h2.errors import ErrorCodes
from harness.http2 import request
from harness.waiting import PATIENCE_SECONDS, wait_until

from aserve._cparsers import lib

pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]
PIECE = b"".join(b"%07d " % number for number in range(2500))  # 20,000 octets: three of them fit a client's window
FAULTS = ["raised", "broke PEP 3333", "internal error"]


class Closing:
    """The usual result of frameworks: an iterable with close()."""

    def __init__(self, pieces, close=lambda: None):
        self._pieces, self.close = iter(pieces), close

    def __iter__(self):
        return self._pieces


def failing():
    yield b"begun"
    raise ValueError("on purpose")


# By path: the fields, and the pieces.
RESPONSES = {
    "/one": ([("Content-Length", "3")], [b"one"]),
    "/two": ([], [b"t", b"wo"]),
    "/empty": ([], [b"", b"", b""]),
    "/none": ([], []),
    "/sized": ([("Content-Length", "40000")], [PIECE, PIECE]),
    "/full": ([("Content-Length", "3")], [b"abc", b"", b"d"]),
    "/window": ([], [PIECE] * 10),
    "/sized-window": ([("Content-Length", "200000")], [PIECE] * 10),
    "/large": ([], [PIECE * 10, b"end"]),
    "/large-one": ([("Content-Length", "200000")], [PIECE * 10]),
    "/text": ([], [b"a", "b"]),
}
WHOLE = {path: b"".join(pieces)[: dict(fields).get("Content-Length") and int(dict(fields)["Content-Length"])]
         for path, (fields, pieces) in RESPONSES.items() if path != "/text"}  # fmt: skip
IN_LANE = ["/one", "/two", "/empty", "/none", "/sized"]


def app(environ, start_response):
    path = environ["PATH_INFO"]
    fields, pieces = RESPONSES.get(path, ([], []))
    write = start_response("200 OK", [("Content-Type", "text/plain"), *fields])
    if path == "/written":
        write(b"a")
        return Closing([b"b"])
    if path == "/failing":
        return Closing(failing())
    if path == "/short":
        start_response("200 OK", [("Content-Length", "5")], (ValueError, ValueError(), None))
        return Closing([b"abc"])
    return Closing(pieces)


@pytest.fixture
def serve(serve_http2):
    """serve(app) -> a server and a client."""
    return serve_http2


def is_native(server):
    return server.call(lambda: server.server._listening.lane.native is not None)


def is_in_lane(server):
    """Return whether the connection is the lane's."""
    return server.call(lambda: server.server._listening.lane.count == 1 and not server.server._listening.connections)


@pytest.mark.parametrize("path", sorted(WHOLE))
@pytest.mark.provokes("the app gave more body")
def test_a_body_comes_whole(serve, path):
    """One with room for each piece stays in the lane; a client without room takes the rest from the event loop."""
    server, client = serve(app)
    asked = client.ask(request(b"GET", path.encode()))
    assert client.bodies(asked) == [WHOLE[path]]
    assert client.streams[asked].reset_code is None
    if is_native(server):
        assert is_in_lane(server) == (path in IN_LANE)


def test_streams_beside_each_other(serve):
    """Each has its own octets, also while others leave the lane, or are in the middle."""
    server, client = serve(app, threads=4)
    paths = [*sorted(WHOLE), *IN_LANE] * 2
    asked = [client.ask(request(b"GET", path.encode())) for path in paths]
    assert client.bodies(*asked) == [WHOLE[path] for path in paths]


@pytest.mark.parametrize(("size", "is_short"), [(5, True), (200_000, True), (1 << 20, True), ((1 << 20) + 1, False)])
@pytest.mark.parametrize("is_head", [False, True])
def test_a_file_that_is_not_long_is_sent_in_the_lane(serve, tmp_path, size, is_short, is_head):
    """The event loop sends a longer one."""
    path = tmp_path / "file"
    path.write_bytes((PIECE * 60)[:size])
    opened = []

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", str(size))])
        opened.append(path.open("rb"))
        return environ["wsgi.file_wrapper"](opened[0])

    server, client = serve(app)
    server.hold_clock()
    assert client.bodies(client.ask(request(b"HEAD" if is_head else b"GET", b"/"))) == [
        (PIECE * 60)[: size * (not is_head)]
    ]
    assert is_in_lane(server) == (is_short or is_head)
    wait_until(lambda: opened[0].closed)


@pytest.mark.parametrize("path", ["/one", "/two", "/empty", "/sized", "/window", "/large-one"])
def test_a_response_to_head_has_no_body(serve, path):
    """The fields are those of GET."""
    _, client = serve(app)
    asked = client.ask(request(b"HEAD", path.encode()))
    assert client.bodies(asked) == [b""]
    assert client.streams[asked].reset_code is None
    length = dict(RESPONSES[path][0]).get("Content-Length")
    assert dict(client.streams[asked].heads[0]).get(b"content-length") == (length and length.encode())


@pytest.mark.parametrize("path", ["/failing", "/short", "/text"])
@pytest.mark.provokes(*FAULTS)
def test_a_body_that_cannot_be_finished_ends_with_a_reset(serve, path):
    """RFC 9113 8.1: the client knows that it is not whole; other streams go on."""
    _, client = serve(app)
    asked = [client.ask(request(b"GET", each.encode())) for each in (path, "/two")]
    assert client.bodies(*asked)[1] == b"two"
    assert client.streams[asked[0]].reset_code == ErrorCodes.INTERNAL_ERROR


def test_write_comes_before_the_pieces(serve):
    _, client = serve(app)
    assert client.bodies(client.ask(request(b"GET", b"/written"))) == [b"ab"]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_piece_does_not_wait_for_the_next(serve, threads):
    """PEP 3333, "Buffering and Streaming": the client has a piece while the app makes the next one, also with a single thread."""
    go_on = threading.Event()

    def slow():
        yield b"first"
        assert go_on.wait(PATIENCE_SECONDS)
        yield b"second"

    def app(environ, start_response):
        start_response("200 OK", [])
        return Closing(slow())

    _, client = serve(app, threads=threads)
    asked = client.ask(request(b"GET", b"/"))
    while client.streams[asked].body != b"first":
        client.receive()
    go_on.set()
    assert client.bodies(asked) == [b"firstsecond"]


def test_an_app_on_the_event_loop_has_its_pieces_sent(serve):
    """The same with --threads 0, where no other thread could send."""
    _, client = serve(app, threads=0)
    for path in ("/two", "/sized", "/written", "/window"):
        expected = WHOLE.get(path, b"ab")
        assert client.bodies(client.ask(request(b"GET", path.encode()))) == [expected]


def test_the_iterable_is_closed_once_after_its_last_piece(serve):
    told = []

    def app(environ, start_response):
        start_response("200 OK", [])
        return Closing(iter([told.append("piece") or b"a"]), lambda: told.append("close"))

    _, client = serve(app)
    assert client.bodies(client.ask(request(b"GET", b"/"))) == [b"a"]
    assert told == ["piece", "close"]


def test_a_client_that_resets_its_stream_ends_the_body(serve):
    """The app is not asked for more; the other streams go on, out of the lane."""
    gone, closed = threading.Event(), threading.Event()

    def endless():
        yield b"x"
        assert gone.wait(PATIENCE_SECONDS)
        while True:
            yield PIECE

    def app(environ, start_response):
        start_response("200 OK", [])
        return Closing(endless(), closed.set) if environ["PATH_INFO"] == "/endless" else Closing([b"a"])

    server, client = serve(app, threads=2)
    asked = client.ask(request(b"GET", b"/endless"))
    while not client.streams[asked].body:
        client.receive()
    client.frames.reset_stream(asked, ErrorCodes.CANCEL)
    client.flush()
    assert client.bodies(client.ask(request(b"GET", b"/"))) == [b"a"]  # the reset was received before
    gone.set()
    assert closed.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("fields", [[], [("Content-Length", "4")]])
def test_an_end_behind_a_connection_that_has_left_is_sent(serve, fields):
    """All pieces are out as another response takes the connection along: the client gets the end, and no reset."""
    go_on = threading.Event()

    def last():
        yield b"last"
        assert go_on.wait(PATIENCE_SECONDS)

    def app(environ, start_response):
        write = start_response("200 OK", fields if environ["PATH_INFO"] == "/last" else [])
        if environ["PATH_INFO"] == "/last":
            return Closing(last())
        write(b"a")
        return [b"b"]

    server, client = serve(app, threads=2)
    asked = client.ask(request(b"GET", b"/last"))
    while client.streams[asked].body != b"last":
        client.receive()
    assert client.bodies(client.ask(request(b"GET", b"/written"))) == [b"ab"]
    assert not is_in_lane(server)
    go_on.set()
    assert client.bodies(asked) == [b"last"]
    assert client.streams[asked].reset_code is None


def test_a_stream_that_has_left_has_no_octets_taken(serve):
    """A second thread of the app may have called write(), and taken the stream along, before the worker asks."""
    server, _ = serve(app)
    assert server.call(lambda: lib.lane_taken(server.server._listening.lane.set, -1)) == -1


def test_an_end_that_cannot_be_told_gives_the_memory_back(serve):
    """Without memory for the arrivals, the response counts no more, and its client learns that it is not whole."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [PIECE * 10]

    server, client = serve(app)
    server.hold_clock()
    lane = server.server._listening.lane
    asked = client.ask(request(b"GET", b"/"))
    wait_until(lambda: server.call(lambda: any(large.is_kept for large in lane.handovers.kept.values())))
    (number,) = lane.handovers.kept
    server.call(lambda: lane.close_lost(number, lib.LANE_ENDED))
    assert server.call(lambda: lane.services[0].budgets.memory.count) == 0 and not lane.handovers.kept
    assert not server.call(lambda: lane.exchanges)  # or the log would have a second line
    while not client.streams[asked].is_over:
        client.receive()
    assert client.streams[asked].reset_code is not None
