"""The events of each request, at --log-level debug."""

import logging
from types import SimpleNamespace

import pytest
from harness.extensions import new_context

from aserve.core.errors import RequestRefused
from aserve.core.exchange import Exchange
from aserve.extension import Extensions
from aserve.features import Config
from aserve.features.wire_log import WireLog
from aserve.workers.inline import InlineExecutor

VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/a"


def new_exchange(addr="192.0.2.1"):
    exchange = Exchange(VARS, 2)
    exchange.connection = SimpleNamespace(
        remote_addr=addr,
        remote_port="9",
        service=SimpleNamespace(name="http://a", config=Config()),
        wire=SimpleNamespace(way="nobody"),
    )
    return exchange


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_whether_it_is_on(caplog, level):
    """Only if the level says so when the server starts; otherwise no end costs anything."""
    extensions = Extensions([WireLog(Config())])
    caplog.set_level(level, "aserve.wire")
    extensions.start(new_context())
    assert WireLog.is_on(Config()) and (extensions.new_ends(InlineExecutor()) is not None) == (level == logging.DEBUG)


def test_ends_tell_request_and_outcome(caplog):
    """The log tells the request, its outcome, and the connection's fate."""
    caplog.set_level(logging.DEBUG, "aserve.wire")
    log, exchange = WireLog(Config()), new_exchange()
    log.write(exchange)
    exchange.response = SimpleNamespace(code=404, sent_bytes=7)
    exchange.keep_alive, exchange.end = False, "timed_out"
    log.write(exchange)
    log.write_refused(new_exchange("").connection, exchange, RequestRefused(413, "large"))
    log.write_refused(exchange.connection, None, RequestRefused(400, "bad"))
    kept = [record.getMessage() for record in caplog.records]
    assert [message.partition(": ")[2] for message in kept] == [
        "GET /a on http://a, by nobody: answered 0, 0 octets; its connection is kept",
        "GET /a on http://a, by nobody: timed_out 404, 7 octets; its connection closes",
        "GET /a is refused: 413, large",
        "a request is refused: 400, bad",
    ]
    assert [message.partition(": ")[0] for message in kept] == [
        "192.0.2.1:9", "192.0.2.1:9", "unix socket", "192.0.2.1:9",
    ]  # fmt: skip
