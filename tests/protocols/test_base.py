"""What the wire protocols share: limits, refusals, new bodies."""

import dataclasses
import importlib.util
import struct

import pytest

from aserve._cparsers import lib
from aserve.core.body import BufferedBody, LiveBody
from aserve.core.errors import RequestRefused
from aserve.features import Config
from aserve.protocols import EXCHANGE_FACTORIES, PROTOCOLS, base


@pytest.mark.parametrize(
    ("code", "status", "clause"),
    [
        (lib.ASERVE_MISSING_HOST, 400, "RFC 9112 section 3.2"),
        (lib.ASERVE_HEAD_TOO_LARGE, 431, "RFC 6585 section 5"),
        (lib.ASERVE_UNKNOWN_CODING, 501, "RFC 9112 section 6.1"),
        (lib.ASERVE_UNKNOWN_EXPECTATION, 417, "RFC 9110 section 10.1.1"),
    ],
)
def test_a_result_code_becomes_a_refusal(code, status, clause):
    """The C parser's code comes out as the exception that answers it, with its clause."""
    refused = base.refusal(code)
    assert refused.status == status
    assert f"({clause})" in str(refused)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("is_live", "kind"), [(False, BufferedBody), (True, LiveBody)])
def test_new_body_is_empty_and_of_its_kind(is_live, kind, is_chunked):
    body = base.new_body(base.Limits(is_live=is_live), is_chunked)
    assert type(body) is kind and body.is_live is is_live
    assert body.is_chunked is is_chunked and body.length == 0


@pytest.mark.parametrize("is_live", [False, True])
def test_a_new_body_that_is_too_large(is_live):
    """413, before any of it comes; a body may be as large as the limit."""
    limits = base.Limits(max_body_bytes=12, is_live=is_live)
    assert base.new_body(limits, False, 12).length == 0
    with pytest.raises(RequestRefused, match="--max-body") as caught:
        base.new_body(limits, False, 13)
    assert caught.value.status == 413


def test_body_too_large():
    """RFC 9110 15.5.14: 413; the text names the limit and its setting."""
    refused = base.body_too_large(base.Limits(max_body_bytes=12))
    assert refused.status == 413
    assert "12 octets" in str(refused) and "--max-body" in str(refused)


def test_default_limits_are_the_settings_defaults():
    """A protocol made without a Config has the limits that a Config gives."""
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    limits = base.Limits()
    assert limits.max_line_bytes == defaults["max_request_line_bytes"]
    for name in ("max_head_bytes", "max_fields", "max_body_bytes", "body_memory_bytes"):
        assert getattr(limits, name) == defaults[name]
    assert limits.max_pipelined == defaults["max_pipelined"]
    assert limits.is_live is (defaults["body"] == "stream")
    assert base.Limits.of(Config(), limits.strip_forwarded, limits.body_space) == limits


def test_limits_are_those_of_the_settings():
    """Each setting reaches the protocols."""
    config = Config(
        max_request_line_bytes=1000, max_head_bytes=2000, max_fields=3, max_body_bytes=4, body_memory_bytes=5, max_pipelined=6,
        body="stream", scgi_status="line",
    )  # fmt: skip
    assert base.Limits.of(config, print, None, None) == (1000, 2000, 3, 4, 5, 6, True, True, print, None, None)


KEYS = [key for key in PROTOCOLS if key[1] != "httptools" or importlib.util.find_spec("httptools")]


@pytest.mark.parametrize("key", KEYS)
def test_every_protocol_has_the_interface(key):
    """A connection finds everything that it asks a wire protocol for."""
    protocol = PROTOCOLS[key](base.Limits())()
    for name in ("receive", "receive_eof"):
        assert callable(getattr(protocol, name))
    for name in ("is_continue_due", "is_mid_message", "is_mid_body", "has_unparsed"):
        assert getattr(protocol, name) is False
    assert protocol.live_body is None


def packet(modifier1, *items):
    """A uwsgi packet of these items."""
    data = b"".join(struct.pack("<H", len(item)) + item for item in items)
    return struct.pack("<BHB", modifier1, len(data), 0) + data


SCGI = b"CONTENT_LENGTH\x000\x00SCGI\x001\x00REQUEST_METHOD\x00HEAD\x00"
HEADS = {
    "http": (lib.HTTP1_HEAD, 0, b"HEAD / HTTP/1.0\r\n\r\n"),
    "http forwarded": (
        lib.HTTP1_KEEP_ALIVE | lib.HTTP1_VERSION_1_1 | lib.HTTP1_FORWARDED, 0,
        b"GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=b\r\n\r\n",
    ),
    "scgi": (0, 0, b"%d:%s," % (len(SCGI), SCGI)),
    "uwsgi": (0, lib.UWSGI_WSGI_MOUNT, packet(30, b"REQUEST_METHOD", b"HEAD")),
    "uwsgi call": (0, lib.UWSGI_RPC, packet(173, b"f", b"x")),
    "uwsgi ping": (0, lib.UWSGI_PING, packet(100)),
    "uwsgi nothing": (0, lib.UWSGI_WSGI, packet(0)),
    "uwsgi unknown": (0, 5, packet(5)),
}  # fmt: skip


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_that_was_parsed(kind):
    """The lane makes of a head the same exchange as a protocol does."""
    name, (flags, modifier1, octets) = kind.split()[0], HEADS[kind]
    [expected] = PROTOCOLS[name, "c"](base.Limits())().receive(octets)
    forwarded = "\0HTTP_FORWARDED\0for=b" if kind == "http forwarded" else ""
    make = EXCHANGE_FACTORIES[name](base.Limits())
    made = make(expected.vars + forwarded, expected.own_count, flags, modifier1, b"xy" + octets, 2, len(octets))
    assert made.is_for_loop == (kind in ("uwsgi ping", "uwsgi nothing", "uwsgi unknown"))
    facts = [{**vars(exchange), "refusal": str(exchange.refusal)} for exchange in (made, expected)]
    assert facts[0] == facts[1]
