"""Moving connections to another server, of this process or another: those waiting for a request, and those with a request waiting for a thread.

Owns:     Detached; giving connections away (`detach_idle`, `detach_waiting`), taking one over (`adopt`).
Thread:   event loop only; a worker may begin a waiting request meanwhile, and keeps that request.
Not here: passing a descriptor to another process, the caller's work (unix(7), SCM_RIGHTS); a request on the way (moved_request.py); moving a
          connection between the two wires of one server (handover.py).

The client notices nothing: the kernel keeps the connection as long as one descriptor is open. No octet beyond the request has been read, and later
octets of the client stay in the kernel until a process reads them.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from ..._cparsers import ffi, lib
from ...core.exchange import Exchange
from ...core.named_tuple import NamedTuple
from ...workers.executor import Executor, Job
from ..accepting.acceptor import make_transport, protocol_factory
from ..connection import LOST, Connection
from ..lane.disconnects import exchange_of
from ..lane.lane import Lane
from ..lane.wire_fast import FastWire
from ..limit import ConnectionLimit
from ..listeners import Listener
from ..loop.wire_loop import LoopWire
from ..service import Service
from ..states import State
from ..wire_log import tell
from .moved_request import may_move, read_request, write_request
from .unstarted_requests import refusal

logger = logging.getLogger("aserve")

GIVEN = "is left to another process"  # for --log-level debug


class Detached(NamedTuple):
    """A connection given away by a server."""

    fd: int  # the holder must close the descriptor, or give it to `Server.adopt`
    listener_index: int  # in `Server.addresses`
    # Facts about the client, in JSON's types. None: no request has come yet; the adopting server finds out.
    peer: dict[str, Any] | None
    request: bytes | None = (
        None  # after a wait for a thread (moved_request.py); None: the connection waits for a request
    )


# Giving away


def detach_idle(
    lane: Lane | None, wires: Iterable[object], services: Sequence[Service], count: int | None
) -> list[Detached]:
    """Give away connections in a wait for a request, at most `count`; see Server.detach_idle."""
    index_of = {service: index for index, service in enumerate(services)}
    found = [
        Detached(fd, index_of[service], _describe(connection) if connection is not None else None)
        for fd, service, connection in (_leave_lane(lane, count) if lane is not None else ())
    ]
    for wire in wires:
        if count is not None and len(found) >= count:
            break
        if isinstance(wire, LoopWire):
            peer = None if wire.state == State.NEW else _describe(wire.connection)
            try:
                fd = wire.detach()
            except OSError as exc:
                logger.warning("idle connections stay with this process: %s; raise `ulimit -n`", exc.strerror)
                break
            if fd is not None:
                _tell(wire.connection, GIVEN)
                found.append(Detached(fd, index_of[wire.connection.service], peer))
    return found


def detach_waiting(
    executor: Executor, services: Sequence[Service], count: int | None, before: Callable[[bytes], None]
) -> list[Detached]:
    """Give away connections whose requests wait for a thread, at most `count`, the oldest first; see Server.detach_waiting."""
    found: list[Detached] = []
    for job in executor.jobs.copy():
        if count is not None and len(found) >= count:
            break
        exchange = _movable(job)
        if exchange is None:
            continue
        try:
            octets = write_request(exchange)
            before(octets)
        except ValueError:
            continue  # a worker has just begun the request, and the app has closed the input
        except OSError:
            break  # no descriptor or memory is left: the request keeps waiting, in the same place
        connection = exchange.connection
        fd = _take(executor, job, exchange)
        if fd is not None:
            found.append(Detached(fd, services.index(connection.service), _describe(connection), octets))
            _tell(connection, GIVEN)
            connection.wire = LOST  # not closed
    return found


def _movable(job: Job) -> Exchange | None:
    """Return the exchange of a movable request, None: another job, or a request that stays; a plain one that stays is not promoted."""
    if getattr(job[1], "modifier1", 0):  # a call in native/
        return None
    exchange = exchange_of(job)
    if exchange is None or exchange.connection.service.wrap is not None:  # a session of TLS stays in its process
        return None
    return exchange if may_move(exchange) else None


def _take(executor: Executor, job: Job, exchange: Exchange) -> int | None:
    """Take a waiting request and the connection; return a descriptor. None: a worker has begun the request, or the connection cannot go."""
    wire = exchange.connection.wire
    try:
        if isinstance(wire, LoopWire):
            return wire.detach(lambda: executor.withdraw(job))
    except OSError:
        return None  # no descriptor is left
    if not isinstance(wire, FastWire) or wire.fd < 0 or not executor.withdraw(job):
        return None
    fd = wire.detach(exchange)
    if fd is None:
        wire.drop(exchange)  # the client has left, or the server stops
    return fd


def _tell(connection: Connection, what: str) -> None:
    if connection.service.tells_wire:
        tell(connection, what)


def _leave_lane(lane: Lane, count: int | None) -> Iterator[tuple[int, Service, Connection | None]]:
    """Give away the lane's connections; None in place of a Connection: no request has come yet."""
    cap = lane.count if count is None else min(count, lane.count)
    released = ffi.new("lane_released[]", cap)
    for each in released[0 : lib.lane_release_idle(lane.set, released, cap)]:
        if each.is_used and lane.native is not None:
            lane.native.connection_of(each.fd, each.listener)  # so far maybe only plain requests
        connection = lane.connections.pop(each.fd, None)  # without a request, of an earlier connection with this number
        if connection is not None and each.is_used:
            _tell(connection, GIVEN)
            connection.wire = LOST  # not closed
        yield each.fd, lane.services[each.listener], connection if each.is_used else None


def _describe(connection: Connection) -> dict[str, Any]:
    """Return the facts about a client, in JSON's types; `environ`: entries that differ from other clients' (PROXY protocol)."""
    base = connection.service.base_environ
    return {
        "address": connection.remote_addr,
        "port": connection.remote_port,
        "is_believed": getattr(connection, "is_believed", False),
        "environ": {name: value for name, value in connection.base_environ.items() if value != base.get(name)},
    }


# Taking over


async def adopt(
    detached: Detached,
    pairs: Sequence[tuple[Listener, Service]],
    limit: ConnectionLimit,
    begin: Callable[[Exchange], None],
) -> bool:
    """Take over a connection, see Server.adopt, whatever the limit of connections; `begin` is called with the connection's request, if any."""
    fd, index, peer, request = detached
    if not 0 <= index < len(pairs):
        return False
    listener, service = pairs[index]
    if peer is not None and request is None and listener.bind.protocol != "http":
        return False
    exchange = read_request(request) if request is not None else None
    try:
        os.set_blocking(fd, False)  # PyPy's socket makes a given descriptor blocking
        if peer is None:
            protocol = protocol_factory(service, listener.bind)()
        else:
            connection = _recall(service, peer)
            _tell(connection, "comes from another process")
            if exchange is not None:
                connection.exchange, exchange.connection = exchange, connection
                protocol = LoopWire(connection, is_new=False)
            elif service.take_back is not None and service.take_back(connection, fd):
                os.close(fd)
                return True
            else:
                protocol = LoopWire.kept(connection)
        # A copy for the transport to close: until all is done, the caller's descriptor stays open.
        sock = socket.fromfd(fd, listener.socket.family, socket.SOCK_STREAM)
        limit.add_pending(protocol)
        try:
            await make_transport(service.loop, lambda: protocol, sock)
        finally:
            limit.discard_pending(protocol)
    except OSError as exc:
        logger.info("%s: a connection was not adopted: %s", service.name, exc.strerror)
        return False
    os.close(fd)
    if exchange is not None:
        begin(exchange)
    return True


def submit(exchange: Exchange, is_own: bool) -> None:
    """Let a thread answer a request from a moved connection; one of this server's own has waited longest."""
    connection = exchange.connection
    executor = connection.service.executor
    (executor.put_back if is_own else executor.submit)(connection.run, exchange)


def refuse(exchange: Exchange) -> None:
    """Answer 503 to a request from a moved connection."""
    exchange.connection.wire.refuse(exchange, refusal())


def _recall(service: Service, peer: dict[str, Any]) -> Connection:
    """Return a connection with a known client."""
    connection = Connection(service, peer["address"], peer["port"])
    connection.wire = LOST  # until there is a wire
    connection.is_believed = peer["is_believed"]
    if peer["environ"]:
        connection.base_environ = {**service.base_environ, **peer["environ"]}
    return connection
