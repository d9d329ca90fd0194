"""Responses in pieces without a worker: the event loop steps the iterable while there is room.

Owns:     Steps; with --threads 0 of the app's own iterable.
Thread:   event loop only.
Spec:     PEP 3333 "Buffering and Streaming".
Not here: pieces from workers (sending.py).

There is no spool: an iterable at rest blocks no thread, and the disk would block the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, cast

from ...core.errors import ClientDisconnected, ResponseTruncated
from ...core.exchange import Exchange
from ...workers.inline import InlineExecutor, no_running_loop
from .outbox import Outbox

# With --threads 0, pieces of one response in one iteration of the loop. Guess.
ITERATION_PIECES = 64


class Steps:
    """The steps of one response."""

    __slots__ = ("_exchange", "_outbox", "_pieces")

    def __init__(self, outbox: Outbox, exchange: Exchange, pieces: Iterator[bytes | memoryview]) -> None:
        self._outbox, self._exchange, self._pieces = outbox, exchange, pieces

    def go_on(self) -> None:
        """Write as many pieces as there is room for; then wait."""
        with no_running_loop():
            self._step()

    def _step(self) -> None:
        outbox = self._outbox
        try:
            for count, octets in enumerate(self._pieces):
                if outbox.is_lost:
                    raise ClientDisconnected("the client closed the connection")
                outbox.write_piece(octets)
                if outbox.is_write_paused:
                    outbox.when_writable(self._further())
                    return
                if count >= ITERATION_PIECES:
                    outbox.service.loop.call_soon(self._further())
                    return
        except (ClientDisconnected, ResponseTruncated) as exc:
            cast(Any, self._pieces).close()
            outbox.cut(self._exchange, str(exc))
        else:
            outbox.end(self._exchange)

    def _further(self) -> Callable[[], object]:
        executor = self._outbox.executor
        return cast(InlineExecutor, executor).in_its_context(self.go_on) if executor.is_inline else self.go_on
