"""A TLS client over memory, aserve's session, and the fake socket between them; and their words."""

import ssl

from aserve.connections.accepting.tls_transport import TLSTransport

from .certificates import MemoryClient

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
GET_CLOSE = GET[:-2] + b"Connection: close\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"


class Line:
    """A client, a session, and the socket between them; `sent` is all octets out of the socket."""

    def __init__(self, harness, authority, **settings):
        self.harness, self.authority = harness, authority
        self.client = MemoryClient(authority, **settings)
        self.transport = TLSTransport(harness.service)
        plain, self.raw = harness.connect()  # for its socket and loop only
        harness.service.connections.discard(plain)
        self.raw.calls.clear()
        self.sent = b""
        self.raw.connect(self.transport)

    @property
    def connection(self):
        return self.transport._wire

    def pump(self):
        """Let both sides have the other's octets; return whether there were any."""
        octets = self.client.outgoing.read()
        if octets:
            self.transport.data_received(octets)
        self.harness.executor.run()
        received = self.raw.received()
        self.sent += received
        self.client.incoming.write(received)
        return bool(octets or received)

    def shake_hands(self):
        while not self.client.shake_hands() or self.pump():
            self.pump()
        return self

    def ask(self, octets=GET):
        self.client.session.write(octets)
        return self

    def answer(self):
        """Return the client's octets, and whether a closure alert came behind them."""
        octets, is_over = b"", False
        while True:
            try:
                piece = self.client.read()
            except ssl.SSLWantReadError:
                if not self.pump() and not self.harness.loop.soon:
                    return octets, is_over
                self.harness.loop.turn()
                continue
            if not piece:
                return octets, True
            octets += piece

    def body(self):
        return self.answer()[0].partition(b"\r\n\r\n")[2]

    def check_records(self):
        """RFC 8446 5.1: whatever came out of the socket is whole records of TLS."""
        position = 0
        while position < len(self.sent):
            kind, version = self.sent[position], self.sent[position + 1 : position + 3]
            length = int.from_bytes(self.sent[position + 3 : position + 5], "big")
            assert kind in (20, 21, 22, 23) and version == b"\x03\x03" and 0 < length <= (1 << 14) + 256
            position += 5 + length
        assert position == len(self.sent)


def large(environ, start_response):
    start_response("200 OK", [])
    return [bytes(1_000_000)]
