"""The states of a connection, and every transition between them.

Owns:     State, Event, TRANSITIONS. The transitions are in this file; the causes are in wire_loop.py, inbox.py and outbox.py.
Spec:     RFC 9112 section 9.
"""

from __future__ import annotations

import enum


class State(enum.IntEnum):
    """The state of a connection; from RUNNING on no new request is expected."""

    NEW = 0  # waiting for the first request
    IDLE = 1  # waiting for another
    RECEIVING = 2  # a request has begun
    RUNNING = 3  # an exchange is with the app; the worker may end the exchange without the loop
    LOOP_ENDS = 4  # the same, with the end left to the loop: more came in, or the connection has to close
    LINGERING = 5  # the last response is out; further octets of the client are read and dropped
    CLOSING = 6  # the transport sends the rest, then closes
    CLOSED = 7
    DETACHED = 8  # gone elsewhere: to the fast path, or to another server, and the transport closes; or a WebSocket


class Event(enum.IntEnum):
    """A cause of a transition."""

    BEGIN = 0  # octets of an incomplete request
    REQUEST = 1  # an exchange goes to the app
    TAKE_COMPLETION = 2  # see State.LOOP_ENDS
    DONE = 3  # the response is out, the connection stays open
    LINGER = 4  # the response is out, the connection closes, but the client may still send
    CLOSE = 5
    LOST = 6
    ADOPT = 7  # a connection comes from the fast path, with an exchange in the app
    DETACH = 8  # the descriptor goes elsewhere, or the transport
    KEPT = 9  # a connection comes from another server, with requests behind it


_S, _E = State, Event
TRANSITIONS: dict[tuple[State, Event], State] = {
    (_S.NEW, _E.BEGIN): _S.RECEIVING,
    (_S.NEW, _E.REQUEST): _S.RUNNING,
    (_S.NEW, _E.ADOPT): _S.LOOP_ENDS,
    (_S.NEW, _E.KEPT): _S.IDLE,
    (_S.NEW, _E.DETACH): _S.DETACHED,
    (_S.NEW, _E.LINGER): _S.LINGERING,
    (_S.NEW, _E.CLOSE): _S.CLOSING,
    (_S.NEW, _E.LOST): _S.CLOSED,
    (_S.IDLE, _E.BEGIN): _S.RECEIVING,
    (_S.IDLE, _E.REQUEST): _S.RUNNING,
    (_S.IDLE, _E.LINGER): _S.LINGERING,
    (_S.IDLE, _E.CLOSE): _S.CLOSING,
    (_S.IDLE, _E.LOST): _S.CLOSED,
    (_S.IDLE, _E.DETACH): _S.DETACHED,
    (_S.RECEIVING, _E.BEGIN): _S.RECEIVING,
    (_S.RECEIVING, _E.REQUEST): _S.RUNNING,
    (_S.RECEIVING, _E.LINGER): _S.LINGERING,
    (_S.RECEIVING, _E.CLOSE): _S.CLOSING,
    (_S.RECEIVING, _E.LOST): _S.CLOSED,
    (_S.RUNNING, _E.TAKE_COMPLETION): _S.LOOP_ENDS,
    (_S.RUNNING, _E.DONE): _S.IDLE,
    (_S.RUNNING, _E.LINGER): _S.LINGERING,
    (_S.RUNNING, _E.CLOSE): _S.CLOSING,
    (_S.RUNNING, _E.LOST): _S.CLOSED,
    (_S.LOOP_ENDS, _E.TAKE_COMPLETION): _S.LOOP_ENDS,
    (_S.LOOP_ENDS, _E.DONE): _S.IDLE,
    (_S.LOOP_ENDS, _E.LINGER): _S.LINGERING,
    (_S.LOOP_ENDS, _E.CLOSE): _S.CLOSING,
    (_S.LOOP_ENDS, _E.LOST): _S.CLOSED,
    (_S.LOOP_ENDS, _E.DETACH): _S.DETACHED,
    (_S.LINGERING, _E.CLOSE): _S.CLOSING,
    (_S.LINGERING, _E.LOST): _S.CLOSED,
    (_S.CLOSING, _E.CLOSE): _S.CLOSING,
    (_S.CLOSING, _E.LOST): _S.CLOSED,
    (_S.DETACHED, _E.LOST): _S.CLOSED,
}  # a pair not listed is a bug in aserve, and raises
