"""A client of HTTP/2 in memory, by the library h2, and its session."""

import collections

import h2.connection
import h2.events
from h2.config import H2Configuration
from h2.settings import SettingCodes

from aserve.connections.connection import Connection
from aserve.connections.limit import ConnectionLimit
from aserve.features.http2.session import Session

from .fakes import Harness
from .replies import echo

# Of a client: strict about received frames, and about nothing sent, as tests break rules.
CONFIG = H2Configuration(header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False)


def request(method=b"GET", path=b"/", *further):
    """Return the field section of a request."""
    return [(b":method", method), (b":scheme", b"https"), (b":authority", b"a"), (b":path", path), *further]


def receive(frames, octets, on_event):
    """Pass on the events of the whole frames in these octets; return the rest.

    By RFC 9113 6.8, open streams go on after a GOAWAY: h2 would take no frame any more.
    """
    while len(octets) >= 9 and len(octets) >= (end := 9 + int.from_bytes(octets[:3], "big")):
        for event in frames.receive_data(octets[:end]):
            if isinstance(event, h2.events.ConnectionTerminated):
                frames.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
            on_event(event)
        octets = octets[end:]
    return octets


class Client:
    """A client and a session; nothing moves before `pump`."""

    def __init__(self, app=echo, max_streams=100, is_draining=False, **settings):
        self.harness = Harness(app, **settings)
        self.harness.service.is_draining = is_draining
        self.harness.service.connections = ConnectionLimit()
        self.session = Session(Connection(self.harness.service), max_streams)
        self.h2 = h2.connection.H2Connection(CONFIG)
        self.bodies = collections.defaultdict(bytes)  # by stream
        self.heads = {}
        self.hints = []
        self.ended, self.resets = set(), {}
        self.goaways = []  # the last stream and the code of each
        self.pongs = []
        self._octets = b""  # of an incomplete frame
        self.gives_room = True  # acknowledges octets of bodies
        _, self.transport = self.harness.connect(self.session)
        self.h2.initiate_connection()
        self.pump()

    def ask(self, *fields, data=None, ends=True):
        """Send a request; return the number of its stream."""
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, list(fields) or request(), end_stream=ends and data is None)
        if data is not None:
            self.h2.send_data(stream_id, data, end_stream=ends)
        return stream_id

    def forget_max_streams(self):
        """Begin streams as a client without the server's settings does."""
        self.h2.remote_settings._settings[SettingCodes.MAX_CONCURRENT_STREAMS] = collections.deque([1 << 20])

    def pump(self, runs=True):
        """Exchange octets until nothing moves; `runs`: apps, too."""
        for _ in range(10_000):
            octets = self.h2.data_to_send()
            if octets:
                self.session.data_received(octets)
            if runs:
                self.harness.executor.run()
            self.harness.loop.turn()
            received = self.transport.received()
            if not octets and not received and not self.harness.loop.soon:
                return self
            self._read(received)
        raise AssertionError("it never comes to rest")

    def _read(self, octets):
        self._octets = receive(self.h2, self._octets + octets, self._on_event)

    def _on_event(self, event):
        if isinstance(event, h2.events.ResponseReceived):
            self.heads[event.stream_id] = dict(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            self.hints.append(dict(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            if self.gives_room and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, h2.events.PingAckReceived):
            self.pongs.append(bytes(event.ping_data))
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaways.append((event.last_stream_id, event.error_code))

    def pass_seconds(self, count):
        """Let time pass for the session and its streams."""
        for _ in range(count):
            for each in list(self.harness.service.connections):
                each.on_second()

    def status(self, stream_id):
        """Return the status of a stream's response."""
        return int(self.heads[stream_id][b":status"])

    @property
    def is_closed(self):
        """Tell whether the server has announced its last octet."""
        return self.transport.is_closing() or "write_eof" in self.transport.calls

    def dispose(self):
        """Close the socket."""
        self.harness.dispose()
