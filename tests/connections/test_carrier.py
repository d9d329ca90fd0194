"""A protocol chosen by ALPN takes the place of the wire."""

import pytest
from harness import apps

from aserve import Server
from aserve.connections.carrier import Carrier


class Counting(Carrier):
    """Remembers its calls."""

    has_streams = False

    def __init__(self, connection=None, has_streams=False):
        self.connection, self.octets, self.is_lost, self.has_streams = connection, b"", False, has_streams

    def data_received(self, data):
        self.octets += data

    def eof_received(self):
        return True

    def connection_lost(self, exc):
        self.is_lost = True


@pytest.mark.parametrize("protocols", [["x"], ["http/1.1", "x"], ["http/1.1"], None])
def test_alpn_gives_a_connection_to_its_carrier(new_line, protocols):
    """A carrier gets the connection if ALPN has chosen its name; HTTP/1.1 gets every other."""
    made = []

    def new_carrier(connection):
        made.append(Counting(connection))
        return made[-1]

    line = new_line(client={"protocols": protocols}, carriers={"x": new_carrier})
    line.shake_hands()
    is_chosen = protocols is not None and "x" in protocols
    assert line.client.session.selected_alpn_protocol() == ("x" if is_chosen else protocols and "http/1.1")
    assert len(made) == is_chosen
    if is_chosen:
        line.ask(b"anything").pump()
        assert made[0].octets == b"anything" and made[0].connection.base_environ["SSL_PROTOCOL"]
        line.raw.lose()
        assert made[0].is_lost


async def test_numbers_count_the_streams():
    """A connection without a stream is idle; otherwise its streams are counted."""
    async with Server(apps.hello, bind="127.0.0.1:0", threads=1) as server:
        server._listening.connections.update([Counting(), Counting(has_streams=True)])
        found = server.statistics()
        server._listening.connections.clear()
    assert (found.connections_open, found.connections_idle, found.connections_in_handshake) == (1, 1, 0)
