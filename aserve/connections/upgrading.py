"""A request for a WebSocket on the event loop's wire: the app is offered one.

Owns:     what makes the offer of a request, and ends it.
Thread:   event loop only.
Spec:     RFC 9110 section 7.8.
Not here: whether one is offered, and how HTTP goes on or leaves (inbox.py, wire_loop.py); how many there may be (websockets.py).
"""

from __future__ import annotations

from ..core.exchange import Client, Exchange
from .connection import Connection
from .offered import Leaving
from .websocket import WebSocket
from .websockets import NAMES


def open_websocket(http: Leaving, connection: Connection, exchange: Exchange) -> WebSocket:
    """
    Offer the app of an exchange a WebSocket, in its environ.

    Raises:
        RequestRefused: there is no descriptor left, or there are too many.
    """
    ours, its = connection.service.websockets.open_pair()
    exchange.websocket = websocket = WebSocket(connection, http, ours, its)
    # In place of a test in each request's way: the environ begins with what is the client's (build_environ).
    base = {**connection.base_environ, **dict.fromkeys(NAMES, its)}
    exchange.client = Client(connection.remote_addr, connection.remote_port, base)
    return websocket


def end_offer(connection: Connection) -> None:
    """Let an app that reads before it has decided find the end: its client is gone, or the server ends."""
    exchange = connection.exchange
    if exchange is not None and exchange.websocket is not None:
        exchange.websocket.end_input()
