"""Requests in a front server's form, by uwsgi or SCGI, and their responses."""

import struct
from typing import Any, NamedTuple

PROTOCOLS = ("uwsgi", "scgi")


class SidecarReply(NamedTuple):
    """One response, framed by the connection's end."""

    status: int
    fields: dict[str, str]
    body: bytes


def uwsgi(vars: dict[str, str], body: bytes = b"", modifier1: int = 0) -> bytes:
    items = [text.encode("latin-1") for pair in vars.items() for text in pair]
    data = b"".join(struct.pack("<H", len(item)) + item for item in items)
    return struct.pack("<BHB", modifier1, len(data), 0) + data + body


def scgi(vars: dict[str, str], body: bytes = b"") -> bytes:
    """Return a netstring of SCGI with a body: CONTENT_LENGTH comes first."""
    return netstring({"CONTENT_LENGTH": str(len(body)), "SCGI": "1", **vars}) + body


def netstring(vars: dict[str, str]) -> bytes:
    text = "".join(f"{text}\0" for pair in vars.items() for text in pair)
    return f"{len(text)}:{text},".encode("latin-1")


def encode(protocol: str, vars: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request of either protocol."""
    return uwsgi(vars, body) if protocol == "uwsgi" else scgi(vars, body)


def fetch(client: Any, protocol: str, path: str, **vars: str) -> SidecarReply:
    """Ask for a path, and read until the connection closes."""
    base = {"REQUEST_METHOD": "GET", "REQUEST_URI": path, "PATH_INFO": path, "SERVER_PROTOCOL": "HTTP/1.1"}
    client.send(encode(protocol, {**base, **vars}))
    head, _, body = client.recv_to_end().partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    return SidecarReply(int(status_line.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body)
