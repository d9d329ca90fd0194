"""A response that fails behind its head is cut with the least loss: octets sent before arrive."""

import threading

import pytest
from harness import apps
from harness.rules import rule

WHOLE = b"w" * 50_000


class Cutting:
    """/length and /chunks fail within their body; anything else is answered whole."""

    def __init__(self):
        self.is_cut = threading.Event()

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path not in ("/length", "/chunks"):
            start_response("200 OK", apps.PLAIN)
            return [WHOLE]
        start_response("200 OK", [*apps.PLAIN, ("Content-Length", "1000")] if path == "/length" else apps.PLAIN)
        return self.fail()

    def fail(self):
        try:
            yield b"begun"
            raise ValueError("on purpose")
        finally:
            self.is_cut.set()


@rule(
    "RFC 9112 8",
    "an incomplete response is known by its framing",
    "by its length or its chunks, and a reset only where the end of the connection is the framing",
)
@pytest.mark.also_inline
@pytest.mark.parametrize("path", ["/length", "/chunks"])
def test_whole_responses_before_it_arrive(start_server, raw_client, path):
    """A pipelining client reads, however late, every response before the failed one, and the part of the failed one."""
    app = Cutting()
    server = start_server(app, is_checked=False)
    client = raw_client(server)
    client.send(
        b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target for target in (b"/", b"/", path.encode(), b"/"))
    )
    assert app.is_cut.wait(30)
    assert [client.recv_response().body for _ in range(2)] == [WHOLE, WHOLE]
    client.recv_head()
    with pytest.raises(client.Truncated) as caught:
        client.recv_exactly(10_000)
    assert b"begun" in caught.value.octets and not caught.value.is_reset
    assert b"HTTP/1.1" not in caught.value.octets


@pytest.mark.also_inline
@pytest.mark.parametrize("version", [0, 1])
def test_a_cut_over_tls_has_no_closure_alert(start_server, raw_client, tls_settings, version):
    """A closure alert says that all has come: where nothing else tells the cut, there is none."""
    client = raw_client(start_server(Cutting(), is_checked=False, **tls_settings))
    client.send(b"GET /chunks HTTP/1.%d\r\nHost: a\r\n\r\n" % version)
    with pytest.raises(client.Truncated) as caught:
        client.recv_response()
    assert caught.value.is_reset is (version == 0)


@pytest.mark.parametrize("path", ["/length", "/chunks"])
def test_others_are_not_touched(start_server, raw_client, path):
    """A cut ends one connection, and soon: the server keeps nothing."""
    server = start_server(Cutting(), is_checked=False)
    other = raw_client(server)
    assert other.fetch().body == WHOLE
    client = raw_client(server)
    client.request(path)
    with pytest.raises(client.Truncated):
        client.recv_response()
    client.close()
    server.wait_until_known(1)
    assert other.fetch().body == WHOLE
