"""Bodies in pieces, sent in C, beside the Python twin: the same octets, and the same calls of the app in the same order."""

import re
import socket
import struct
import threading

import pytest
from harness import apps
from harness.plain import BARE, ask, ask_front, engine_of, request, site_of
from harness.waiting import PATIENCE_SECONDS

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]
FAULTS = ["raised", "broke PEP 3333", "internal error", "the app gave more body"]


class Closing:
    """The usual result of frameworks: an iterable with close()."""

    def __init__(self, pieces, close=None):
        self._pieces = iter(pieces)
        self.close = close or (lambda: None)

    def __iter__(self):
        return self._pieces


class OverAndOver:
    """An iterable that begins anew with each iter(), and after its end."""

    def __init__(self, *pieces):
        self.left, self.pieces = [], list(pieces)

    def __iter__(self):
        self.left = self.pieces.copy()
        return self

    def __next__(self):
        if not self.left:
            self.left = self.pieces.copy()
            raise StopIteration
        return self.left.pop(0)


class Odd:
    """An iterable by its items, whose close is an attribute that fails."""

    def __getitem__(self, index):
        return [b"odd ", b"one"][index]

    @property
    def close(self):
        raise KeyError("on purpose")


class Octets(bytes):
    """Not exactly bytes."""


def fail(*_):
    raise ValueError("on purpose")


def of(make, *fields):
    """Return an app that starts a response with these fields, and returns the made body."""

    def app(environ, start_response):
        start_response("200 OK", list(fields))
        return make()

    return app


def late(environ, start_response):
    """Start the response with the second piece."""
    yield b""
    start_response("200 OK", [])
    yield b"late"


def replaced(environ, start_response):
    """Replace the head between two empty pieces."""
    start_response("200 OK", [])
    yield b""
    try:
        fail()
    except ValueError as exc:
        start_response("500 Sorry", [("X-Page", "error")], (type(exc), exc, exc.__traceback__))
    yield b"sorry"


def replaced_too_late(environ, start_response):
    """Do the same behind the head."""
    start_response("200 OK", [])
    yield b"begun"
    try:
        fail()
    except ValueError as exc:
        start_response("500 Sorry", [], (type(exc), exc, exc.__traceback__))
    yield b"sorry"


def written_between(environ, start_response):
    """Call write() between two pieces."""
    write = start_response("200 OK", [])
    yield b"one "
    write(b"two ")
    yield b"three"


def hinted_between(environ, start_response):
    """Give early hints before the first piece."""
    start_response("200 OK", [])
    environ["wsgi.early_hints"]([("Link", "</a>")])
    yield b"one"


LENGTH_8 = ("Content-Length", "8")
# Name: (app, whether a GET of it is plain to the end).
APPS = {
    "closing": (of(lambda: Closing([b"a", b"", b"bc"])), True),
    "close_raises": (of(lambda: Closing([b"a"], fail)), False),
    "close_is_none": (of(lambda: type("None_", (), {"__iter__": lambda self: iter([b"a"]), "close": None})()), True),
    "close_exits": (of(lambda: Closing([b"a"], exit)), False),
    "odd": (of(Odd), False),
    "over_and_over": (of(lambda: OverAndOver(b"a", b"b")), True),
    "over_and_short": (of(lambda: OverAndOver(b"a", b"b"), LENGTH_8), False),
    "exact": (of(lambda: Closing([b"12345678"]), LENGTH_8), True),
    "exact_in_two": (of(lambda: (b"1234", b"5678"), LENGTH_8), True),
    "exact_and_empty": (of(lambda: iter([b"12345678", b""]), LENGTH_8), True),
    "short": (of(lambda: (b"1234", b"567"), LENGTH_8), False),
    "nothing": (of(lambda: (), LENGTH_8), False),
    "nothing_due": (of(lambda: (), ("Content-Length", "0")), True),
    "long": (of(lambda: (b"1234", b"56789"), LENGTH_8), False),
    "long_at_once": (of(lambda: Closing([b"123456789"]), LENGTH_8), False),
    "long_behind": (of(lambda: (b"12345678", b"9"), LENGTH_8), False),
    "endless": (apps.endless_with_length, False),
    "empty_pieces": (of(lambda: (b"", b"")), True),
    "empty_tuple": (of(tuple), True),
    "large": (of(lambda: (b"a" * 3000, b"b" * 3070, b"c" * 100_000)), True),
    "large_exact": (of(lambda: Closing([b"b" * 100_000]), ("Content-Length", "100000")), True),
    "too_large": (of(lambda: (b"a", b"b" * 300_000, b"c")), False),
    "text": (of(lambda: (b"a", "b")), False),
    "text_first": (of(lambda: ("b", b"a")), False),
    "octets": (of(lambda: (b"a", Octets(b"b"), b"c")), False),
    "nones": (of(lambda: (b"a", None)), False),
    "just_bytes": (of(lambda: b"abc"), False),
    "just_text": (of(lambda: "abc"), False),
    "just_none": (of(lambda: None), False),
    "iter_raises": (of(lambda: Closing(fail())), False),
    "iter_raises_late": (of(lambda: type("Raises", (), {"__iter__": fail})()), False),
    "no_iterator": (of(lambda: type("None_", (), {"__iter__": lambda self: 5})()), False),
    "rows": (of(lambda: type("Rows", (list,), {})([b"a", b"b"])), True),
    "raises_lazily": (apps.raises_lazily, False),
    "raises_mid_stream": (apps.raises_mid_stream, False),
    "raises_with_length": (of(lambda: (fail() if at else b"1234" for at in range(2)), LENGTH_8), False),
    "too_short_lazily": (apps.too_short_lazily, False),
    "too_long_lazily": (apps.too_long_lazily, False),
    "file": (lambda environ, start: environ["wsgi.file_wrapper"](open(__file__, "rb")) if not start("200 OK", []) else 0, False),
    "late": (late, False),
    "replaced": (replaced, False),
    "replaced_too_late": (replaced_too_late, False),
    "written_between": (written_between, False),
    "hinted_between": (hinted_between, False),
}  # fmt: skip


site = site_of(APPS)


@pytest.fixture
def pair(start_server):
    """Two servers of the same app, in C and in Python."""
    return [start_server(site, is_checked=False, native=native) for native in ("auto", "off")]


@pytest.mark.parametrize("name", APPS)
@pytest.mark.provokes(*FAULTS)
def test_the_same_octets(pair, name, caplog):
    """Whatever the app gives; and the same log."""
    found = []
    for server in pair:
        caplog.clear()
        octets = [
            ask(server, request(name)),
            ask(server, request(name, "HEAD")),
            ask(server, request(name, "POST", body=b"abc")),
        ]
        lines = [
            (record.levelname, record.getMessage(), record.exc_info and repr(record.exc_info[1]))
            for record in caplog.records
        ]
        found.append((octets, [line for line in lines if "app" in line[1]]))
    assert found[0] == found[1]


@pytest.mark.parametrize(("name", "is_plain"), [(name, is_plain) for name, (_, is_plain) in APPS.items()])
@pytest.mark.provokes(*FAULTS)
def test_plain_pieces_end_in_c(start_server, name, is_plain):
    """A plain response ends in C, and its connection is the lane's again."""
    server = start_server(site, is_checked=False, native="auto")
    ask(server, request(name, fields=BARE))
    engine = engine_of(server)
    assert (engine.plain_count, engine.promoted_count) == ((1, 0) if is_plain else (0, 1))


def test_bodies_about_as_large_as_the_buffer(start_server, raw_client):
    """Head and body are whole, whether both have room in one buffer or not: in one piece, and in two."""

    def app(environ, start_response):
        size = int(environ["PATH_INFO"][1:])
        start_response("200 OK", apps.PLAIN)
        return [b"a" * size] if environ["QUERY_STRING"] == "whole" else iter([b"a" * size, b"b" * size])

    server = start_server(app, is_checked=False, native="auto")
    client = raw_client(server)
    for size in [*range(3850, 4110), 100_000]:
        assert client.fetch(f"/{size}?whole").body == b"a" * size
        assert client.fetch(f"/{size}").body == b"a" * size + b"b" * size
    assert engine_of(server).plain_count == 2 * 261


@pytest.mark.parametrize("protocol", ["uwsgi", "scgi"])
@pytest.mark.provokes(*FAULTS)
def test_behind_a_front_server(start_server, tmp_path, protocol):
    """Without chunks: the body ends with the connection."""
    received = {}
    names = ["closing", "exact_in_two", "empty_tuple", "large", "close_raises", "long", "octets", "raises_lazily"]
    for native in ("auto", "off"):
        path = tmp_path / native
        start_server(site, is_checked=False, native=native, bind=f"{protocol}://unix:{path}")
        received[native] = [ask_front(path, protocol, name, method) for name in names for method in ("GET", "HEAD")]
    assert received["auto"] == received["off"]


@pytest.mark.parametrize("name", ["closing", "exact_in_two", "large", "empty_tuple"])
def test_the_next_request(start_server, name):
    """A connection is kept behind a body in pieces."""
    server = start_server(site, is_checked=False, native="auto")
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        stream = client.makefile("rb")
        for _ in range(3):
            client.sendall(request(name, is_last=False))
            body_of(stream)
    assert engine_of(server).plain_count == 3


def body_of(stream):
    """Return the body of the next response, with its chunked framing if any."""
    fields = b"".join(iter(stream.readline, b"\r\n"))
    length = re.search(rb"Content-Length: (\d+)", fields)
    if length:
        return stream.read(int(length[1]))
    chunks, size = [], b"-"
    while size not in (b"0\r\n", b""):
        size = stream.readline()
        chunks += [size, stream.read(int(size or b"0", 16) + 2)]
    return b"".join(chunks)


class Gated:
    """An app that gives its pieces one by one, at the test's word, and notes its calls."""

    def __init__(self, pieces=(b"one ", b"two"), fields=()):
        self.pieces, self.fields, self.seen = pieces, list(fields), []
        self.asked, self.gate = threading.Semaphore(0), threading.Semaphore(0)
        self.write = None

    def __call__(self, environ, start_response):
        self.write = start_response("200 OK", self.fields)
        return Closing(self._give(), self._close)

    def _give(self):
        for piece in self.pieces:
            self._wait(piece)
            yield piece
        self._wait("end")

    def _close(self):
        self._wait("close")

    def _wait(self, step):
        self.seen.append(step)
        self.asked.release()
        assert self.gate.acquire(timeout=PATIENCE_SECONDS)

    def stands(self):
        """Wait until the app stands at its next step."""
        assert self.asked.acquire(timeout=PATIENCE_SECONDS)

    def step(self):
        """Let the app do a step, and wait for the next."""
        self.gate.release()
        self.stands()


@pytest.fixture
def gated(start_server):
    """Begin a request of a Gated app: gated(native, **its) -> (app, server, client, stream), with the head and the first piece sent."""
    clients = []

    def begin(native="auto", **its):
        app = Gated(**its)
        server = start_server(app, is_checked=False, native=native)
        client = socket.create_connection(server.address, timeout=PATIENCE_SECONDS)
        clients.append(client)
        client.sendall(request("gated", is_last=False))
        app.stands()
        return app, server, client, client.makefile("rb")

    yield begin
    for client in clients:
        client.close()


@pytest.mark.parametrize("native", ["auto", "off"])
def test_each_piece_before_the_next(gated, native):
    """The client has a piece while the app makes the next, and the last octets before close(); its next request waits for close()."""
    app, server, client, stream = gated(native)
    app.step()
    assert (
        b"".join(iter(stream.readline, b"\r\n")).startswith(b"HTTP/1.1 200 OK") and stream.read(9) == b"4\r\none \r\n"
    )
    app.step()
    assert stream.read(8) == b"3\r\ntwo\r\n"
    app.step()
    assert stream.read(5) == b"0\r\n\r\n" and app.seen == [b"one ", b"two", "end", "close"]
    client.sendall(request("gated"))
    assert not app.asked.acquire(timeout=0.01)
    app.step()
    for _ in range(4):
        app.gate.release()
    assert b"0\r\n\r\n" in stream.read()
    if native == "auto":
        assert engine_of(server).plain_count == 2


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("fields", [[], [("Content-Length", "7")]])
def test_promoted_between_two_pieces(gated, steps, fields):
    """A watcher of running requests changes nothing, wherever the app stands; afterwards the response is Python's."""
    app, server, client, stream = gated(fields=fields)
    for _ in range(steps):
        app.step()
    [exchange] = server.call(lambda: server.server._listening.lane.exchanges)
    assert exchange.response.head_is_out == (steps > 0) and exchange.response.sent_bytes == [0, 4, 7, 7][steps]
    for _ in range(3 - steps):
        app.step()
    app.gate.release()
    assert body_of(stream) == (b"one two" if fields else b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n")
    assert app.seen == [b"one ", b"two", "end", "close"]
    assert engine_of(server).promoted_count == 1 and engine_of(server).plain_count == 0


def test_another_thread_writes(gated):
    """A write of the app's second thread comes between two pieces."""
    app, server, client, stream = gated()
    app.step()
    app.write(b"between ")
    app.step()
    app.step()
    app.gate.release()
    assert body_of(stream) == b"4\r\none \r\n8\r\nbetween \r\n3\r\ntwo\r\n0\r\n\r\n"


def test_the_client_leaves(gated, wait_until):
    """The app is asked for no more, and its iterable is closed."""
    app, server, client, stream = gated(pieces=[b"x" * 1000] * 1000)
    app.step()
    stream.close()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    for _ in range(1002):
        app.gate.release()
    wait_until(lambda: app.seen[-1] == "close")
    assert app.seen.count("close") == 1 and "end" not in app.seen
    wait_until(lambda: server.server._listening.lane.count == 0)


@pytest.mark.parametrize("fields", [[], [("Content-Length", str(60 * 100_000))]])
def test_a_slow_reader(start_server, fields):
    """Octets refused by the socket go out before all that follows."""
    pieces = [bytes([number]) * 100_000 for number in range(60)]
    app = of(lambda: Closing(pieces), *fields)
    server = start_server(app, is_checked=False, native="auto", write_buffer_bytes=1024)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE_SECONDS)
        client.connect(server.address)
        client.sendall(request("slow", is_last=False))
        wait_for_promotion(server)
        body = body_of(client.makefile("rb"))
    framed = b"".join(b"186a0\r\n%b\r\n" % piece for piece in pieces) + b"0\r\n\r\n"
    assert body == (b"".join(pieces) if fields else framed)


def wait_for_promotion(server):
    end = threading.Event()
    for _ in range(int(PATIENCE_SECONDS * 100)):
        if engine_of(server).promoted_count:
            return
        end.wait(0.01)
    pytest.fail("it was not promoted")


def test_a_drain_finishes_a_begun_response(gated):
    app, server, client, stream = gated()
    app.step()
    server.begin_drain()
    for _ in range(3):
        app.gate.release()
    assert body_of(stream) == b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n" and stream.read() == b""


def test_who_looks_all_the_time(start_server):
    """Responses are promoted at any moment, while the GIL is let go of, too, and no octet is lost or sent twice."""
    pieces = [b"a" * 20_000, b"b", b"c" * 30_000, b"d"]
    server = start_server(of(lambda: Closing(pieces)), is_checked=False, native="auto")
    lane, is_over = server.server._listening.lane, threading.Event()

    def look():
        while not is_over.is_set():
            lane.native.promote_all()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        received = {ask(server, request("pieces")) for _ in range(20)}
    finally:
        is_over.set()
        looking.join()
    assert len({octets.replace(b"Connection: close\r\n", b"") for octets in received}) == 1


class Reentrant:
    """An iterable that promotes everything at its release."""

    def __init__(self, promote_all):
        self._promote_all = promote_all

    def __iter__(self):
        yield from self._pieces()

    def _pieces(self):
        try:
            yield b"a"
        finally:
            self._promote_all()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_it_is_promoted_while_it_ends(start_server, method):
    """The end of the iterator runs the app, which may promote it."""
    server = start_server(
        of(lambda: Reentrant(lambda: server.server._listening.lane.native.promote_all())),
        is_checked=False,
        native="auto",
    )
    octets = ask(server, request("end", method))
    assert octets.startswith(b"HTTP/1.1 200 OK") and octets.endswith(
        b"1\r\na\r\n0\r\n\r\n" if method == "GET" else b"\r\n\r\n"
    )
    assert engine_of(server).promoted_count == 1


def test_views_of_flask_are_plain(start_server):
    """An ordinary view is plain, and so is a streaming one."""
    flask = pytest.importorskip("flask")
    app = flask.Flask("site")
    app.add_url_rule("/page", "page", lambda: "a page")
    app.add_url_rule("/pieces", "pieces", lambda: flask.Response(str(number) for number in range(3)))
    server = start_server(app, is_checked=False, native="auto")
    assert ask(server, request("page")).endswith(b"a page")
    assert ask(server, request("pieces")).endswith(b"1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\n")
    engine = engine_of(server)
    assert (engine.plain_count, engine.promoted_count) == (2, 0)


def test_views_of_django_are_plain(start_server):
    pytest.importorskip("django")
    import django
    from django.conf import settings
    from django.core.wsgi import WSGIHandler
    from django.http import HttpResponse
    from django.test.utils import override_settings
    from django.urls import path

    if not settings.configured:  # another test may have done so, with other settings
        settings.configure()
        django.setup()
    urls = (path("page", lambda request: HttpResponse("a page")),)
    with override_settings(ALLOWED_HOSTS=["*"], ROOT_URLCONF=urls):
        server = start_server(WSGIHandler(), is_checked=False, native="auto")
        assert ask(server, request("page")).endswith(b"6\r\na page\r\n0\r\n\r\n")
        engine = engine_of(server)
        assert (engine.plain_count, engine.promoted_count) == (1, 0)
