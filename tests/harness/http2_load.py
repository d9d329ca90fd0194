"""A client of HTTP/2 with always several requests under way on one connection, and a count of lost ones."""

import collections
import contextlib
import ssl
from typing import Any, Callable

import h2.events

from .client import Truncated
from .http2 import request
from .http2_client import HTTP2Client


class KeptStreams:
    """One client. After a GOAWAY it asks no more, waits for the promised answers, and connects anew."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, count: int) -> None:
        """`count`: requests at a time."""
        self._address, self._context, self._count = address, context, count
        self.connections = self.answered = self.lost = 0
        self.statuses: dict[int, int] = collections.Counter()
        self._asked = 0
        self._open: set[int] = set()
        self._is_ending = False  # a GOAWAY has come

    def run(self, is_over: Callable[[], bool]) -> None:
        """Ask until `is_over()`, which is called at each answer; then until all is answered."""
        self._is_over = is_over
        while not is_over():
            self.connections += 1
            self._is_ending = False
            with contextlib.closing(HTTP2Client(self._address, None, self._context, self._on_event)) as self._client:
                self._use()
            self.lost += len(self._open)
            self._open.clear()

    def _use(self) -> None:
        with contextlib.suppress(ConnectionError, Truncated):
            for _ in range(self._count):
                self._ask()
            while self._open:
                self._client.receive()

    def _ask(self) -> None:
        """Send a request; each third has a body."""
        self._asked += 1
        has_body = self._asked % 3 == 0
        self._open.add(self._client.ask(request(b"POST" if has_body else b"GET"), b"x" * 1000 if has_body else None))

    def _on_event(self, event: Any) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.statuses[int(dict(event.headers)[b":status"])] += 1
        elif isinstance(event, h2.events.DataReceived):
            if event.flow_controlled_length:
                self._client.frames.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._open.remove(event.stream_id)
            self.answered += 1
            if not self._is_ending and not self._is_over():
                self._ask()
        elif isinstance(event, h2.events.StreamReset):
            self._open.remove(event.stream_id)
            self.lost += 1
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._is_ending = True
            self._open = {stream_id for stream_id in self._open if stream_id <= event.last_stream_id}
