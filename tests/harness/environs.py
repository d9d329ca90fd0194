"""One request's vars for both makers of environs: native/environ.c, and its twin in Python."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from aserve.core.exchange import REQUEST_LINE_COUNT, Exchange
from aserve.wsgi import environ as environ_module
from aserve.wsgi.environ import build_base_environ, build_environ
from harness.fakes import FakeConnection
from harness.front_vars import own_first

Pairs = Sequence[tuple[str, str]]
LINE = (
    ("REQUEST_METHOD", "GET"),
    ("REQUEST_URI", "/"),
    ("PATH_INFO", "/"),
    ("QUERY_STRING", ""),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
)
NOT_MADE = ("wsgi.input", "wsgi.early_hints")  # the caller sets these


class Request(NamedTuple):
    """The parts of a request's environ, without the listener's base."""

    vars: str
    own_count: int = REQUEST_LINE_COUNT
    is_front: bool = False
    addr: str = "203.0.113.7"
    port: str = "4711"


def new_base(**changes: Any) -> dict[str, Any]:
    """Return a listener's base."""
    settings: dict[str, Any] = {"server_software": "s", "multithread": True, "file_wrapper": object, **changes}
    return build_base_environ("www.example", "8000", **settings)


def block(pairs: Pairs) -> str:
    """Return a vars block."""
    return "\0".join(text for pair in pairs for text in pair)


def from_client(*fields: tuple[str, str], line: Pairs = LINE, **changes: Any) -> Request:
    """Return a request of HTTP."""
    return Request(block([*line, *fields]), **changes)


def from_front(*pairs: tuple[str, str]) -> Request:
    """Return a request of uwsgi or SCGI."""
    ordered, own_count = own_first(pairs)
    return Request(block(ordered), own_count, True)


def made_by_twin(base: dict[str, Any], request: Request) -> dict[str, Any]:
    """Return Python's environ, without kept parts of other requests."""
    exchange = Exchange(request.vars, request.own_count)
    exchange.is_from_front = request.is_front
    exchange.connection = FakeConnection(base)
    exchange.connection.remote_addr, exchange.connection.remote_port = request.addr, request.port
    environ_module.known_fields.clear()
    return shown(build_environ(exchange))


def made_by_native(native: Any, base: dict[str, Any], request: Request, place: int = 0) -> tuple[Any, int]:
    """Return C's environ, or None; and the place of its field section."""
    octets = request.vars.encode("latin-1")
    return native.make_environ(base, request.is_front, octets, request.own_count, request.addr, request.port, place)


def shown(environ: dict[str, Any]) -> dict[str, Any]:
    """Return an environ without the caller's own entries."""
    return {name: value for name, value in environ.items() if name not in NOT_MADE}
