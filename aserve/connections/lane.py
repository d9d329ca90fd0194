"""The lane: most requests, read and answered by the worker that runs them.

Owns:     the connections of plain HTTP, uwsgi and SCGI listeners while they need no more than a head in one read, a body
          of known length, and one write: waiting for them, reading and parsing a batch in one C call; closing what idles.
Thread:   two, under banners. One thread at a time, the executor's leader, waits and takes; the event loop starts,
          sweeps and drains.
Not here: the response (wire_fast.py). Anything else is handed over (handover.py) with all that was read or is to be
          written, so the lane changes nothing but the price (benchmarks/README.md).
"""

from __future__ import annotations

import collections
import functools
import logging
import os
import struct
from typing import Any, Callable

from .._cparsers import ffi, lib
from ..body import BufferedBody, RequestBody
from ..errors import RequestRefused
from ..exchange import Exchange
from ..protocols import PROTOCOLS, http1, uwsgi
from ..protocols.base import new_body
from ..protocols.one_request import OneRequest, is_head_request
from ..proxies.trust import needs_identity
from ..workers.executor import Executor
from ..workers.inline import InlineExecutor
from .connection import Connection, let_go
from .data_rate import BODY_TOO_LATE, DataRate, why_overdue
from .handover import Handovers
from .lane_memory import ARRIVAL_BYTES, CODES, CONN_BYTES, Memory
from .listeners import Listener
from .service import Service
from .wire_fast import FastWire, refuse
from .wire_loop import ARRIVING_SECONDS

logger = logging.getLogger("aserve")

_poll = lib.lane_poll
_STATE_AT: int = ffi.offsetof("lane_conn", "state")
_unpack_arrivals = struct.Struct("@QiiIIIIIIIIIIII").iter_unpack
PLAIN = http1.PLAIN
WHOLE: int = lib.LANE_WHOLE
BEGUN: int = lib.LANE_BEGUN


def is_available(listener: Listener, service: Service) -> bool:
    """Whether this listener's connections can take the lane."""
    config, peers = service.config, service.peers
    return bool(
        lib.lane_available()
        and config.lane == "auto"
        and listener.bind.protocol in CODES
        and (listener.bind.protocol != "http" or config.http_parser == "c")
        and config.body == "buffer"  # a live body is not complete
        and (peers is None or not needs_identity(listener.bind, peers))
    )


class _Upload:
    """A request whose body comes in parts."""

    __slots__ = ("exchange", "moved_at", "rate")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.moved_at = 0  # the lane's second in which the last part came
        self.rate: DataRate | None = None  # once it takes more than a moment


class Lane:
    """The lane of one server."""

    def __init__(self, executor: Executor | InlineExecutor, pairs: list[tuple[Listener, Service]]) -> None:
        config = pairs[0][1].config
        self.executor = executor
        self.services = [service for _, service in pairs]
        self._loop = self.services[0].loop
        self._listeners = [listener for listener, _ in pairs]
        self._makers = [_MAKERS[listener.bind.protocol](service) for listener, service in pairs]
        # By descriptor; one may outlive its connection, until the next has its number.
        self.connections: dict[int, Connection] = {}
        self._memory = Memory(config, self._listeners)
        self._input, self._vars, self._arrivals = self._memory.views
        self.set = self._memory.set
        self._handovers = Handovers(self._memory, self.connections, self._loop, executor)
        self._uploads: dict[int, _Upload] = {}  # by descriptor: those whose request's body is still to come
        # Of those, with the reason. The leader refuses them: only it knows that nothing has come since.
        self._overdue: collections.deque[tuple[int, _Upload, str]] = collections.deque()
        self._is_draining = False
        self._is_closed = False
        for index, (listener, service) in enumerate(pairs):
            if listener.bind.protocol == "http":  # others carry one request
                service.take_back = functools.partial(self._adopt, index)

    # --- called on the event loop ---

    def start(self) -> None:
        """
        Accept from now on.

        Raises:
            OSError: no descriptor is left.
        """
        for listener, service in zip(self._listeners, self.services):
            listener.socket.listen(service.config.backlog)
        error = lib.lane_open(self.set)
        if error:
            self.close()
            raise OSError(error, os.strerror(error))
        if isinstance(self.executor, InlineExecutor):
            self._loop.add_reader(self.set.epoll_fd, self._on_ready)
        else:
            self.executor.attach(self)

    def _on_ready(self) -> None:
        """With --threads 0: something has come."""
        self.take(self.wait(0))

    def on_second(self) -> None:
        """Called once a second: close what has been idle for too long."""
        self.set.now += 1
        config = self.services[0].config
        lib.lane_sweep(self.set, int(config.keep_alive_seconds), int(config.head_seconds))
        if self.set.is_paused:
            lib.lane_wake(self.set)  # a second is over: see lane.h
        for fd, upload in list(self._uploads.items()):
            body = upload.exchange.body
            if body is None:
                continue  # the leader has it just now
            upload.rate = upload.rate or DataRate()
            why = why_overdue(body, upload.rate, self.set.now - upload.moved_at, config)
            if why:
                self._overdue.append((fd, upload, why))
        if self._overdue:
            lib.lane_wake(self.set)

    def stop_accepting(self) -> None:
        """Accept no more; after this the listening sockets may be closed."""
        for index in range(len(self._listeners)):
            lib.lane_unlisten(self.set, index)

    def drain(self) -> None:
        """Close what idles, and every other connection after its response; called until `count` is 0."""
        if not self._is_draining:
            self._is_draining = True
            for connection in list(self.connections.values()):
                exchange = connection.exchange  # one that a leader takes later, it tells itself
                if exchange is not None:
                    exchange.keep_alive = False
        lib.lane_sweep(self.set, -1, int(ARRIVING_SECONDS))

    def _adopt(self, index: int, connection: Connection, fd: int) -> bool:
        """Take back a connection that idles; False: it stays where it is. The descriptor stays the caller's."""
        try:
            own_fd = os.dup(fd)
        except OSError:
            return False  # no descriptor is left
        before = connection.wire
        connection.wire = FastWire(self._handovers, own_fd)
        self.connections[own_fd] = connection  # now: the next request may come before the call returns
        if lib.lane_adopt(self.set, own_fd, index):
            return True
        del self.connections[own_fd]
        connection.wire = before
        os.close(own_fd)
        return False

    @property
    def count(self) -> int:
        """Connections that are in the lane, or on their way out of it."""
        return int(self.set.nconns)

    @property
    def exchanges(self) -> list[Exchange]:
        """Those that are received, or whose responses are not out."""
        exchanges = (connection.exchange for connection in list(self.connections.values()))
        return [exchange for exchange in exchanges if exchange is not None]

    @property
    def incomplete_bodies(self) -> list[RequestBody]:
        """The request bodies that are being received."""
        bodies = (upload.exchange.body for upload in list(self._uploads.values()))
        return [body for body in bodies if body is not None]

    def close(self) -> None:
        """Close every connection, also those that an app still works for."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.executor.is_inline and self.set.epoll_fd >= 0:
            self._loop.remove_reader(self.set.epoll_fd)
        self._handovers.close()
        lib.lane_close(self.set)

    def limit(self, max_count: int) -> None:
        """See acceptor.InLane."""
        self.set.max_conns = max_count

    def allow_for(self, others_count: int) -> None:
        """See acceptor.InLane."""
        self.set.nothers = others_count
        if self.set.is_paused:
            lib.lane_wake(self.set)

    def make_room(self) -> int:
        """See acceptor.InLane."""
        return int(lib.lane_make_room(self.set))

    @property
    def pause_counts(self) -> tuple[int, int]:
        """See acceptor.InLane."""
        return self.set.nfull, self.set.nshort

    # --- called in a child that the app has forked ---

    @property
    def fds(self) -> list[int]:
        """Every descriptor of the lane's, the listeners' left out."""
        set = self.set
        states = ffi.buffer(set.conns, set.top * CONN_BYTES)[:][_STATE_AT::CONN_BYTES]
        own = [fd for fd in (set.epoll_fd, set.wake_fd, set.stall_fd) if fd >= 0]
        return own + [fd for fd, state in enumerate(states) if state]

    # --- called by the executor's leader (with --threads 0: on the event loop) ---

    @property
    def stall_fd(self) -> int:
        """See HandleSet."""
        return int(self.set.stall_fd)

    @property
    def is_waiting(self) -> bool:
        """See HandleSet."""
        return bool(self.set.is_waiting)

    def wake(self) -> None:
        """See HandleSet."""
        lib.lane_wake(self.set)

    def wait(self, milliseconds: int) -> int:
        """See HandleSet."""
        if self._overdue:
            self._refuse_overdue()
        return int(_poll(self.set, milliseconds))

    def _refuse_overdue(self) -> None:
        """Answer bodies that do not come; all that the last poll has brought is taken by now."""
        while self._overdue:
            fd, upload, why = self._overdue.popleft()
            if why is BODY_TOO_LATE and self.set.now - upload.moved_at <= self.services[0].config.body_seconds:
                continue  # a part has come just now
            if self._uploads.get(fd) is upload and lib.lane_own(self.set, fd):
                del self._uploads[fd]
                refuse(upload.exchange, RequestRefused(408, why))

    def take(self, count: int) -> None:
        """Submit what the last `wait` has brought."""
        text = self._vars[: self.set.vars_len].decode("latin-1")
        connections, submit = self.connections, self.executor.submit_here
        for (
            length, fd, consumed, start, size, vars_start, vars_size, nvars, flags, modifier1, index, kind, is_first,
            peer_start, peer_size,
        ) in _unpack_arrivals(self._arrivals[: count * ARRIVAL_BYTES]):  # fmt: skip
            try:
                if kind != WHOLE and kind != BEGUN:
                    self._take_rest(kind, fd, index, self._input[start : start + size])
                    continue
                vars = text[vars_start : vars_start + vars_size]
                if flags == PLAIN:
                    exchange: Exchange | None = Exchange(vars, nvars)
                else:
                    exchange = self._makers[index](vars, nvars, flags, modifier1, self._input, start, consumed)
                if exchange is None:
                    if lib.lane_release(self.set, fd):
                        self._leave(fd, index, self._input[start : start + size])
                    continue
                if is_first:
                    addr, _, port = text[peer_start : peer_start + peer_size].partition("\0")
                    connection = connections[fd] = Connection(self.services[index], addr, port)
                    connection.wire = FastWire(self._handovers, fd)
                else:
                    connection = connections[fd]
                exchange.connection = connection
                connection.exchange = exchange
                if self._is_draining:  # look at this last: then either we see the drain, or `drain` sees our exchange
                    exchange.keep_alive = False
                if kind == BEGUN:
                    self._begin_body(fd, exchange, length, self._input[start + consumed : start + size])
                    continue
                if length:
                    exchange.body = BufferedBody.of(self._input[start + consumed : start + consumed + length])
                submit(connection.run, exchange)
            except Exception:  # a bug in aserve: this request is lost, those beside it are not
                logger.exception("internal error; please report this as a bug in aserve")
                self._lose(fd, kind)

    def _leave(self, fd: int, index: int, octets: bytes) -> None:
        """Hand a connection over with octets of a request that is not for the lane."""
        self.connections.pop(fd, None)
        self._handovers.begin_new(fd, Connection(self.services[index]), octets)

    def _take_rest(self, kind: int, fd: int, index: int, octets: bytes) -> None:
        """Take what is neither a request nor the beginning of one."""
        if kind == lib.LANE_LEFT:
            self._leave(fd, index, octets)
            return
        upload = self._uploads.get(fd)
        if upload is None:
            return  # it has left since: an earlier part could not be kept
        exchange = upload.exchange
        if kind == lib.LANE_GONE:
            del self._uploads[fd]
            exchange.connection.exchange = None
            let_go(exchange)
        elif self._feed(fd, upload, octets) and kind == lib.LANE_DONE:
            del self._uploads[fd]
            self.executor.submit_here(exchange.connection.run, exchange)

    def _begin_body(self, fd: int, exchange: Exchange, length: int, octets: bytes) -> None:
        upload = self._uploads[fd] = _Upload(exchange)
        try:
            exchange.body = new_body(self.services[0].limits, is_chunked=False, length=length)
        except RequestRefused as why:
            self._fail(fd, exchange, why)
            return
        self._feed(fd, upload, octets)

    def _feed(self, fd: int, upload: _Upload, octets: bytes) -> bool:
        upload.moved_at = self.set.now
        try:
            upload.exchange.body.feed(octets)  # type: ignore[union-attr]
        except RequestRefused as why:  # the body cannot be kept
            self._fail(fd, upload.exchange, why)
            return False
        return True

    def _fail(self, fd: int, exchange: Exchange, why: RequestRefused) -> None:
        self._uploads.pop(fd, None)
        lib.lane_own(self.set, fd)
        if exchange.body is not None:
            exchange.body.close()  # at once: the next may fit then
        refuse(exchange, why)

    def _lose(self, fd: int, kind: int) -> None:
        """Close a connection whose arrival could not be taken."""
        self._uploads.pop(fd, None)
        is_owned = kind in (WHOLE, lib.LANE_DONE) or (kind in (BEGUN, lib.LANE_PART) and lib.lane_own(self.set, fd))
        if kind == lib.LANE_LEFT or (is_owned and lib.lane_release(self.set, fd)):
            os.close(fd)
            lib.lane_left(self.set)


# From an arrival that is no plain HTTP request to its exchange; None: it is for the event loop


def _new_http_maker(service: Service) -> Callable[..., Exchange | None]:
    strip_forwarded = service.limits.strip_forwarded

    def make(vars: str, nvars: int, flags: int, *_: Any) -> Exchange:
        exchange = Exchange(vars, nvars)
        http1.set_flags(exchange, flags)
        if flags & http1.FORWARDED:
            strip_forwarded(exchange)
        return exchange

    return make


def _new_single_maker(service: Service) -> Callable[..., Exchange | None]:
    template = PROTOCOLS["scgi", "c"](service.limits)()
    assert isinstance(template, OneRequest)

    def make(vars: str, nvars: int, *_: Any) -> Exchange:
        exchange = template.new_exchange(vars, nvars)
        exchange.is_head = is_head_request(vars)
        return exchange

    return make


def _new_uwsgi_maker(service: Service) -> Callable[..., Exchange | None]:
    # Of its own: the connections' shares its scratch memory with the event loop's thread.
    template = PROTOCOLS["uwsgi", "c"](service.limits)()
    assert isinstance(template, uwsgi.Uwsgi)

    def make(vars: str, nvars: int, _: int, modifier1: int, input: Any, start: int, consumed: int) -> Exchange | None:
        exchange = template.new_exchange(vars, nvars)
        if modifier1 in (uwsgi.WSGI, uwsgi.WSGI_MOUNT) and nvars:
            exchange.is_mounted = modifier1 == uwsgi.WSGI_MOUNT
            exchange.is_head = is_head_request(vars)
            return exchange
        if modifier1 == uwsgi.RPC:
            [exchange] = template.receive_call(exchange, input[start : start + consumed])
            return exchange if exchange.rpc is not None else None
        return None

    return make


_MAKERS = {"http": _new_http_maker, "uwsgi": _new_uwsgi_maker, "scgi": _new_single_maker}
