"""The states of a stream as it sends its response, and every transition between them.

Owns:     State, Event, TRANSITIONS. Their causes are in stream.py.
Thread:   any; pure.
Spec:     RFC 9113 sections 5.1 and 8.1.
Not here: what the client still sends (request.py); whether one side waits for the other (stream.py).
"""

from __future__ import annotations

import enum


class State(enum.IntEnum):
    """What may still be sent; from ENDED on the app adds nothing."""

    HEAD = 0  # the final head has not come
    BODY = 1
    ENDED = 2  # the response is whole: its rest is sent, then the end of the stream
    CUT = 3  # the response is not whole, which only a reset can show
    CLOSED = 4  # the stream is closed for both sides


class Event(enum.IntEnum):
    """A cause of a transition."""

    FINAL_HEAD = 0
    CLOSE = 1  # the response ends, as long as its Content-Length says
    CUT = 2  # the response ends too early, or cannot be sent
    LOST = 3  # its end is sent, its client has reset it, or the connection is gone


_S, _E = State, Event
TRANSITIONS: dict[tuple[State, Event], State] = {
    (_S.HEAD, _E.FINAL_HEAD): _S.BODY,
    (_S.HEAD, _E.CLOSE): _S.CUT,
    (_S.HEAD, _E.CUT): _S.CUT,
    (_S.HEAD, _E.LOST): _S.CLOSED,
    (_S.BODY, _E.CLOSE): _S.ENDED,
    (_S.BODY, _E.CUT): _S.CUT,
    (_S.BODY, _E.LOST): _S.CLOSED,
    (_S.ENDED, _E.CUT): _S.CUT,
    (_S.ENDED, _E.LOST): _S.CLOSED,
    (_S.CUT, _E.CUT): _S.CUT,
    (_S.CUT, _E.LOST): _S.CLOSED,
}  # a pair not listed is a bug in aserve, and raises
