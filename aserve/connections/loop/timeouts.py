"""The time-outs of the event loop's wire: once a second, connections quiet for too long are ended.

Owns:     the running clock of each state, and the end of a late client's connection.
Thread:   event loop only.
Spec:     RFC 9110 section 15.5.9 (408); RFC 9112 sections 9.5 and 9.6.
Not here: the clocks, and their limits (progress.py); recording progress (wire_loop.py, inbox.py).
"""

from __future__ import annotations

from typing import Protocol

from ...core.errors import RequestRefused
from ...core.exchange import TIMED_OUT, Exchange
from ..connection import Connection
from ..progress import RETURN_SECONDS, Progress
from ..states import State
from ..streams import note_stream
from .inbox import Inbox
from .outbox import Outbox

# Measured: a member looked up in an enum class costs CPython 3.11 three times a global.
NEW, IDLE, RECEIVING = State.NEW, State.IDLE, State.RECEIVING


class Timed(Protocol):
    """The wire, in the time-outs' view."""

    connection: Connection

    @property
    def state(self) -> State:
        """The state of the connection."""

    def close(self) -> None:
        """Send pending octets, then close."""

    def answer_error(self, exchange: Exchange | None, why: RequestRefused) -> None:
        """Answer with an error, and close."""

    def reset(self, why: str) -> None:
        """Close with a reset."""

    def return_to_lane(self) -> None:
        """Give an idle connection back to the fast path, if accepted there."""


def end_late(wire: Timed, progress: Progress, inbox: Inbox, outbox: Outbox) -> None:
    """Let a second pass: end the connection, or the request, if quiet for too long."""
    state, service, protocol = wire.state, outbox.service, inbox.protocol
    progress.tick()
    exchange = wire.connection.exchange  # once: a worker may end the exchange at any time
    if exchange is not None:
        note_stream(exchange, service.in_flight)
    if state <= IDLE:
        if progress.has_idled(state == NEW, service.is_draining):
            wire.close()
        elif state == IDLE and progress.plain_seconds > RETURN_SECONDS:
            wire.return_to_lane()
    elif state == RECEIVING:
        why = progress.why_late_body(protocol.body) if protocol.is_mid_body else progress.why_late_head()
        if why:
            late = RequestRefused(408, why)
            wire.answer_error(inbox.refused(late), late)
    elif state == State.LINGERING:
        if progress.has_lingered(service.is_draining):
            wire.close()
    elif outbox.is_behind or state == State.CLOSING:
        _watch_reader(wire, progress, outbox)
    elif protocol.live_body is not None and outbox.transport.is_reading() and not protocol.is_continue_due:
        why = progress.why_late_body(protocol.live_body)
        if why:
            protocol.live_body.refuse(RequestRefused(408, why))
    else:
        progress.rest()


def _watch_reader(wire: Timed, progress: Progress, outbox: Outbox) -> None:
    """Abort the connection of a client that does not read the response, or reads too slowly."""
    why = progress.why_slow_reader(wire.connection.exchange or wire, outbox.count_read())
    if not why:
        return
    exchange = wire.connection.exchange
    if exchange is not None:
        outbox.note_end(exchange, TIMED_OUT)
    wire.reset(why)
