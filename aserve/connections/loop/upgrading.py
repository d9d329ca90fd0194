"""Offering the app a WebSocket, for a request on the event loop's wire.

Owns:     making the offer, and ending it.
Thread:   event loop only.
Spec:     RFC 9110 section 7.8.
Not here: the choice to offer one, and going on with or leaving HTTP (inbox.py, wire_loop.py); the limit (websockets.py).
"""

from __future__ import annotations

from ...core.exchange import Client, Exchange
from ..connection import Connection
from .websocket import WebSocket
from .websocket_request import Leaving
from .websockets import NAMES


def open_websocket(http: Leaving, connection: Connection, exchange: Exchange) -> WebSocket:
    """
    Offer the app of an exchange a WebSocket, in its environ.

    Raises:
        RequestRefused: no descriptor is left, or there are too many WebSockets.
    """
    ours, its = connection.service.websockets.open_pair()
    exchange.websocket = websocket = WebSocket(connection, http, ours, its)
    # Without a test on each request's path: the environ begins with the client's base (build_environ).
    base = {**connection.base_environ, **dict.fromkeys(NAMES, its)}
    exchange.client = Client(connection.remote_addr, connection.remote_port, base)
    return websocket


def end_offer(connection: Connection) -> None:
    """Give an undecided, reading app the end of input: the client is gone, or the server ends."""
    exchange = connection.exchange
    if exchange is not None and exchange.websocket is not None:
        exchange.websocket.end_input()
