"""SCGI over real sockets: the form of responses, refusals, bodies."""

import pytest
from harness import apps, sidecars
from harness.rules import rule

pytestmark = [pytest.mark.one_way, pytest.mark.c_and_python]


def request(body=b"", **vars):
    """Return a request in nginx's form."""
    return sidecars.scgi({"REQUEST_METHOD": "GET", "REQUEST_URI": "/a", **vars}, body)


@pytest.fixture(params=["auto", "off"])
def start(request, start_server):
    """Start a server with and without the fast lane."""
    return lambda app, bind="scgi://127.0.0.1:0", **settings: start_server(
        app, bind=bind, lane=request.param, **settings
    )


@pytest.mark.parametrize(("scgi_status", "beginning"), [("field", b"Status: "), ("line", b"HTTP/1.1 ")])
def test_the_form_of_responses(start, raw_client, scgi_status, beginning):
    """--scgi-status: the first line of a response, be it the app's, a failure or a refusal."""
    server = start(apps.hello, scgi_status=scgi_status, max_body_bytes=10)
    assert raw_client(server).ask(request()).startswith(beginning + b"200 OK\r\n")
    assert raw_client(server).ask(request()).endswith(b"\r\n\r\nhello\n")
    client = raw_client(server)
    client.send(request(b"x" * 11))
    assert client.recv_until(b"\r\n") == beginning + b"413 Content Too Large\r\n"
    client = raw_client(server)
    client.send(b"17:CONTENT_LENGTH\x000\0,")
    assert client.recv_until(b"\r\n") == beginning + b"400 Bad Request\r\n"
    failing = start(apps.raises, scgi_status=scgi_status)
    assert raw_client(failing).ask(request()).startswith(beginning + b"500 Internal Server Error\r\n")


@rule(
    "SCGI 3",
    "CONTENT_LENGTH comes first, and is the length of the body",
    "it is, whatever stands beside it; a larger HTTP_CONTENT_LENGTH is answered 400: a body that is not announced would be lost",
)
def test_no_second_content_length(start, raw_client):
    """HTTP_CONTENT_LENGTH and HTTP_CONTENT_TYPE, which nginx sends as well, are not in the environ, nor obeyed."""
    server = start(apps.environ_json)
    octets = raw_client(server).ask(request(b"12345", HTTP_CONTENT_LENGTH="4", HTTP_CONTENT_TYPE="text/wrong"))
    assert b'"CONTENT_LENGTH": "5"' in octets and b"HTTP_CONTENT" not in octets and b"wrong" not in octets
    octets = raw_client(server).ask(request(b"12345", HTTP_CONTENT_LENGTH="999"))
    assert octets.startswith(b"Status: 400 ") and b"scgi_param CONTENT_LENGTH $content_length" in octets


@rule(
    "SCGI 3",
    "no name may come twice",
    "the last one counts; CONTENT_LENGTH may say the same, nothing or more, a smaller one is answered 400",
    "lenient",
    "locations made for uwsgi list names that nginx sends by itself; with scgi_request_buffering off its own length is none",
)
def test_repeated_names_leave_one_end(start, raw_client):
    """A repeated name is no fault, unless it leaves two ends of the body."""

    def repeat(*pairs, body=b""):
        pairs = [("CONTENT_LENGTH", str(len(body) and 1)), ("SCGI", "1"), ("TENANT", "red"), *pairs]
        data = "".join(f"{name}\0{value}\0" for name, value in pairs).encode("latin-1")
        return raw_client(server).ask(b"%d:%s,%s" % (len(data), data, body))

    server = start(apps.environ_json)
    octets = repeat(("CONTENT_LENGTH", ""), ("SCGI", "1"), ("TENANT", "blue"))
    assert b'"CONTENT_LENGTH": "0"' in octets and b'"TENANT": "blue"' in octets
    assert b'"CONTENT_LENGTH": "5"' in repeat(("CONTENT_LENGTH", "5"), body=b"12345")
    assert repeat(("CONTENT_LENGTH", "0"), body=b"12345").startswith(b"Status: 400 ")


@rule("RFC 3875 6.2", "a CGI response is neither chunked nor preceded by 1xx", "neither over SCGI nor over uwsgi")
def test_head_and_framing(start, raw_client):
    """No chunks, no interim responses, no body for HEAD."""
    server = start(apps.early_hints)
    octets = raw_client(server).ask(request())
    assert octets.startswith(b"Status: 200 OK\r\n") and octets.endswith(b"\r\n\r\nfinal")
    assert raw_client(server).ask(request(REQUEST_METHOD="HEAD")).endswith(b"\r\n\r\n")


@pytest.mark.parametrize("octets", [b"GET / HTTP/1.1\r\n\r\n", b"\0\x10\0\0", b"\x16\x03\x01"])
def test_other_protocols_are_told_so(start, raw_client, caplog, octets):
    server = start(apps.hello)
    client = raw_client(server)
    client.send(octets)
    assert client.recv_until(b"\r\n").startswith(b"Status: 400 ")
    assert "something other than SCGI spoken to an SCGI socket" in caplog.text
