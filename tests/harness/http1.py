"""HTTP/1.1 for the tests of its protocol: requests, the facts of exchanges, and the parsers."""

import importlib.util

from aserve.protocols import PROTOCOLS

PARSERS = [parser for name, parser in PROTOCOLS if name == "http"]
if importlib.util.find_spec("httptools") is None:  # as on PyPy
    PARSERS.remove("httptools")
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
# llhttp is fed 4 KiB at a time: requests so large that the limit of the pipeline is exact.
LARGE = GET[:-2] + b"A: " + b"x" * 5000 + b"\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED_HEAD = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = CHUNKED_HEAD + b"5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"
EXPECT = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
EXPECT_CHUNKED = CHUNKED_HEAD[:-2] + b"Expect: 100-continue\r\n\r\n"


def body_of(exchange):
    return None if exchange.body is None else exchange.body.open().read()


def facts(exchange):
    """Return all facts of an exchange, comparable."""
    refusal = exchange.refusal
    return (
        exchange.vars,
        exchange.form,
        exchange.keep_alive,
        exchange.is_head,
        None if refusal else body_of(exchange),
        exchange.body is not None and exchange.body.is_chunked,
        refusal and (refusal.status, str(refusal)),
    )


def feed(protocol, *pieces):
    """Return all exchanges completed by these pieces, the kept ones too."""
    exchanges = []
    for piece in pieces:
        exchanges += protocol.receive(piece)
        protocol.go_on()  # whatever was asked for is answered over HTTP
        while protocol.has_unparsed:
            exchanges += protocol.receive(b"")
            protocol.go_on()
    return exchanges


def dict_of(exchange):
    return dict(vars_of(exchange))


def vars_of(exchange):
    parts = iter(exchange.vars.split("\0"))
    return list(zip(parts, parts))
