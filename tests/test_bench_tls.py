"""The load of full TLS handshakes, and what it needs: its certificate, what it asks and counts. Nothing is measured here."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import socket
import ssl
import threading

import pytest
from harness.benchmarks import modules
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

clients, figures, procs, reports, servers, targets, tls, tls_load = modules(
    "clients", "figures", "procs", "reports", "servers", "targets", "tls", "tls_load"
)
BODY = b"My Own Hello World!"
GOOD = b"HTTP/1.0 200 ok\r\n\r\n" + BODY
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def plan_of(set_name, **timing):
    """Return the plan of a set, with everything installed."""
    facts = {"implementation": "CPython", "version": "3.11", "build": "", "is_optimised": True,
             "packages": dict.fromkeys(servers.PACKAGES, "1.0")}  # fmt: skip
    python = pathlib.Path("python")
    return targets.build_plan(set_name, servers.Pair(python, python, facts, facts), timing)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return what commands name: a certificate, its key, the folder of the file."""
    return tls.prepare(str(tmp_path_factory.mktemp("bench")), BODY)


class Server:
    """A TLS server on a thread: it answers each connection with the next reply, and closes it."""

    def __init__(self, places, replies):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(places["certificate"], places["key"])
        self._replies = iter(replies)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests, self.resumed = [], 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        for reply in self._replies:
            plain = self._listener.accept()[0]
            plain.settimeout(60)
            with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as connection:
                self.resumed += connection.session_reused
                self.requests.append(connection.recv(65536))
                connection.sendall(reply)
                connection.unwrap()

    def end(self):
        """Wait until every reply was given."""
        self._thread.join(60)
        self._listener.close()
        assert not self._thread.is_alive()


@needs_openssl
def test_each_request_has_a_handshake_of_its_own(places):
    """As many connections as requests, none of them resumed; each client asks at least once."""
    server = Server(places, [GOOD] * 3)
    row = reports.parse_close_load(tls_load.load(server.port, 3, 0.0, b"GET /hello HTTP/1.1\r\n\r\n", BODY))
    server.end()
    assert (row["n"], row["errors"]) == (3, {})
    assert row["p99_ms"] >= row["p50_ms"] > 0
    assert server.requests == [b"GET /hello HTTP/1.1\r\n\r\n"] * 3
    assert server.resumed == 0


@needs_openssl
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (GOOD, "good"),
        (b"HTTP/1.1 500 No\r\n\r\n" + BODY, "wrong"),
        (GOOD[:-1], "wrong"),
        (b"", "wrong"),
    ],
    ids=["good", "status", "cut", "nothing"],
)
def test_a_reply_is_checked_to_its_end(places, reply, kind):
    """Another status, or a body that is cut off, is no good answer."""
    server = Server(places, [reply])
    text = tls_load.load(server.port, 1, 0.0, b"GET /hello HTTP/1.1\r\n\r\n", BODY)
    server.end()
    row = reports.parse_close_load(text)
    assert (row["n"], row["errors"]) == ((1, {}) if kind == "good" else (0, {kind: 1}))


def test_what_is_no_reply_is_counted_by_its_kind():
    """Nobody listens; nobody answers; the connection broke."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, and it does not listen: nobody else can
        text = tls_load.load(closed.getsockname()[1], 2, 0.0, b"x", BODY)
    assert reports.parse_close_load(text)["errors"] == {"connect": 2}
    assert tls_load.kind_of_fault(socket.timeout("slow")) == "timeout"
    assert tls_load.kind_of_fault(ConnectionResetError()) == "reset"
    assert tls_load.kind_of_fault(ssl.SSLError("broken")) == "reset"


@needs_openssl
@pytest.mark.parametrize("name", targets.SETS["TLS handshakes"].names)
def test_servers_are_given_the_certificate(places, name):
    """Each command names it; s_server serves the file that is asked for, which is the body of the app."""
    server = next(each for each in servers.SERVERS["serve"] if each.name == name)
    values = {**dict.fromkeys(("aserve", "peer", "app", "log"), "x"), "port": "1", **places}
    words = servers.build_command(server, values)
    assert places["tls"] in " ".join(words)
    assert pathlib.Path(places["tls"] + tls.PATH).read_bytes() == clients.expected_body("hello") == BODY
    assert clients.path_of(plan_of("TLS handshakes")) == tls.PATH


def test_a_handshake_ends_with_its_request():
    """The server is asked to close; kept connections over TLS are asked for as any others."""
    call = clients.build_request(plan_of("TLS handshakes"))
    assert call.request.startswith(b"GET /hello HTTP/1.1\r\n") and b"\r\nConnection: close\r\n" in call.request
    assert call.end == BODY
    kept = plan_of("TLS kept")
    assert clients.path_of(kept) == "/" and clients.wrk_words(kept, "") == []


def test_a_set_lasts_as_long_as_it_must():
    """Where connections are opened within the load, a short one would measure their handshakes."""
    assert plan_of("TLS kept", seconds=0.8).seconds == targets.SETS["TLS kept"].least_seconds == 2.0
    assert plan_of("TLS kept", seconds=6.0).seconds == 6.0
    assert plan_of("TLS handshakes", seconds=0.8).seconds == 0.8
    assert (
        plan_of("TLS kept").seconds == 2.0 and plan_of("bare head").seconds == figures.Plan._field_defaults["seconds"]
    )


def test_without_openssl_nothing_is_measured(monkeypatch, tmp_path):
    """The reason is told in one line."""
    monkeypatch.setattr(tls, "MAKE", "no-such-program-as-this req")
    with pytest.raises(procs.BenchmarkError, match="no certificate"):
        tls.prepare(str(tmp_path), BODY)
