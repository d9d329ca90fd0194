"""What C makes of the fields in which proxies describe their client, beside what Python makes of them: the same environs, octets and lines."""

from __future__ import annotations

import json
import re
import socket

import pytest
from harness import apps
from harness.waiting import PATIENCE_SECONDS

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

FOR = "X-Forwarded-For: 192.0.2.1\r\n"
SENT = [
    "", FOR, f"Accept: a\r\n{FOR}Cookie: a=b\r\n", "X-Real-IP: a\r\n", "Forwarded: for=a\r\nX-Forwarded-Proto: https\r\n", "X-Forwarded: \r\n",
    f"{FOR}{FOR}", "X-A: X-Forwarded-For\r\n", f"X_Under: a\r\n{FOR}", "x_under: b\r\nAccept: a\r\n",
]  # fmt: skip


def ask(server, fields):
    """Return what comes for a request with these fields, without what differs by chance."""
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n".encode("latin-1"))
        octets = b""
        while piece := client.recv(1 << 16):
            octets += piece
    return re.sub(rb"Date: [^\r]*", b"Date: -", octets).replace(b"<method>", b"<Method>")


def environ_of(server, fields):
    """Return the head of environ_json's response and the environ, whose order is no promise, without ports of this run."""
    head, _, body = ask(server, fields).partition(b"\r\n\r\n")
    environ = json.loads(body)
    own = {"REMOTE_PORT", "SERVER_PORT"}
    return re.sub(rb"Content-Length: \d+", b"", head), {
        name: "a port" if name in own and len(value) == 5 else value for name, value in environ.items()
    }


def engine_of(server):
    return server.server._lane.native.engine


def lines_of(caplog, word):
    return [record.getMessage() for record in caplog.records if word in record.getMessage()]


def test_nobody_is_believed(start_server):
    """The app sees none of them, whether C or Python has taken them away."""
    in_c, in_python = (start_server(apps.environ_json, is_checked=False, native=native) for native in ("auto", "off"))
    for fields in [FOR, "X_Under: a\r\n"]:  # what is said once is said
        ask(in_c, fields), ask(in_python, fields)
    for count, fields in enumerate(SENT, 1):
        assert environ_of(in_c, fields) == environ_of(in_python, fields)
        assert (engine_of(in_c).plain_count, engine_of(in_c).promoted_count) == (count, 0)


@pytest.mark.parametrize(
    ("fields", "word"), [(FOR, "X-Forwarded-For came"), ("X_Under: a\r\n", "the field X_Under came")]
)
def test_what_is_said_once(start_server, caplog, fields, word):
    """The first request has its line from Python; the next ones are plain."""
    caplog.set_level("INFO", "aserve")
    server = start_server(apps.hello, is_checked=False, native="auto")
    counts = []
    for _ in range(3):
        assert b"200 OK" in ask(server, fields)
        counts.append(engine_of(server).plain_count)
    assert counts == [0, 1, 2] and len(lines_of(caplog, word)) == 1
