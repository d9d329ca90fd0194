"""Requests whose clients have left while they waited for a worker.

Owns:     Departed: checks once a second the clients of requests that have waited for a second, and drops requests without a client.
Thread:   event loop; a worker may begin any of the requests meanwhile, and then it ends the exchange.
Spec:     poll(2); RFC 9112 section 9.6: the end of a client's octets may be the half of a close.
Not here: which jobs wait, and how long (workers/queue_wait.py), dropping an exchange (wire_fast.py, wire_loop.py).

This lets a site recover after a stall: clients have given up, or have asked again, and serving the clients that left would keep the others
waiting. A request that is served within a second pays nothing for it.

A client that has closed and one that has only shut down its sending side look alike over TCP until something is sent. Over a unix socket
they do not.
"""

from __future__ import annotations

import logging
import select
import time

from ...core.exchange import Exchange
from ...workers.executor import Executor, Job
from ..loop.sending import HALF_CLOSED
from ..loop.wire_loop import LoopWire
from ..states import State
from .wire_fast import FastWire, StreamWire

logger = logging.getLogger("aserve")


def exchange_of(job: Job) -> Exchange | None:
    """Return the exchange that a job is to run; None: it is another job."""
    function, argument = job
    promote = getattr(argument, "promote", None)
    if promote is not None:  # a plain request (native.py)
        return promote()  # type: ignore[no-any-return]
    return argument if type(argument) is Exchange and function == argument.connection.run else None


CLOSED = select.POLLHUP | select.POLLERR


class Departed:
    """Drops the waiting requests of one server whose clients have left."""

    def __init__(self, executor: Executor, keep_half_closed: bool) -> None:
        self._executor = executor
        self._keep_half_closed = keep_half_closed

    def on_second(self) -> None:
        """Drop requests whose clients have left; called once a second."""
        count = sum(self._drop(*found) for found in self._find(self._executor.queue_wait.overdue))
        if count:
            logger.info(
                "requests that were not begun, as their clients had left while they waited for a thread: %d", count
            )

    def _find(self, jobs: list[Job]) -> list[tuple[Job, Exchange]]:
        """Return the jobs whose clients have left, each with its exchange."""
        poll, found = select.poll(), []
        by_fd: dict[int, tuple[Job, Exchange]] = {}
        for job in jobs:
            exchange = exchange_of(job)
            # Other jobs are no requests of HTTP, or not only: a file to be closed, a request that may become a WebSocket.
            if exchange is None:
                continue
            wire = exchange.connection.wire
            if isinstance(wire, LoopWire) and wire.state == State.CLOSED:
                found.append((job, exchange))
            elif type(wire) is StreamWire:
                if wire.has_left:
                    found.append((job, exchange))
            elif isinstance(wire, (FastWire, LoopWire)) and wire.fd >= 0:
                by_fd[wire.fd] = job, exchange
                poll.register(wire.fd, HALF_CLOSED)
        return found + [by_fd[fd] for fd, events in poll.poll(0) if self._is_gone(by_fd[fd][1], events)]

    def _is_gone(self, exchange: Exchange, events: int) -> bool:
        if events & CLOSED:
            return True
        is_unix = not exchange.connection.remote_addr
        return bool(events & HALF_CLOSED) and not (self._keep_half_closed or is_unix)

    def _drop(self, job: Job, exchange: Exchange) -> bool:
        """Drop a request, unless a worker has begun it."""
        if not self._executor.withdraw(job):
            return False
        if exchange.arrived_at:
            exchange.began_at = time.monotonic()  # its wait ends here, without a thread: `thread_id` stays 0
        exchange.connection.wire.drop(exchange)
        return True
