"""What the wire protocols share: limits, refusals, new bodies."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest

from aserve._cparsers import lib
from aserve.body import BufferedBody, LiveBody
from aserve.protocols import PROTOCOLS, base
from aserve.settings import Config


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
def test_new_body(is_live, kind, is_chunked):
    """A new body is empty and of the kind that the configuration asks for."""
    body = base.new_body(base.Limits(is_live=is_live), is_chunked)
    assert type(body) is kind and body.is_live is is_live
    assert body.is_chunked is is_chunked and body.length == 0


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
    assert base.Limits.of(config, print, None) == (1000, 2000, 3, 4, 5, 6, True, True, print, None)


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
