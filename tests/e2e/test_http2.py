"""HTTP/2 on real sockets: curl and httpx as clients, and the same behaviour as over HTTP/1.1."""

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import ssl
import threading

import httpx
import pytest
from h2.settings import SettingCodes
from harness import apps
from harness.client import RawClient
from harness.http2 import request
from harness.http2_client import HTTP2Client
from harness.http2_load import KeptStreams
from harness.tls_clients import SECONDS, curl, needs_curl_of_http2
from harness.waiting import wait_until
from hyperframe.frame import GoAwayFrame

pytestmark = [pytest.mark.any_parser]
also_inline = pytest.mark.also_inline
one_way = pytest.mark.one_way
VERSION = "\n%{http_code} %{http_version}"


@pytest.fixture
def context(authority):
    """A client's TLS."""
    return ssl.create_default_context(cafile=str(authority.certificate))


@pytest.fixture
def new_client(context):
    """Make clients of httpx: new_client(server) -> httpx.Client."""
    with contextlib.ExitStack() as stack:

        def make(server):
            return stack.enter_context(
                httpx.Client(http1=False, http2=True, verify=context, base_url=server.url, timeout=SECONDS)
            )

        yield make


@also_inline
@needs_curl_of_http2
def test_curl_chooses_http_2_by_alpn(serve_http2, authority):
    server = serve_http2()
    assert curl(server, authority, "-w", VERSION) == b"hello\n\n200 2"
    assert curl(server, authority, "-w", VERSION, "--http1.1") == b"hello\n\n200 1.1"


@one_way
@needs_curl_of_http2
def test_off_serves_http_1_only(serve_tls, authority):
    assert curl(serve_tls(http2="off"), authority, "-w", VERSION) == b"hello\n\n200 1.1"


@also_inline
def test_the_environ_has_client_and_tls(serve_http2, new_client):
    found = new_client(serve_http2(apps.environ_json)).get("/a?b", headers={"X-Name": "c"}).json()
    assert found["SERVER_PROTOCOL"] == "HTTP/2.0" and found["REMOTE_ADDR"] == "127.0.0.1"
    assert found["wsgi.url_scheme"] == "https" and found["SSL_PROTOCOL"] and found["HTTP_X_NAME"] == "c"
    assert found["PATH_INFO"] == "/a" and found["QUERY_STRING"] == "b"


async def test_streams_on_threads(serve_http2, context):
    """Requests of one connection run in different threads at once."""
    barrier = threading.Barrier(5)

    def app(environ, start_response):
        barrier.wait(SECONDS)
        start_response("200 OK", [])
        return [environ["REMOTE_PORT"].encode()]

    server = serve_http2(app, threads=8)
    # Not in threads: httpcore 1.0 mixes up their frames.
    async with httpx.AsyncClient(http1=False, http2=True, verify=context, timeout=SECONDS) as client:
        ports = {each.text for each in await asyncio.gather(*[client.get(server.url) for _ in range(5)])}
    assert len(ports) == 1


@also_inline
@pytest.mark.parametrize("form", ["echo", "pieces"])
async def test_large_bodies_go_both_ways(serve_http2, context, form):
    """Large bodies go both ways, in memory and through files, side by side."""
    app = apps.echo if form == "echo" else echo_in_pieces
    server = serve_http2(app, body_memory_bytes=1 << 20)
    bodies = [os.urandom(size) for size in (0, 1, 100_000, 3 << 20)] * 2
    async with httpx.AsyncClient(http1=False, http2=True, verify=context, timeout=SECONDS) as client:
        answers = await asyncio.gather(*[client.post(server.url, content=body) for body in bodies])
    assert [answer.content for answer in answers] == bodies


def echo_in_pieces(environ, start_response):
    """Answer with the body while reading."""
    start_response("200 OK", [])
    return iter(lambda: environ["wsgi.input"].read(50_000), b"")


@also_inline
def test_a_response_that_is_read_after_the_end(serve_http2, authority):
    """The server sends its last octets, and reads on: a reading client gives room, and a closed socket would answer with a reset."""
    RawClient.authority = str(authority.certificate)
    server = serve_http2(apps.site)
    with contextlib.closing(HTTP2Client(server.address, receive_buffer_bytes=4096)) as client:
        client.frames.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        client.frames.increment_flow_control_window(1 << 20)
        client.request("/big?500000")
        client.send_octets(GoAwayFrame(0).serialize())  # so the server ends the connection behind the response
        assert client.recv_response().body == b"x" * 500_000
        assert client.recv_to_end() == b"" and client.goaways == [(1, 0)]


def test_a_slow_reader_holds_no_thread(serve_http2, new_client):
    """With one thread, a second request of the connection is answered beside an unread response."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return (bytes(100_000) for _ in range(100 if environ["PATH_INFO"] == "/slow" else 1))

    client = new_client(serve_http2(app, threads=1))
    with client.stream("GET", "/slow") as slow:
        pieces = slow.iter_raw()
        size = len(next(pieces))
        assert len(client.get("/").content) == 100_000
        assert size + sum(map(len, pieces)) == 10_000_000


def test_a_reset_ends_one_stream_alone(serve_http2, context):
    """The app notices that a client left a stream; the connection stays."""
    gone = threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        return endless(gone) if environ["PATH_INFO"] == "/endless" else [b"x"]

    server = serve_http2(app, response_spool_bytes=0)
    with contextlib.closing(HTTP2Client(server.address, context=context)) as client:
        client.frames.increment_flow_control_window(1 << 24)  # the first stream uses only its own window
        left = client.ask(request(b"GET", b"/endless"))
        assert client.recv_head().status == 200 and client.recv_exactly(1)
        client.frames.reset_stream(left)
        client.ask(request())
        assert client.recv_response().body == b"x"
        assert gone.wait(SECONDS)


def endless(gone):
    """Yield until the client leaves."""
    try:
        while True:
            yield bytes(10_000)
    finally:
        gone.set()


def answered(client, *streams):
    """Wait until these streams are over; return the bodies, None for a stream reset by the server."""
    found = [client.streams[each] for each in streams]
    while not all(each.is_over for each in found):
        client.receive()
    return [bytes(each.body) if each.is_ended else None for each in found]


def leave(client, *streams):
    """Reset these streams."""
    for each in streams:
        client.frames.reset_stream(each)
    client.flush()


def test_a_request_beside_one_that_is_left(serve_http2, context):
    """A client within --max-streams is not refused: a request waits until the app has ended one, reset or not."""
    gate = apps.Gate()
    server = serve_http2(gate, threads=8, max_streams=3)
    with contextlib.closing(HTTP2Client(server.address, context=context)) as client:
        left, *others = [client.ask(request(b"GET", b"/slow")) for _ in range(3)]
        for _ in range(3):
            gate.wait_entered()
        leave(client, left)
        last = client.ask(request())
        gate.open()
        gate.wait_entered()
        assert gate.paths[3:] == ["/"]
        gate.open(3)
        assert answered(client, *others, last) == [b"hello\n"] * 3


def test_uploads_beside_visitors_who_leave(serve_http2, context):
    """Behind a proxy many visitors share a connection: the ones who stay get their answers, however many leave."""

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            threading.Event().wait(0.02)
        return apps.count_body(environ, start_response)

    server = serve_http2(app, threads=4, max_streams=10)
    with contextlib.closing(HTTP2Client(server.address, context=context)) as client:
        for _ in range(20):
            slow = [client.ask(request(b"GET", b"/slow")) for _ in range(5)]
            uploads = [client.ask(request(b"POST"), bytes(20_000), is_whole=False) for _ in range(5)]
            leave(client, *slow)
            more = [client.ask(request(b"POST"), bytes(30_000)) for _ in range(5)]
            for each in uploads:
                client.send_data(each, bytes(10_000), is_last=True)
            client.flush()
            assert answered(client, *uploads, *more) == [b"30000 0"] * 10


@one_way
def test_fields_that_nobody_may_forge(serve_http2, new_client):
    """Fields set by a proxy, and names that would become such in the environ, are taken from no other client."""
    forged = {
        "X-Forwarded-For": "1.2.3.4",
        "X_Forwarded_For": "1.2.3.4",
        "Proxy": "x",
        "Script_Name": "/x",
        "Remote_Addr": "1.1.1.1",
    }
    found = new_client(serve_http2(apps.environ_json)).get("/", headers=forged).json()
    assert found["REMOTE_ADDR"] == "127.0.0.1" and found["SCRIPT_NAME"] == ""
    assert not {"HTTP_PROXY", "HTTP_X_FORWARDED_FOR", "HTTP_SCRIPT_NAME", "HTTP_REMOTE_ADDR"} & {*found}


@one_way
def test_a_proxy_names_the_client_of_each_stream(serve_http2, new_client):
    client = new_client(serve_http2(apps.environ_json, trusted_proxies="127.0.0.1", forwarded_fields="x-forwarded-for"))
    for address in ("1.2.3.4", "5.6.7.8"):
        assert client.get("/", headers={"X-Forwarded-For": address}).json()["REMOTE_ADDR"] == address


@one_way
def test_health_and_numbers(serve_http2, new_client):
    """A health check is answered; a connection without a stream is idle."""
    server = serve_http2(healthcheck_path="/healthz")
    client = new_client(server)
    assert client.get("/healthz").status_code == 200 and client.get("/").status_code == 200
    wait_until(lambda: server.statistics().connections_idle == 1)
    found = server.statistics()
    assert (found.connections_open, found.connections_in_handshake, found.requests) == (1, 0, 1)


@one_way
def test_each_stream_has_its_log_line(serve_http2, new_client, tmp_path):
    log = tmp_path / "log"
    server = serve_http2(access_log=str(log))
    new_client(server).get("/a")
    wait_until(lambda: log.exists() and '"GET /a HTTP/2.0" 200' in log.read_text())


# The end


@also_inline
@pytest.mark.parametrize(
    "limit", [{"max_connection_requests": 40}, {"max_connection_seconds": 0.2}], ids=["requests", "age"]
)
def test_a_limit_of_the_connection(serve_http2, context, limit):
    """After the limit of requests, or of age, a GOAWAY ends the connection: streams on their way are served, and the client goes on with another."""
    load = KeptStreams(serve_http2(apps.echo, **limit).address, context, 10)
    load.run(lambda: load.connections > 4)
    assert not load.lost and set(load.statuses) == {200}
    # Requests on their way come within a second.
    assert load.answered >= 4 * 30 or "max_connection_seconds" in limit


def test_reload_with_streams_in_flight(start_workers, context, localhost):
    """SIGHUP, twice: clients go to new workers, and sent requests are answered, or the GOAWAY leaves them out."""
    process = start_workers("--workers", "2", "--http2", "auto", *localhost.flags)
    process.wait_for_workers(2)
    host, port = process.wait_for_log(r"https://([^\s,]+):(\d+)").groups()
    done = threading.Event()
    loads = [KeptStreams((host, int(port)), context, 20) for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(len(loads)) as pool:
        running = [pool.submit(load.run, done.is_set) for load in loads]
        try:
            for count in (1, 2):
                process.signal(signal.SIGHUP)
                wait_until(lambda: all(load.connections > count for load in loads), SECONDS)  # noqa: B023 (called at once)
        finally:
            done.set()
        for each in running:
            each.result(SECONDS)
    assert [load.lost for load in loads] == [0] * len(loads)
    assert all(set(load.statuses) == {200} for load in loads)
    assert process.stop() == 0


@needs_curl_of_http2
@pytest.mark.long_on_pypy
def test_reload_under_load(start_workers, authority, localhost):
    """SIGHUP: no request of any client fails, on kept and new connections."""
    process = start_workers("--workers", "2", "--http2", "auto", *localhost.flags)
    before = process.wait_for_workers(2)
    url = process.wait_for_log(r"(https://[^\s,]+)")[1]
    done = threading.Event()

    def ask():
        words = set()
        while not done.is_set() or b"two" not in words:
            words |= {
                *curl(process, authority, "--parallel", "--fail", *[f"{url}/{number}" for number in range(100)]).split()
            }
        return words

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [pool.submit(ask) for _ in range(2)]
        try:
            process.write_app("two")
            process.signal(signal.SIGHUP)
            process.wait_for_log(r"SIGHUP: done in [\d.]+ s: code and settings of 2 workers are new")
        finally:
            done.set()
        assert [words.result(SECONDS) for words in found]
    assert not set(before) & set(process.wait_for_workers(2))
    assert process.stop() == 0
