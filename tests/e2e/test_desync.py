"""Request smuggling: after each pair of the corpus a connection is in sync, or closed.

tests/harness/desync.py explains the files. They go to aserve, over HTTP/2 as desync_http2.py says, and to nginx, HAProxy and Apache in front of
aserve: all on one kept connection where the front server allows, so that the rest of one request would be the next request's.
"""

import http.server
import socket
import sys
import threading

import pytest
from harness import desync, desync_http2
from harness.client import RawClient, Truncated
from harness.combining import long
from harness.front import HTTP_FRONTS

pytestmark = pytest.mark.long_on_pypy

PAIRS = desync.load()
IS_PYPY = sys.implementation.name == "pypy"
# A front server's answers to a pair are not checked; they are read for so long after the last octet, so that the front server has finished.
QUIET_SECONDS = 0.03


def receive_answers(client, expected):
    methods = [method for method, _, _ in expected["seen"]] + [""] * len(expected["answers"])
    for answer, method in zip(expected["answers"], methods):
        if answer == "cut":
            with pytest.raises(client.Truncated):
                client.recv_response()
        elif isinstance(answer, list):  # any of these
            assert status_or_cut(client) in answer
        elif isinstance(answer, str):
            assert client.recv_head().status == int(answer)
        else:
            reply = client.recv_response(is_head=method == "HEAD")
            while reply.status < 200:
                reply = client.recv_response(is_head=method == "HEAD")
            assert reply.status == answer
            assert reply.get("Date")  # RFC 9110 6.6.1


def status_or_cut(client):
    try:
        return client.recv_response().status
    except client.Truncated:
        return "cut"


def check(client, witness, expected):
    """Receive the answers to a pair; check that the connection is in sync or closed."""
    receive_answers(client, expected)
    expected_seen = list(expected["seen"])
    if expected["then"] == "open":
        reply = client.fetch("/probe")
        assert (reply.status, reply.get("X-Target")) == (200, "/probe")
        assert client.is_quiet()
        expected_seen.append(["GET", "/probe", ""])
    else:
        assert client.is_closed()
    seen = witness.take()
    found = [[method, target, text] for method, target, text, _, _ in seen]
    if client.protocol == "HTTP/2.0":  # whose requests run side by side
        found, expected_seen = sorted(found, key=repr), sorted(expected_seen, key=repr)
    assert found == expected_seen
    if "hosts" in expected:
        assert [request.host for request in seen][: len(expected["hosts"])] == expected["hosts"]


@pytest.mark.also_inline
@pytest.mark.also_http2
@pytest.mark.c_and_python
@pytest.mark.parametrize("body", ["buffer", "stream"])
@pytest.mark.parametrize("kind", dict.fromkeys(pair.name.split("-")[0] for pair in PAIRS))
def test_a_pair_leaves_no_request_behind(start_server, raw_client, way, kind, body):
    """The app sees the sent requests and no other; the next request is answered as itself."""
    if body == "stream" and not way.threads:
        pytest.skip("--body stream needs threads")
    witness = desync.Witness()
    server = start_server(witness, is_checked=False, body=body, **desync.SETTINGS)
    for pair in PAIRS:
        if pair.name.split("-")[0] != kind:
            continue
        expected, sendings = how_directly(way, pair)
        for send in sendings:
            client = raw_client(server)
            send(client)
            if expected.get("end") == "eof":
                client.end_sending()
            try:
                check(client, witness, expected)
            except (AssertionError, Truncated, TimeoutError) as exc:
                raise AssertionError(f"{pair.name}: {exc or type(exc).__name__}") from exc


def how_directly(way, pair):
    """Return the expected end of a pair, and the functions that send the pair; none if the pair has no meaning."""
    if way.wire == "http/2":
        expected = desync_http2.expected_of(pair)
        return expected, desync_http2.sendings(pair) if expected is not None else []
    return pair.by(way.http_parser), [lambda client: client.send(pair.raw)]


# Behind a front server


def send_pair(port, pair):
    """Send a pair and read the answers; the front server may do as it likes."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.settimeout(QUIET_SECONDS)
        try:
            client.sendall(pair.raw)
            if pair.expected.get("end") == "eof":
                client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass  # quiet, or reset


def wrong_behind(port, tag, witness, pairs):
    """Send the pairs, each with a good request behind; return the faults, and the tags of the requests."""
    wrong, tags = [], {}
    for number, pair in enumerate(pairs):
        send_pair(port, pair)
        client = RawClient(("127.0.0.1", port))
        target = f"/probe{number}"
        try:
            reply = client.fetch(target, "Connection: close")
            found = reply.status, reply.get("X-Target"), reply.get("X-Tag")
        except Truncated as exc:
            found = str(exc)
        client.close()
        seen = witness.take()
        own = [request.tag for request in seen if request.target == target]
        if found != (200, target, *own):
            wrong.append(f"{pair.name}: the next request was answered {found}")
        for request in seen:
            # A front server may send a request once more after a lost connection, under the same name.
            again = tags.setdefault(request.tag, request)
            if not tag.fullmatch(request.tag) or again[:2] != request[:2]:
                wrong.append(f"{pair.name}: the front server did not send {request}")
    return wrong, tags


@pytest.mark.checkout
@pytest.mark.one_way
@pytest.mark.plain
@pytest.mark.parametrize("http_parser", ["c"] if IS_PYPY else ["c", long("httptools")])
@pytest.mark.parametrize("front", HTTP_FRONTS)
def test_a_front_server_smuggles_no_request(start_server, fronts, front, http_parser):
    """Behind a front server the app sees only requests sent by the front server."""
    block, tag = HTTP_FRONTS[front]
    witness = desync.Witness()
    server = start_server(witness, is_checked=False, http_parser=http_parser, keep_alive_seconds=60, **desync.SETTINGS)
    port = getattr(fronts, front)(block.replace("{address}", "%s:%d" % server.address)).port
    wrong, tags = wrong_behind(port, tag, witness, PAIRS)
    assert wrong == []
    assert len(tags) > len(PAIRS)  # the probes, and the requests passed by the front server


class Careless(http.server.BaseHTTPRequestHandler):
    """A server that leaves a body unread on a kept connection."""

    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_GET(self):
        tag = self.headers.get("X-Front-Id", "")
        self.server.witness.note(desync.Seen(self.command, self.path, None, "", tag))
        self.send_response(200)
        for name, value in (("Content-Length", "0"), ("X-Target", self.path), ("X-Tag", tag)):
            self.send_header(name, value)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *args):
        pass


@pytest.mark.checkout
@pytest.mark.skipif(IS_PYPY, reason="this tests the test")
@pytest.mark.parametrize("front", HTTP_FRONTS)
def test_a_careless_server_is_found_out(fronts, front):
    """The tests above would see a smuggled request."""
    block, tag = HTTP_FRONTS[front]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        server.witness = desync.Witness()
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = getattr(fronts, front)(block.replace("{address}", "%s:%d" % server.server_address)).port
        pairs = [pair for pair in PAIRS if pair.name == "body-is-a-request"]
        wrong, _ = wrong_behind(port, tag, server.witness, pairs * 5)
        fronts.stop()
        server.shutdown()
    assert any("did not send" in line and "smuggled" in line for line in wrong)
