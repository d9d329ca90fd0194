"""Shared parts of the tests of a response: making one, and parsing its octets."""

from aserve.core.exchange import Exchange
from aserve.wsgi.response import CommonFields, Response

from .fakes import FakeConnection

TEXT = ("Content-Type", "text/plain")


def new(form=None, keep_alive=True, is_head=False, server_name="s"):
    """Return a response to a request of this kind."""
    exchange = Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/", 2)
    if form is not None:
        exchange.form = form
    exchange.keep_alive, exchange.is_head = keep_alive, is_head
    exchange.connection = FakeConnection()
    return Response(exchange, CommonFields(server_name)), exchange


def start(status="200 OK", headers=(TEXT,), **kind):
    made, exchange = new(**kind)
    made.start_response(status, list(headers))
    return made, exchange


def parse(octets):
    """Return status line, fields without Date and Server, and the octets behind the head."""
    head, _, rest = octets.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    pairs = [tuple(field.split(": ", 1)) for field in fields]
    return line, [pair for pair in pairs if pair[0] not in ("Date", "Server")], rest


def fields_of(octets):
    return dict(parse(octets)[1])
