"""Plain requests (native/README.md), and the servers that answer them in C and in Python."""

import re
import socket
from typing import Any

from . import sidecars
from .waiting import PATIENCE_SECONDS

BARE = "Host: a\r\nX-Back: \xe9t\xe9\r\n"
HEAD = f"{BARE}Accept: text/html\r\nCookie: a=b\r\n"


def engine_of(server: Any) -> Any:
    """Return the engine of the server's lane."""
    return server.server._listening.lane.native.engine


def site_of(apps: dict[str, Any]) -> Any:
    """Return the app of the path; `apps`: (app, anything), by name."""

    def site(environ: Any, start_response: Any) -> Any:
        return apps[environ["PATH_INFO"][1:]][0](environ, start_response)

    return site


def ask(server: Any, *requests: bytes) -> bytes:
    """Send requests in turn on a connection; return all octets, without parts that differ by chance."""
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        for request in requests:
            client.sendall(request)
            if request is not requests[-1]:
                client.settimeout(PATIENCE_SECONDS)
                received = b"" if b"HEAD" in request else client.recv(1 << 20)
                assert received is not None
        octets = b""
        while piece := client.recv(1 << 20):
            octets += piece
    return _without_chance(octets)


def request(name: str, method: str = "GET", fields: str = HEAD, body: bytes = b"", is_last: bool = True) -> bytes:
    """Return a request for an app of the table; the connection ends behind the last one."""
    close = "Connection: close\r\n" if is_last else ""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} /{name} HTTP/1.1\r\n{fields}{length}{close}\r\n".encode("latin-1") + body


def ask_front(path: Any, protocol: str, name: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Send a request over uwsgi or SCGI; return its octets, without parts that differ by chance."""
    octets = b""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.connect(str(path))
        client.sendall(front_request(protocol, name, method, body))
        while piece := client.recv(1 << 16):
            octets += piece
    return _without_chance(octets)


def front_request(protocol: str, name: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Return a request in nginx's form."""
    vars = {
        "CONTENT_LENGTH": str(len(body) or "") if protocol == "uwsgi" else str(len(body)), "QUERY_STRING": "", "REQUEST_METHOD": method,
        "REQUEST_URI": f"/{name}", "PATH_INFO" if protocol == "uwsgi" else "DOCUMENT_URI": f"/{name}",
        "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "192.0.2.1",
        "SERVER_NAME": "a", "SERVER_PORT": "80", "HTTP_HOST": "a", "HTTP_X_BACK": "caff\xe8", "HTTP_COOKIE": "a=b",
    }  # fmt: skip
    return sidecars.encode(protocol, vars, body)


def _without_chance(octets: bytes) -> bytes:
    octets = re.sub(rb"Date: [^\r]*", b"Date: -", octets)
    return re.sub(rb'("(?:REMOTE|SERVER)_PORT": )"\d+"', rb'\1"0"', octets).replace(b"<method>", b"<Method>")
