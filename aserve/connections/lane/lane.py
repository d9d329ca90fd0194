"""The lane: most requests, read and answered by the worker that runs them.

Owns:     the connections of HTTP, uwsgi and SCGI listeners while they need no more than a head in one read, a body
          of known length, and one write: waiting for them, reading and parsing a batch in one C call; closing idle ones.
Thread:   two, under banners. One thread at a time, the executor's leader, waits and takes; the event loop starts, sweeps and drains.
Not here: the response (wire_fast.py). Other connections are handed over (handover.py) with all octets that were read or
          have to be written, so the lane changes nothing but the cost (benchmarks/README.md).

Longer than other files: both threads, and native.py, call one class, whose methods share the tables of connections and uploads.
"""

from __future__ import annotations

import collections
import functools
import logging
import os
import time
from typing import Any

from ..._cparsers import ffi, lib
from ...core.body import BufferedBody, RequestBody
from ...core.errors import RequestRefused
from ...core.exchange import (
    CLIENT_GONE,
    HTTP_1_1,
    HTTP_2,
    SCGI_STATUS_FIELD,
    SCGI_STATUS_LINE,
    UWSGI,
    Exchange,
    ResponseForm,
)
from ...protocols import EXCHANGE_FACTORIES
from ...protocols.base import new_body
from ...protocols.http1 import PLAIN
from ...tls.sessions import OwnSession
from ...workers.executor import Executor
from ...workers.inline import InlineExecutor
from ..connection import Connection
from ..data_rate import BODY_TOO_LATE, DataRate, why_overdue
from ..listeners import Listener
from ..load_board import LoadBoard
from ..loop.pump import Pump
from ..progress import ARRIVING_SECONDS
from ..service import Service
from .handover import Handovers
from .lane_log import LaneLog
from .lane_memory import ARRIVAL_BYTES, BATCH_COUNT, CONN_BYTES, Arrival, Memory, arrivals_of
from .native import Native, new_native
from .wire_fast import FastWire, end_session, refuse, stream_in_lane

logger = logging.getLogger("aserve")

_poll = lib.lane_poll
_monotonic = time.monotonic
_STATE_AT: int = ffi.offsetof("lane_conn", "state")
WHOLE: int = lib.LANE_WHOLE
BEGUN: int = lib.LANE_BEGUN
SHAKEN: int = lib.LANE_SHAKEN
_HTTP = ("http", "https")
KEEP = (1 << 31) - 1  # seconds after which lane_sweep never closes


def form_of(listener: Listener, service: Service) -> ResponseForm:
    """Return the form of the responses to plain requests."""
    scgi = SCGI_STATUS_LINE if service.limits.has_status_line else SCGI_STATUS_FIELD
    return {"http": HTTP_1_1, "https": HTTP_1_1, "uwsgi": UWSGI, "scgi": scgi}[listener.bind.protocol]


def carries(service: Service, executor: Executor | InlineExecutor) -> bool:
    """Whether connections of HTTP/2 come into the lane; the event loop counts the requests of each, or logs its frames."""
    counts_alone = service.keeps_terms or service.tells_wire or executor.is_inline
    return service.carriers.in_lane is not None and not counts_alone


class _Upload:
    """A request whose body comes in parts."""

    __slots__ = ("exchange", "moved_at", "rate")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.moved_at = 0  # the lane's second in which the last part came
        self.rate: DataRate | None = None  # once it takes more than a moment


class Lane:
    """The lane of one server."""

    def __init__(
        self,
        executor: Executor | InlineExecutor,
        pairs: list[tuple[Listener, Service]],
        board: LoadBoard | None = None,
        in_flight: Any = None,
    ) -> None:
        """Make the lane of these listeners; `board` and `in_flight`: see Memory."""
        self.executor = executor
        self.services = [service for _, service in pairs]
        self._loop = self.services[0].loop
        self._listeners = [listener for listener, _ in pairs]
        self._health_paths = self.services[0].health_paths  # all services share them, and the next value
        self.times_requests = self.services[0].times_requests or self.services[0].ends is not None  # see Ends
        self.forms = [form_of(listener, service) for listener, service in pairs]
        self._factories = [
            EXCHANGE_FACTORIES["http" if listener.bind.protocol in _HTTP else listener.bind.protocol](service.limits)
            for listener, service in pairs
        ]
        # By descriptor; one may outlive its connection, until the next has its number.
        self.connections: dict[int, Connection] = {}
        carrying = [carries(service, executor) for service in self.services]
        self._memory = Memory(self.services[0].config, self._listeners, board, in_flight, any(carrying))
        self._input, self._vars, self._arrivals = self._memory.views
        self.set = self._memory.set
        self.pump: Pump | None = None  # with --threads 0
        if not isinstance(executor, InlineExecutor):
            self.pump = Pump(self.services[0].budgets, executor, self.services[0].config.write_seconds)
        self.handovers = Handovers(self._memory, self.connections, self._loop, executor, self.pump)
        self._uploads: dict[int, _Upload] = {}  # by descriptor: requests whose body is not complete
        # Uploads to refuse, with the reason. The leader refuses them: only it knows that no part has come since.
        self.overdue: collections.deque[tuple[int, _Upload, str]] = collections.deque()
        self._passed_on_count = 0  # requests that are for the event loop after all: it counts them, but no health check
        # The service, if the next client may reuse a Connection: on a unix socket, unless each connection has a term of its own.
        self._reusing = [None if service.keeps_terms else service for service in self.services]
        self.is_draining, self._draining_since = False, 0  # the lane's second
        self._is_closed = False
        self.native: Native | None = None  # serves plain requests
        for index, (listener, service) in enumerate(pairs):
            if listener.bind.protocol in _HTTP:  # other protocols carry one request
                service.take_back = functools.partial(self._adopt, index)
                service.take_carrier = service.take_back if carrying[index] else None
            if service.shakes_in_lane:
                self._memory.listeners[index].shakes = 1
                service.wrap.follow(functools.partial(self._renew, index))  # type: ignore[union-attr]

    # --- called on the event loop ---

    def start(self) -> None:
        """
        Accept from now on.

        Raises:
            OSError: no descriptor is left.
        """
        if self.services[0].tells_wire:
            LaneLog(self)  # from now on calls to this lane pass through it
        if error := lib.lane_open(self.set):
            self.close()
            raise OSError(error, os.strerror(error))
        if isinstance(self.executor, InlineExecutor):
            self._loop.add_reader(self.set.epoll_fd, self._on_ready, self.executor)
        else:
            self.native = new_native(self, self.executor)
            self.executor.attach(self, self.native)

    def _on_ready(self, executor: InlineExecutor) -> None:
        """With --threads 0: take and run the requests that have come."""
        self.submit_arrivals(self.wait(0))
        executor.run()

    def _renew(self, index: int) -> None:
        context = self.services[index].wrap.only  # type: ignore[union-attr]
        lib.lane_renew(self.set, index, context.struct if context is not None else ffi.NULL)

    def on_second(self) -> None:
        """Close connections that have been idle for too long; called once a second."""
        self.set.now, self.set.now_at = self.set.now + 1, int(time.monotonic())
        if self.native is not None:
            self.native.on_second()
        config = self.services[0].config
        lib.lane_sweep(self.set, int(config.keep_alive_seconds), int(config.head_seconds))
        self._pass_on(1, int(config.keep_alive_seconds), int(config.head_seconds))
        if self.set.is_paused:
            lib.lane_wake(self.set)  # a second is over: see lane.h
        for fd, upload in list(self._uploads.items()):
            body = upload.exchange.body
            if body is None:
                continue  # the leader has it just now
            upload.rate = upload.rate or DataRate()
            why = why_overdue(body, upload.rate, self.set.now - upload.moved_at, config)
            if why:
                self.overdue.append((fd, upload, why))
        if self.overdue:
            lib.lane_wake(self.set)

    def stop_accepting(self) -> None:
        """Accept no more; after this the listening sockets may be closed."""
        for index in range(len(self._listeners)):
            lib.lane_unlisten(self.set, index)

    def drain(self) -> None:
        """Close idle connections, and every other one after its response; called until `count` is 0."""
        if not self.is_draining:
            self.is_draining, self._draining_since = True, self.set.now
            if self.native is not None:
                self.native.drain(self.services[0].is_replaced)
            # A leader tells exchanges that it takes later. If another process goes on, running exchanges keep their keep-alive.
            for connection in [] if self.services[0].is_replaced else list(self.connections.values()):
                exchange = connection.exchange
                if exchange is not None:
                    exchange.keep_alive = False
        lib.lane_sweep(self.set, self._last_idle_seconds, int(ARRIVING_SECONDS))
        self._pass_on(0, -1, -1)

    def _pass_on(self, shaking_seconds: int, used_seconds: int, new_seconds: int) -> None:
        """Let the event loop go on with handshakes that have taken so long, and end connections of HTTP/2; see lane_due_carriers."""
        if any(service.shakes_in_lane for service in self.services):
            out = ffi.new("lane_released[]", BATCH_COUNT)
            count = BATCH_COUNT
            while count == BATCH_COUNT:
                count = lib.lane_release_shaking(self.set, shaking_seconds, out, BATCH_COUNT)
                for each in out[0:count]:
                    self.handovers.begin_handshake(each.fd, self.services[each.listener], shaking_seconds)
        if self.set.h2:
            numbers = ffi.new("int32_t[]", lib.LANE_CARRIERS)
            count = lib.lane_due_carriers(self.set, used_seconds, new_seconds, numbers, lib.LANE_CARRIERS)
            for number in numbers[0:count]:
                self.handovers.begin_carrier(number)

    @property
    def _last_idle_seconds(self) -> int:
        """For how many seconds a connection may idle before it is closed: if another process goes on, its next request may be on its way."""
        if not self.services[0].is_replaced:
            return -1
        return KEEP if self.set.now - self._draining_since <= ARRIVING_SECONDS else int(ARRIVING_SECONDS)

    def _adopt(
        self, index: int, connection: Connection, fd: int, session: OwnSession | None = None, is_used: bool = True,
        state: Any = None, octets: bytes = b"",
    ) -> bool:  # fmt: skip
        """
        Take an idle connection, and its session of TLS; False: both stay where they are. The caller still owns the descriptor.

        `is_used`: it has carried a request. `state`: of HTTP/2. `octets`: that have come, and HTTP/2 has not received.
        """
        try:
            own_fd = os.dup(fd)
        except OSError:
            return False  # no descriptor is left
        number = own_fd if state is None else lib.lane_new_carrier(self.set)
        if number < 0:
            os.close(own_fd)
            return False
        before = connection.wire
        if state is None:
            connection.wire = FastWire(self.handovers, own_fd)
        self.connections[number] = connection  # now: the next request may come before the call returns
        if self.native is not None:
            self.native.know(number, connection)
        struct = session.release() if session is not None else ffi.NULL  # first: the lane may end it at once
        if state is None:
            is_taken = lib.lane_adopt(self.set, own_fd, index, struct, is_used)
        else:
            is_fed = not octets or lib.lane_feed_carrier(self.set, number, octets, len(octets))
            is_taken = is_fed and lib.lane_adopt_carrier(self.set, number, own_fd, index, struct, is_used, state)
            if not is_taken:
                lib.lane_drop_carrier(self.set, number)
        if is_taken:
            return True
        if session is not None:
            session.own(struct)
        del self.connections[number]
        connection.wire = before
        os.close(own_fd)
        return False

    @property
    def count(self) -> int:
        """Connections that are in the lane, or on their way out of it."""
        return int(self.set.nconns)

    @property
    def request_count(self) -> int:
        """Requests for the app that were received here, since the start."""
        return int(self.set.nrequests) - self._passed_on_count

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges that are being received, or whose responses are not out."""
        if self.native is not None:
            self.native.promote_all()
        exchanges = (connection.exchange for connection in list(self.connections.values()))
        return [exchange for exchange in exchanges if exchange is not None]

    @property
    def incomplete_bodies(self) -> list[RequestBody]:
        """The request bodies that are being received."""
        bodies = (upload.exchange.body for upload in list(self._uploads.values()))
        return [body for body in bodies if body is not None]

    def close(self) -> None:
        """Close every connection, also those with running requests."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.executor.is_inline and self.set.epoll_fd >= 0:
            self._loop.remove_reader(self.set.epoll_fd)
        self.handovers.close()
        for exchange in self.exchanges:
            exchange.connection.service.lost.add(exchange)
        lib.lane_close(self.set)
        self.handovers.end_kept()
        if self.pump is not None:
            self.pump.close()

    def set_limit(self, max_count: int) -> None:
        """See limit.InLane."""
        self.set.max_conns = max_count

    def set_others_count(self, others_count: int) -> None:
        """See limit.InLane."""
        self.set.nothers = others_count
        if self.set.is_paused:
            lib.lane_wake(self.set)

    def evict_idle(self) -> int:
        """See limit.InLane."""
        return int(lib.lane_evict_idle(self.set))

    @property
    def pause_counts(self) -> tuple[int, int]:
        """See limit.InLane."""
        return self.set.nfull, self.set.nshort

    # --- called by native.py ---

    def is_stream(self, fd: int) -> bool:
        """Whether this is the number of a stream of HTTP/2."""
        return bool(self.set.h2) and fd >= self.set.first_stream

    def new_stream(self, fd: int, index: int) -> Connection:
        """Return the connection of a stream; the earlier requests of its carrier may all have been plain."""
        carrier = lib.lane_carrier_of(self.set, fd)  # 0: the stream has just ended, and so has its carrier
        return stream_in_lane(self.handovers, self.connections.get(carrier) or Connection(self.services[index]), fd)

    def new_exchange(self, index: int, *request: Any) -> Exchange:
        """Return the exchange of a request; `request`: as an ExchangeFactory takes it."""
        return self._factories[index](*request)

    # --- called in a child that the app has forked ---

    @property
    def fds(self) -> list[int]:
        """Every descriptor of the lane, without the listeners'."""
        set = self.set
        states = ffi.buffer(set.conns, set.top * CONN_BYTES)[:][_STATE_AT::CONN_BYTES]
        own = (fd for fd in (set.epoll_fd, set.wake_fd, set.stall_fd, set.rest_fd) if fd >= 0)
        return [
            *own,
            *(self.pump.fds if self.pump is not None else ()),
            *(fd for fd, state in enumerate(states) if state),
        ]

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

    def flush(self) -> None:
        """See HandleSet."""
        lib.lane_flush(self.set)

    def watch(self) -> None:
        """See HandleSet."""
        lib.lane_watch(self.set)

    def wait(self, milliseconds: int) -> int:
        """See HandleSet."""
        if self.overdue:
            self.refuse_overdue()
        return _poll(self.set, milliseconds)

    def refuse_overdue(self) -> None:
        """Refuse requests whose bodies do not come; call it when all arrivals of the last poll are taken."""
        while self.overdue:
            fd, upload, why = self.overdue.popleft()
            if why is BODY_TOO_LATE and self.set.now - upload.moved_at <= self.services[0].config.body_seconds:
                continue  # a part has come just now
            if self._uploads.get(fd) is upload and lib.lane_own(self.set, fd):
                del self._uploads[fd]
                refuse(upload.exchange, RequestRefused(408, why))

    def submit_arrivals(self, count: int) -> None:
        """
        Submit the arrivals of the last `wait`.

        Raises:
            MemoryError: none of it has been taken.
        """
        text = self._vars[: self.set.vars_len].decode("latin-1")
        paths = self._health_paths
        if paths is not None and paths.path not in text:
            paths = None  # no arrival is a health check
        now = _monotonic() if self.times_requests else 0.0
        connections, submit, factories = self.connections, self.executor.submit_here, self._factories
        for arrival in arrivals_of(self._arrivals[: count * ARRIVAL_BYTES]):
            fd, index, kind, is_first = arrival.fd, arrival.listener, arrival.kind, arrival.is_first
            start, stop = arrival.input_off, arrival.input_off + arrival.input_len
            try:
                if kind == SHAKEN:
                    self._begin_secure(arrival, text[arrival.peer_off : arrival.peer_off + arrival.peer_len])
                    continue
                if kind != WHOLE and kind != BEGUN:
                    self._on_part_or_end(arrival, self._input[start:stop])
                    continue
                vars = text[arrival.vars_off : arrival.vars_off + arrival.vars_len]
                if arrival.flags == PLAIN:
                    exchange = Exchange(vars)
                else:
                    exchange = factories[index](
                        vars, arrival.nfirst, arrival.flags, arrival.modifier1, self._input, start, arrival.consumed
                    )
                    if exchange.is_for_loop:
                        self._passed_on_count += 1
                        if lib.lane_release(self.set, fd):
                            self._hand_over(arrival, self._input[start:stop])
                        continue
                connection = connections.get(fd)
                if arrival.carrier:
                    connection = connections[fd] = self.new_stream(fd, index)
                    exchange.form, exchange.keep_alive = HTTP_2, False
                elif connection is None or (
                    is_first and (arrival.peer_len or connection.service is not self._reusing[index])
                ):
                    addr, _, port = text[arrival.peer_off : arrival.peer_off + arrival.peer_len].partition("\0")
                    connection = connections[fd] = Connection(self.services[index], addr, port)
                    connection.wire = FastWire(self.handovers, fd)
                # Otherwise it is the client's next request, or the next of the front server on a unix socket, which has no address:
                # then the Connection of the last one with this number is reused, which saves uwsgi 5,400 instructions of 54,000.
                exchange.connection = connection
                if paths is not None and paths.probe_of(exchange):
                    self._passed_on_count += kind == WHOLE
                    if (kind == WHOLE or lib.lane_own(self.set, fd)) and lib.lane_release(self.set, fd):
                        self._hand_over(arrival, self._input[start:stop])
                    continue
                connection.exchange = exchange
                if self.is_draining:  # look at this last: then either we see the drain, or `drain` sees our exchange
                    exchange.keep_alive = False
                length = arrival.content_length
                if length:
                    begin = start + arrival.consumed
                    if kind == BEGUN:
                        self._begin_body(fd, exchange, length, self._input[begin:stop])
                        continue
                    exchange.body = BufferedBody.of(self._input[begin : begin + length])
                if now:
                    exchange.arrived_at = now
                submit((connection.run, exchange))
            except Exception:  # a bug in aserve, or no memory: this request is lost, the rest of the batch is not
                self._lose(fd, kind)

    def close_arrivals(self, count: int) -> None:
        """Close the connections of the last arrivals, as they could not be submitted."""
        for arrival in arrivals_of(self._arrivals[: count * ARRIVAL_BYTES]):
            self._lose(arrival.fd, arrival.kind)

    def _lose(self, fd: int, kind: int) -> None:
        try:
            self.close_lost(fd, kind)
            logger.exception("internal error; please report this as a bug in aserve")
        except MemoryError:
            pass  # the next arrivals must not be lost, too

    def _hand_over(self, arrival: Arrival, octets: bytes) -> None:
        """Hand a connection over with octets of a request that is not for the lane."""
        fd = arrival.fd
        if arrival.carrier:
            self.handovers.begin_stream(fd, octets[: arrival.consumed], octets[arrival.consumed :])
            return
        if arrival.is_first:
            self.connections.pop(fd, None)  # of an ended connection that had this number
            if self.services[arrival.listener].wrap is not None:
                self.handovers.begin_handshake(fd, self.services[arrival.listener])
                return
            connection = Connection(self.services[arrival.listener])
        else:
            connection = self.connections.pop(fd)
        self.handovers.begin_idle(fd, connection, octets, bool(arrival.is_first))

    def _begin_secure(self, arrival: Arrival, peer: str) -> None:
        """Make the Connection of a handshake that is done."""
        fd, service = arrival.fd, self.services[arrival.listener]
        addr, _, port = peer.partition("\0")
        connection = self.connections[fd] = Connection(service, addr, port)
        connection.wire = FastWire(self.handovers, fd)
        session = OwnSession(self.set.sessions[fd])
        try:
            connection.base_environ = service.base_of_session(session)
        finally:
            session.release()
        if self.native is not None:
            self.native.know(fd, connection)
        lib.lane_begin(self.set, fd, True)

    def _on_part_or_end(self, arrival: Arrival, octets: bytes) -> None:
        """Take an arrival that is neither a request nor the beginning of one: a part of a body, or an end."""
        fd, kind = arrival.fd, arrival.kind
        if kind == lib.LANE_LEFT:
            if arrival.carrier:
                self.handovers.begin_carrier(arrival.carrier)
            else:
                self._hand_over(arrival, octets)
            return
        if kind == lib.LANE_ENDED:
            self.handovers.on_ended(fd, arrival.consumed, arrival.content_length)
            return
        upload = self._uploads.get(fd)
        if upload is None:
            return  # the connection has left the lane: an earlier part could not be kept
        exchange = upload.exchange
        if kind == lib.LANE_GONE:
            del self._uploads[fd]
            exchange.connection.exchange = None
            exchange.end = CLIENT_GONE
            exchange.connection.end_exchange(exchange)
        elif self._feed_body(fd, upload, octets) and kind == lib.LANE_DONE:
            del self._uploads[fd]
            if self.times_requests:
                exchange.arrived_at = _monotonic()
            self.executor.submit_here((exchange.connection.run, exchange))

    def _begin_body(self, fd: int, exchange: Exchange, length: int, octets: bytes) -> None:
        upload = self._uploads[fd] = _Upload(exchange)
        try:
            exchange.body = new_body(self.services[0].limits, is_chunked=False, length=length)
        except RequestRefused as why:
            self._refuse_upload(fd, exchange, why)
            return
        self._feed_body(fd, upload, octets)

    def _feed_body(self, fd: int, upload: _Upload, octets: bytes) -> bool:
        upload.moved_at = self.set.now
        try:
            upload.exchange.body.feed(octets)  # type: ignore[union-attr]
        except RequestRefused as why:  # the body cannot be kept
            self._refuse_upload(fd, upload.exchange, why)
            return False
        return True

    def _refuse_upload(self, fd: int, exchange: Exchange, why: RequestRefused) -> None:
        self._uploads.pop(fd, None)
        lib.lane_own(self.set, fd)
        if exchange.body is not None:
            exchange.body.close()  # at once, to make room for the next body
        refuse(exchange, why)

    def close_lost(self, fd: int, kind: int) -> None:
        """Close a connection whose arrival could not be taken."""
        self._uploads.pop(fd, None)
        if kind == SHAKEN:
            lib.lane_begin(self.set, fd, False)
            return
        is_owned = kind in (WHOLE, lib.LANE_DONE) or (kind in (BEGUN, lib.LANE_PART) and lib.lane_own(self.set, fd))
        if self.is_stream(fd):
            self.handovers.drop_kept(fd)  # first: another stream may have the number then
            self.connections.pop(fd, None)
            if lib.lane_release(self.set, fd):
                lib.lane_take_stream(self.set, fd)
        elif kind == lib.LANE_LEFT or (is_owned and lib.lane_release(self.set, fd)):
            self.connections.pop(fd, None)
            end_session(self.set, fd)
            os.close(fd)
            lib.lane_left(self.set)
