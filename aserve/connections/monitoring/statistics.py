"""The numbers of a server at one moment.

Owns:     Statistics, finding the numbers, and writing some to the page; the running requests.
Thread:   event loop only: there the numbers are consistent, except those of workers, still at work.
Not here: conclusions about the process (server/server.py: `failure`), or for a health check (connections/service.py).

On the path of a request only the request itself is counted: all other numbers come from the present state. To find them costs a step for each open
connection, as the check of time-outs does once a second.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.body import BufferedBody, LiveBody
from ...core.exchange import Exchange
from ...core.named_tuple import NamedTuple
from ...core.page import Field
from ...workers.executor import Executor
from ...workers.inline import InlineExecutor
from ..carrier import Carrier
from ..lane.lane import Lane
from ..limit import OnLoop
from ..loop.websocket import WebSocket
from ..loop.wire_loop import LoopWire
from ..server_budgets import Budgets
from ..service import Service
from ..states import State


class Statistics(NamedTuple):
    """Numbers of one moment, from `Server.statistics()`; counts, unless named octets."""

    is_draining: bool  # `drain` has begun

    connections_open: int  # in all: the sum of the next six
    connections_in_handshake: int  # TLS, the header of the PROXY protocol, or a preface, up to the end
    connections_idle: int  # wait for a request, the first or another
    connections_receiving: int  # a request has begun, and is not complete
    connections_running: int  # the request waits for a worker or is with the app, or the response is sent
    connections_ending: int  # their last response was given to the kernel; further octets are dropped
    connections_websocket: int  # WebSockets, until the end by the app and the client
    connections_limit: int  # the most open ones: --max-connections, or as many as descriptors allow
    connections_in_lane: int  # of the open ones: read and answered by workers themselves (--lane)

    requests: int  # for the app, whole, since the start
    requests_waiting: int  # not begun by a worker; requests still in the kernel are not known
    requests_waiting_seconds: float  # for how long the first of these has waited, or less by a second at most
    requests_stalled_seconds: int  # for how long requests have waited and no worker has begun any, also if their clients left; 0: the queue moves
    told_unready: str  # the argument of `Server.set_unready`; "": not called

    bodies_incomplete: int  # request bodies with a part still to come
    bodies_incomplete_bytes: int  # received octets of these bodies
    bodies_memory_bytes: int  # of request bodies, incomplete or with the app, in memory
    bodies_spooled: int  # request bodies in temporary files (--body-memory)
    bodies_lack_room: bool  # no room on the disk for a body above --body-memory
    responses_unsent_bytes: int  # held by the transports, without room in the kernel
    responses_spooled: int  # responses in temporary files (--response-spool)
    responses_spooled_bytes: int  # of these, still to be read from there
    responses_memory_bytes: int  # of large responses, waiting for their readers (--response-memory)

    workers: int  # threads in a slot of --threads
    workers_idle: int  # of these: waiting for requests
    workers_busy_lately: float  # of these: running a request, as a mean of the last ten seconds
    workers_compensated: int  # in a slot of --extra-threads: their responses outrun their readers
    workers_lacking: int  # of --threads: wanted lately, and not started by the system
    workers_stuck: int  # written off by --request-timeout, and still inside the app
    workers_written_off: int  # since the start, ended or not

    @property
    def workers_busy(self) -> int:
        """Threads in a slot with a request. (The two counts are taken at two moments, not at the same.)"""
        return max(self.workers - self.workers_idle, 0)

    def write_to(self, page: Any) -> None:
        """Write the page's part of these numbers; `page`: words by Field, written only by this process."""
        page[Field.REQUESTS], page[Field.CONNECTIONS] = self.requests, self.connections_open
        page[Field.CONNECTIONS_LIMIT] = self.connections_limit
        page[Field.IN_FLIGHT], page[Field.WAITING] = self.connections_running, self.requests_waiting
        page[Field.THREADS_BUSY] = self.workers_busy
        page[Field.THREADS_BUSY_LATELY] = int(self.workers_busy_lately * 1000)
        page[Field.STALLED_SECONDS] = self.requests_stalled_seconds
        page[Field.WAITING_MILLISECONDS] = int(self.requests_waiting_seconds * 1000)
        page[Field.WEBSOCKETS], page[Field.THREADS_STUCK] = self.connections_websocket, self.workers_stuck
        page[Field.THREADS_LACKING] = self.workers_lacking
        page[Field.BODIES_LACK_ROOM] = self.bodies_lack_room
        page[Field.TICKED_AT] = time.monotonic_ns()
        page[Field.TICK] += 1


def take_statistics(
    wires: Iterable[OnLoop],
    lane: Lane | None,
    services: Sequence[Service],
    executor: Executor | InlineExecutor,
    budgets: Budgets,
    busy_lately: float,
    connections_limit: int,
) -> Statistics:
    """Return the numbers of a server with these parts."""
    in_handshake = idle = receiving = running = ending = websocket = in_lane = 0
    responses_spooled = spooled_bytes = unsent_bytes = 0
    bodies: set[BufferedBody | LiveBody] = set()
    incomplete_bodies: set[BufferedBody | LiveBody] = set()
    for wire in wires:
        if isinstance(wire, WebSocket):
            websocket += 1
            unsent_bytes += wire.unsent_bytes
            continue
        if isinstance(wire, Carrier):
            idle += not wire.has_streams  # otherwise the streams are counted
            continue
        if not isinstance(wire, LoopWire):
            in_handshake += 1
            continue
        state = wire.state
        if state <= State.IDLE:
            idle += 1
        elif state == State.RECEIVING:
            receiving += 1
        elif state <= State.LOOP_ENDS:
            running += 1
        else:
            ending += 1
        unsent_bytes += wire.unsent_bytes
        if wire.incomplete_body is not None:
            incomplete_bodies.add(wire.incomplete_body)
        exchange = wire.exchange
        if exchange is not None:
            if exchange.body is not None:
                bodies.add(exchange.body)
            if exchange.spool is not None:
                responses_spooled += exchange.spool.has_file
                spooled_bytes += exchange.spool.waiting_bytes
    requests = sum(service.request_count for service in services)
    if lane is not None:
        requests += lane.request_count
        in_lane, busy, lane_bodies = lane.count, lane.exchanges, lane.incomplete_bodies
        incomplete_bodies.update(lane_bodies)
        bodies.update(exchange.body for exchange in busy if exchange.body is not None)
        receiving += len(lane_bodies)
        running += len(busy) - len(lane_bodies)
        idle += max(in_lane - len(busy), 0)  # a connection may be leaving just now
    workers = executor.workers
    return Statistics(
        is_draining=any(service.is_draining or service.is_replaced for service in services),
        connections_open=in_handshake + idle + receiving + running + ending + websocket,
        connections_in_handshake=in_handshake,
        connections_idle=idle,
        connections_receiving=receiving,
        connections_running=running,
        connections_ending=ending,
        connections_websocket=websocket,
        connections_limit=connections_limit,
        connections_in_lane=in_lane,
        requests=requests,
        requests_waiting=executor.waiting_count,
        requests_waiting_seconds=executor.queue_wait.seconds(),
        requests_stalled_seconds=executor.queue_wait.stalled_seconds,
        told_unready=services[0].why_unready if services else "",
        bodies_incomplete=len(incomplete_bodies),
        bodies_incomplete_bytes=sum(body.length for body in incomplete_bodies),
        bodies_memory_bytes=sum(body.memory_bytes for body in bodies | incomplete_bodies),
        bodies_spooled=sum(body.is_spooled for body in bodies | incomplete_bodies),
        bodies_lack_room=budgets.lacks_room,
        responses_unsent_bytes=unsent_bytes,
        responses_spooled=responses_spooled,
        responses_spooled_bytes=spooled_bytes,
        responses_memory_bytes=budgets.response_memory_bytes,
        workers=workers.at_work,
        workers_idle=workers.idle,
        workers_busy_lately=busy_lately,
        workers_compensated=workers.compensated,
        workers_lacking=workers.lacking,
        workers_stuck=workers.stuck,
        workers_written_off=workers.written_off,
    )


def take_ongoing(wires: Iterable[OnLoop], lane: Lane | None, count: int) -> list[tuple[float, str]]:
    """
    Return the `count` oldest running requests (waiting for a worker, with the app, or being sent); the oldest first.

    Each: age in seconds (of a stream: since the last octets), and "METHOD target", escaped for a log. Requests without times are left out
    (Service.times_requests).
    """
    exchanges, now = _exchanges_of(wires, lane), time.monotonic()
    since = [(each.grew_at or each.arrived_at, each) for each in exchanges if each.arrived_at]
    oldest = heapq.nsmallest(count, since, key=lambda found: found[0])
    return [(now - at, exchange.summary) for at, exchange in oldest]


def take_thread_seconds(wires: Iterable[OnLoop], lane: Lane | None, now: float) -> float:
    """Return the seconds of threads so far in running requests, by the clock of `now`; 0: times are not taken."""
    exchanges = _exchanges_of(wires, lane)
    return sum((each.left_at or now) - began_at for each in exchanges if (began_at := each.began_at))


def _exchanges_of(wires: Iterable[OnLoop], lane: Lane | None) -> list[Exchange]:
    found = [wire.exchange for wire in wires if isinstance(wire, LoopWire) and wire.exchange is not None]
    return found + lane.exchanges if lane is not None else found
