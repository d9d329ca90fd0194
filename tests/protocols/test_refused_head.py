"""What is known of a head that is refused."""

import pytest
from harness.http1 import GET, feed

from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits
from aserve.protocols.refused_head import known_request, looks_like

LINE = b"GET /a%20b?c=d HTTP/1.1\r\n"
FAULTS = [
    b"\r\n",  # no Host
    b"Host: a\r\nHost: b\r\n\r\n",
    b"Host: a b\r\n\r\n",
    b"Host: a\r\nExpect: miracles\r\n\r\n",
]


@pytest.mark.parametrize("fields", FAULTS)
def test_a_fault_behind_the_request_line(new_http1, fields):
    """The exchange of a refusal has the request line, which the access log shows; the same in pieces."""
    head = LINE + fields
    for octets in (head, GET + head, b"\r\n" + head):
        refused = feed(new_http1(), octets)[-1]
        assert refused.refusal.status in (400, 417)
        assert refused.method_and_target == "GET /a%20b?c=d" and refused.vars.endswith("SERVER_PROTOCOL\0HTTP/1.1")


def test_a_field_that_is_none():
    """A line that is no field is refused before the head is whole."""
    for field in (b"A : 1\r\n", b"Host: a\r\nContent-Length: 5, 5\r\n"):
        (refused,) = PROTOCOLS["http", "c"](Limits())().receive(LINE + field + b"\r\n")
        assert refused.method_and_target == "GET /a%20b?c=d"


def test_pieces_never_hide_the_request_line():
    """However the head comes, its request line is known to our own parser; while it comes, too, for a 408."""
    protocol = PROTOCOLS["http", "c"](Limits())()
    assert protocol.known is None
    for octet in LINE + b"A: 1\r":
        assert protocol.receive(bytes([octet])) == []
    assert protocol.known.method_and_target == "GET /a%20b?c=d"
    (refused,) = protocol.receive(b"A")
    assert refused.method_and_target == "GET /a%20b?c=d"


def test_a_limit_names_its_setting(new_http1):
    """414 and 431 say what raises the limit, to the client and in the log."""
    for raw, status, setting in (
        (b"GET /" + b"x" * 20 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "--max-request-line"),
        (GET[:-2] + b"A: " + b"x" * 200 + b"\r\n\r\n", 431, "--max-head"),
        (GET[:-2] + b"A: 1\r\n" * 5 + b"\r\n", 431, "--max-fields"),
    ):
        (refused,) = new_http1(max_line_bytes=24, max_head_bytes=100, max_fields=3).receive(raw)
        assert refused.refusal.status == status and f"; {setting} raises it" in str(refused.refusal)


def test_head_is_refused_without_a_body(new_http1):
    """The refusal of a HEAD has no body (RFC 9110 9.3.2)."""
    (refused,) = new_http1().receive(b"HEAD / HTTP/1.1\r\n\r\n")
    assert refused.is_head


KNOWN = [
    (b"GET / HTTP/1.1\r\n", "GET /"),
    (b"\r\n\r\nGET /%zz HTTP/1.0\r\n", "GET /%zz"),
    (b"GET /a\xe9 HTTP/1.1\r\nHost: a", "GET /a\xe9"),
    (b"GET / HTTP/1.1", None),
    (b"GET / HTTP/2.0\r\n", None),
    (b"GET /a\x00b HTTP/1.1\r\n", None),
    (b"GET /a b HTTP/1.1\r\n", None),
    (b"GET /a#b HTTP/1.1\r\n", None),
    (b"", None),
    (b"\x16\x03\x01", None),
]


@pytest.mark.parametrize(("octets", "known"), KNOWN)
def test_known_request_is_only_a_whole_line(octets, known):
    """A whole line is known, however bad the escapes; a line able to forge a line of a log is not."""
    request = known_request(octets)
    assert (request and request.method_and_target) == known
    request = known_request(b"xyz" + octets, 3)
    assert (request and request.method_and_target) == known


LIKE = [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "this looks like TLS: let the client use http://"),
    (b"\x16", 400, "this looks like TLS"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "this looks like HTTP/2 with prior knowledge: let the client"),
    (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\n", 400, "bind this address with proxy+http://"),
    (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", 400, "this looks like the PROXY protocol"),
    (b"70:CONTENT_LENGTH\x000\0SCGI\x001\0", 400, "bind this address with scgi://"),
    (b"\0\x1a\0\0\x0e\0REQUEST_METHOD\x03\0GET", 400, "bind this address with uwsgi://"),
]


@pytest.mark.parametrize(("octets", "status", "told"), LIKE)
def test_another_protocol_is_named_with_the_remedy(octets, status, told):
    """The answer is the same behind a good request."""
    for before in (b"", GET):
        refused = feed(PROTOCOLS["http", "c"](Limits())(), before + octets)[-1]
        assert refused.refusal.status == status and told in str(refused.refusal)


def test_another_protocol_by_llhttp(new_http1):
    """The same by the other parser, where its first octets come together."""
    (refused,) = new_http1().receive(LIKE[0][0])
    assert refused.refusal.status == 400 and "this looks like TLS" in str(refused.refusal)


def test_like_nothing_known(new_http1):
    """What is only malformed is told by its clause; no guess."""
    for octets in (b"\x16\x04", b"\0\0", b"PRI * HTTP/1.1\r\nHost: a\r\n\r\n", b"70:GET"):
        assert looks_like(octets) == ""
    (refused,) = new_http1().receive(b"(GET / HTTP/1.1\r\n\r\n")
    assert str(refused.refusal) == "method is not a token (RFC 9110 section 9.1)"
