"""One client's TLS session: between the socket's transport and a connection's wire.

Owns:     the handshake and its time-out, octets to records and back, how a
          session ends.
Thread:   event loop only; is_closing() any.
Spec:     RFC 8446 section 6 (closure and errors); RFC 9112 section 9.8.
Not here: contexts and certificates (tls/certificates.py), HTTP (protocols/http1.py).

To the event loop it is a protocol, to the wire a transport: octets of
ours reach the socket only through `_flush`, so they are always in records.
The event loops' own TLS is not used: the three of them (asyncio's before and
after 3.11, uvloop's) differ in how a session ends, none reports a failed
handshake or lets a client close one direction, and on PyPy one client's
error ends other clients' connections (tls/errors.py). Nor were they faster
in any run of 2026-11-21 (wrk with 32 connections, CPython 3.11 and PyPy 3.9).

Longer than other files: a protocol and a transport have many methods, most of a few lines.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import ssl
from typing import Any, cast

from ...tls import certificates as tls
from ...tls import client_hello
from ...tls.sessions import READ_BYTES, OwnSession, PythonSession, TLSSession
from ...wsgi.response import error_response
from ..carrier import Carrier
from ..connection import LOST, Connection, peer_of
from ..loop.websocket import WebSocket
from ..loop.wire_loop import LoopWire
from ..progress import LINGER_SECONDS, first_seconds
from ..service import Service

logger = logging.getLogger("aserve")

# Octets of replies to records without data (key updates) that may wait for a client. Guess: 1,000 replies.
MAX_REPLY_BYTES = 1 << 15

PLAIN_HTTP, NOT_TLS = "HTTP without TLS came to a TLS port", "what came to a TLS port is not TLS"
NO_TLS = "this port speaks TLS, and the request came without; use https://"


class Phase(enum.IntEnum):
    """The phase of a session."""

    HELLO = 0  # the ClientHello is not complete
    HANDSHAKE = 1
    REFUSED = 2  # there will be no session; further octets of the client are read and dropped
    OPEN = 3
    SHUT = 4  # our closure alert is sent; further octets of the client are read and dropped
    CLOSED = 5


# As in sending.py: a member looked up in its enum class costs CPython 3.11 three times a global.
OPEN = Phase.OPEN


class TLSTransport(asyncio.Protocol, asyncio.Transport):
    """A protocol for the event loop; a transport for a connection's wire, which is made when the handshake is done."""

    __slots__ = (
        "_hello", "_is_at_eof", "_phase", "_quiet_seconds", "_raw", "_reply_bytes", "_service", "_session", "_wire", "remote_addr",
    )  # fmt: skip

    _session: TLSSession  # when the ClientHello is complete
    idle_seconds = 0.0

    def __init__(self, service: Service) -> None:
        self._service = service
        self._raw: asyncio.Transport = cast(asyncio.Transport, None)  # the socket's; set by connection_made
        self._phase = Phase.HELLO
        self._hello = client_hello.FirstOctets()
        self._wire: LoopWire | Carrier | WebSocket | None = None
        self._is_at_eof = False  # the client will send no more
        self._quiet_seconds = 0.0
        self._reply_bytes = 0
        self.remote_addr = ""

    @classmethod
    def of(cls, session: OwnSession, wire: LoopWire | Carrier) -> TLSTransport:
        """Make the transport of a connection that comes from the lane, with its session."""
        transport = cls(wire.connection.service)
        transport._phase, transport._session, transport._wire = OPEN, session, wire
        return transport

    @classmethod
    def shaking(cls, service: Service, session: OwnSession | None, seconds: float) -> TLSTransport:
        """Make the transport of a connection that comes from the lane within its handshake; `session`: None: nothing is read."""
        transport = cls(service)
        transport._quiet_seconds = seconds
        if session is not None:
            transport._hello.data += session.hello
            if not transport._hello.data:
                transport._phase, transport._session = Phase.HANDSHAKE, session
        return transport

    # --- asyncio.Protocol: called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, or comes from the lane."""
        self._raw = cast(asyncio.Transport, transport)
        if self._phase is OPEN:
            wire = cast("LoopWire | Carrier", self._wire)
            self.remote_addr = wire.connection.remote_addr
            self._flush()
            self._begin_wire(wire)
            return
        peer = peer_of(transport)
        self.remote_addr = peer[0] if peer is not None else ""
        self._service.connections.add(self)
        if peer is None:
            self.abort()
        elif self._phase is Phase.HANDSHAKE:
            self._shake_hands()
        elif self._hello.data:
            self._read_client_hello(b"")

    def data_received(self, data: bytes) -> None:
        """Octets have come."""
        phase = self._phase
        if phase is OPEN:
            self._session.feed(data)
            self._receive()
        elif phase is Phase.HELLO:
            self._read_client_hello(data)
        elif phase is Phase.HANDSHAKE:
            self._session.feed(data)
            self._shake_hands()
        elif self._wire is not None:
            self._wire.drop_octets(data)

    def eof_received(self) -> bool:
        """The client will send no more; its earlier requests are still answered."""
        wire = self._wire
        if wire is None:
            return False  # the event loop closes
        # Lenient: RFC 9112 9.8. Without a closure alert an attacker may have cut the connection; but a request
        # shows its own end.
        self._on_eof(wire)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket's transport is gone."""
        self._phase = Phase.CLOSED
        wire, self._wire = self._wire, None
        try:
            self._service.connections.discard(self)
        finally:
            if wire is not None:
                wire.connection_lost(exc)

    def pause_writing(self) -> None:
        """The buffer of the socket's transport is over its limit."""
        if self._wire is not None:
            self._wire.pause_writing()

    def resume_writing(self) -> None:
        """The socket's transport has room again."""
        if self._wire is not None:
            self._wire.resume_writing()

    # --- called by the server, in place of a wire until there is one ---

    def on_second(self) -> None:
        """End a handshake that takes too long; called once a second."""
        self._quiet_seconds += 1.0
        if self._phase is Phase.REFUSED:
            if self._quiet_seconds > LINGER_SECONDS:
                self.close()
        elif self._quiet_seconds > first_seconds(self._service.config, self._service.is_draining, self._has_begun):
            if self._has_begun:
                self._log("the TLS handshake did not end in time (--head-timeout)")
            self.abort()

    def drain(self) -> None:
        """Let the client begin, if it is quick; a handshake under way goes on, as without TLS a head does."""
        if not self._has_begun:
            self._quiet_seconds = 0.0

    @property
    def _has_begun(self) -> bool:
        """Whether octets of a handshake have come."""
        return self._phase is not Phase.HELLO or bool(self._hello.data)

    # Handshake

    def _read_client_hello(self, data: bytes) -> None:
        """Look at the client's first octets; begin when its ClientHello is whole."""
        is_complete = self._hello.feed(data)
        received = self._hello.data
        if not client_hello.is_tls(received):
            # No TLS was sent yet: a client that sends HTTP is answered in HTTP, as nginx does.
            answer = error_response(400, NO_TLS, None, self._service.common_fields) if received[:1].isalpha() else b""
            self._refuse(answer, PLAIN_HTTP if answer else NOT_TLS)
            return
        if not is_complete:
            return
        hello = self._hello.parse()
        offered = [name.decode("latin-1") for name in hello.protocols]
        new_context = self._service.contexts.get(offered[0]) if len(offered) == 1 else None
        context = new_context(hello.server_name) if new_context is not None else None
        if (
            context is None
            and offered
            and not any(name in tls.ALPN_PROTOCOLS or name in self._service.carriers.by_name for name in offered)
        ):
            names = ", ".join(map(ascii, offered[:5]))
            self._refuse(client_hello.NO_APPLICATION_PROTOCOL, f"no HTTP/1.1 for a client that speaks only {names:.99}")
            return
        self._hello = client_hello.FirstOctets()
        if context is not None:
            self._session = PythonSession(context)
        else:
            self._session = cast(tls.Wrap, self._service.wrap)(hello.server_name)
        self._session.feed(bytes(received))
        self._phase = Phase.HANDSHAKE
        self._shake_hands()

    def _shake_hands(self) -> None:
        session = self._session
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except OSError as exc:  # an SSLError is one
            self._refuse(session.take(), f"TLS handshake failed: {tls.reason_of(exc)}")
            return
        chosen = session.selected_alpn_protocol() or ""
        if chosen in self._service.contexts:  # the handshake is all that this protocol has
            self._phase = OPEN
            self._flush()
            self.close()
            return
        connection = Connection(self._service)
        try:
            connection.base_environ = self._service.base_of_session(session)
        except ValueError as exc:
            self._log(f"closed: a client certificate that cannot be read: {exc}")
            self.abort()
            return
        self._phase = OPEN
        self._service.connections.discard(self)
        new_carrier = self._service.carriers.by_name.get(chosen)
        if new_carrier is not None:
            carrier = new_carrier(connection)
            if not self._enter_lane(connection, carrier):
                self._flush()
                self._begin_wire(carrier)
        elif not connection.identify(self):
            self.abort()
        elif not self._enter_lane(connection):
            self._flush()
            self._begin_wire(LoopWire(connection, is_new=False, can_bypass=False))

    def _begin_wire(self, wire: LoopWire | Carrier) -> None:
        self._wire = wire
        wire.connection_made(self)
        if self._phase is OPEN and self._session.pending:
            self._receive()

    def _enter_lane(self, connection: Connection, carrier: Carrier | None = None) -> bool:
        """Let the lane go on from here, with the records that are still to be sent and those that have come."""
        service, session = self._service, self._session
        take = service.take_back if carrier is None else service.take_carrier
        if take is None or type(session) is not OwnSession or self._raw.get_write_buffer_size():
            return False
        if carrier is not None and not connection.identify(self):
            return False
        connection.wire = LOST  # until it has one
        state = () if carrier is None else (carrier.state,)
        if not take(connection, self._raw.get_extra_info("socket").fileno(), session, False, *state):
            return False
        self.close()
        return True

    def _refuse(self, octets: bytes, why: str) -> None:
        """Send the last octets; then read on for a while, or a reset could destroy them on their way."""
        self._log(why)
        self._phase = Phase.REFUSED
        self._quiet_seconds = 0.0
        self._hello = client_hello.FirstOctets()
        if not octets or not self._raw.can_write_eof():
            self.close()
            return
        self._raw.write(octets)
        self._raw.write_eof()

    # Receiving

    def _receive(self) -> None:
        """Decrypt the received records, and pass on their octets."""
        pieces, fault, is_at_end, session = [], None, False, self._session
        try:
            while True:
                octets = session.read(READ_BYTES)
                if not octets:
                    is_at_end = True  # RFC 8446 6.1: the client's closure alert
                    break
                pieces.append(octets)
                if not session.pending:
                    break  # one exception less for the usual case, whole records
        except ssl.SSLWantReadError:
            pass
        except OSError as exc:
            fault = exc
        self._flush_replies()
        wire = self._wire
        if pieces and wire is not None and not self._is_at_eof:
            wire.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if fault is not None:
            self._abort_session(fault)
        elif is_at_end and wire is not None:
            self._on_eof(wire)

    def _on_eof(self, wire: LoopWire | Carrier | WebSocket) -> None:
        if not self._is_at_eof:
            self._is_at_eof = True
            wire.eof_received()

    def _flush_replies(self) -> None:
        """Send the session's own records; abort a client that asks for many and does not read them."""
        size = self._session.out_size
        if not size:
            return
        if not self._raw.get_write_buffer_size():
            self._reply_bytes = 0
        self._reply_bytes += size
        self._flush()
        if self._reply_bytes > MAX_REPLY_BYTES:
            self._log("connection aborted: the client asks for new keys and does not read")
            self.abort()

    def _abort_session(self, exc: OSError) -> None:
        """Close a session that is broken, with its alert if that can be sent at once; log why."""
        if self._phase is not Phase.CLOSED:
            self._log(f"connection aborted: TLS failed: {tls.reason_of(exc)}")
            self._phase = Phase.CLOSED
            self._flush()
            if self._raw.get_write_buffer_size():
                self._raw.abort()
            else:
                self._raw.close()

    # --- asyncio.Transport: called by the wire ---

    def write(self, data: Any) -> None:
        """Send octets, in records."""
        if self._phase is not OPEN or not data:
            return
        raw, session, sent = self._raw, self._session, 0
        try:
            if not raw.get_write_buffer_size() and not raw.is_closing():
                sent = session.send(raw.get_extra_info("socket").fileno(), data)
            while sent < len(data):
                sent += session.write(memoryview(data)[sent:])
        except ConnectionError:  # what is encrypted by now must not follow, as nobody knows how much of it has gone
            self.abort()
            return
        except OSError as exc:
            self._abort_session(exc)
            return
        self._flush()

    def _flush(self) -> None:
        if self._session.out_size:
            self._raw.write(self._session.take())

    def _send_closure_alert(self) -> None:
        """Announce the end of our octets (RFC 8446 section 6.1)."""
        try:
            self._session.unwrap()
        except OSError:
            pass  # it waits for the client's alert, or finds other octets: our alert is written all the same
        self._flush()

    def can_write_eof(self) -> bool:
        """Return True: TLS can always be closed one way."""
        return self._raw.can_write_eof()

    def write_eof(self) -> None:
        """Send what is pending, then a closure alert and FIN."""
        if self._phase is OPEN:
            self._send_closure_alert()
            self._phase = Phase.SHUT
            self._raw.write_eof()

    def close(self) -> None:
        """Send what is pending and a closure alert, then close; without them if the lane has taken the session."""
        if self._phase is OPEN and not self._session.is_released:
            self._send_closure_alert()
        self._phase = Phase.CLOSED
        self._raw.close()

    def abort(self) -> None:
        """Close at once without a closure alert, so that a cut response does not look complete."""
        self._phase = Phase.CLOSED
        self._raw.abort()

    def is_closing(self) -> bool:
        """Return whether no more octets will be sent."""
        return self._phase is Phase.CLOSED or self._raw.is_closing()

    def pause_reading(self) -> None:
        """Read no more from the socket; octets received before are with the connection already."""
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._raw.resume_reading()

    def is_reading(self) -> bool:
        """Return whether it reads from the socket."""
        return self._raw.is_reading()

    def get_write_buffer_size(self) -> int:
        """Return how many octets of records the socket has not taken."""
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits for `pause_writing` and `resume_writing`."""
        self._raw.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: Any) -> None:
        """Give the transport to another wire."""
        self._wire = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the extra information of the socket's transport, and the session as ssl_object."""
        return self._session if name == "ssl_object" else self._raw.get_extra_info(name, default)

    def _log(self, what: str) -> None:
        logger.info("%s: %s", self.remote_addr or "unix socket", what)
