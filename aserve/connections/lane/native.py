"""Plain requests in C, on CPython: the functions of Python that its engine calls.

Owns:     `new_native`: whether a lane has the engine; Native: the objects of a request that is not plain any more (it is promoted), and going on with it;
          `running`: which thread runs which request.
Thread:   workers, mostly; `promote` is also called by the event loop whenever it needs a request's exchange, and `running` by any thread. Under the GIL.
Not here: the engine (native/engine.h), whose twin is lane.py with wsgi/gateway.py.

A request is plain as long as a head and a body in memory are enough to serve it. Code that needs more promotes it, at any moment:
a connection, an exchange and a response are made of its present state, and Python goes on from there.
"""

from __future__ import annotations

import functools
import io
import logging
import math
import time
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..._cparsers import ffi, lib
from ...core.body import BufferedBody
from ...core.ends import Ended
from ...core.errors import WrittenOff
from ...core.exchange import HTTP_1_1, HTTP_2, Exchange, ResponseForm
from ...core.forks import end_if_forked, forked
from ...wsgi import Gateway
from ...wsgi.begun import BegunResponse, Rest
from ...wsgi.deadlines import Deadlines, GuardedResponse, Run
from ...wsgi.environ import Environ
from ..connection import LOST, Connection
from ..service import Service
from .availability import why_python
from .plain import Plain, new_plain
from .seam import EngineParts, PlainState, ServiceParts
from .wire_fast import FastWire

if TYPE_CHECKING:
    from ...workers.executor import Executor

try:
    from ... import _native
except ImportError:  # PyPy, a CPython without a GIL, a wheel for every CPython
    _native = None  # type: ignore[assignment]

logger = logging.getLogger("aserve")

WHOLE: int = lib.LANE_WHOLE
_FUNCTIONS = {
    "poll": "lane_poll",
    "look": "lane_look",
    "reply": "lane_reply",
    "send": "lane_send",
    "wake": "lane_wake",
    "parse_array": "uwsgi_parse_array",
}
_POINTERS = {name: int(ffi.cast("uintptr_t", ffi.addressof(lib, function))) for name, function in _FUNCTIONS.items()}

_natives: list[weakref.ref[Native]] = []  # of this process


def running(arrived_before: float = math.inf) -> dict[int, Exchange]:
    """
    Promote running requests that arrived before that time; return all running requests that are promoted, by thread.

    `arrived_before`: by time.monotonic(), for requests with times; infinity: all; minus infinity: promote none.
    """
    found: dict[int, Exchange] = {}
    for native in [ref() for ref in _natives.copy()]:
        if native is not None:
            found.update(native.engine.running(arrived_before))
    return found


def new_native(lane: Any, executor: Executor) -> Native | None:
    """Return the Native that serves plain requests of a lane in C; None: Python serves them."""
    if _native is None or any(why_python(each.config, each.common_fields.octets) for each in lane.services):
        return None
    plains = [new_plain(each) for each in lane.services]
    return Native(lane, executor, plains) if any(plains) else None


def _parts_of(service: Service, plain: Plain | None, form: ResponseForm) -> ServiceParts:
    return ServiceParts(
        app=plain.app if plain else None,
        base=service.base_environ,
        status_prefix=form.status_prefix,
        is_front=form is not HTTP_1_1,
        removal=plain.removal_line if plain else None,
        drop=plain.drop_line if plain else None,
        is_trusting=plain is not None and plain.is_trusting,
        id_field=plain.id_field if plain else None,
    )


class Native:
    """The engine's counterpart in Python, of one lane."""

    def __init__(self, lane: Any, executor: Executor, plains: list[Plain | None]) -> None:
        """`plains`: `new_plain` of each service."""
        self._lane, self._submit = lane, lane.submit_arrivals
        self._services: list[Service] = lane.services
        self._connections: dict[int, Connection] = lane.connections
        self._plains = plains
        # Its services share them, and those of TLS theirs.
        fields = {service.wrap is not None: service.common_fields for service in lane.services}
        self._fields = (
            fields.get(False, lane.services[0].common_fields),
            fields.get(True, lane.services[0].common_fields),
        )
        self._deadlines: Deadlines | None = lane.services[0].deadlines
        health, log = lane.services[0].health_paths, lane.services[0].ends  # and these
        self.engine: Any = _native.Engine(
            EngineParts(
                set=int(ffi.cast("uintptr_t", lane.set)),
                lane_bytes=ffi.sizeof("lane"),
                **_POINTERS,
                owner=self,
                executor=executor,
                service_parts=[
                    _parts_of(service, plain, form) for service, plain, form in zip(lane.services, plains, lane.forms)
                ],
                connections=lane.connections,
                ends_parts=None if log is None else log.parts,
                runs=self._deadlines.runs if self._deadlines is not None else None,
                written_off=WrittenOff,
                overdue=lane.overdue,
                forked=forked,
                new_input=io.BytesIO,
                respond=next((plain.respond for plain in plains if plain and plain.respond), None),
                tail=self._fields[0].octets,
                tls_tail=self._fields[1].octets,
                health_path=None if health is None else health.path.encode("latin-1"),
                takes_times=lane.times_requests or self._deadlines is not None,
                ended=Ended,
                state=PlainState,
            )
        )
        if log is not None:
            log.attach(self.engine)
        lane.submit_arrivals = self.engine.submit
        if self._deadlines is not None:
            self._deadlines.promote_older = self.engine.running
        _natives.append(weakref.ref(self, _natives.remove))

    # --- called on the event loop ---

    def on_second(self) -> None:
        """Take the new Date field; called once a second."""
        plain, tls = self._fields
        self.engine.tail, self.engine.tls_tail = plain.octets, tls.octets

    def drain(self, is_replaced: bool) -> None:
        """Let connections close after their responses from now on; if another process goes on, running exchanges keep their keep-alive."""
        self.engine.is_draining = True
        if not is_replaced:
            self.promote_all()

    def know(self, fd: int, connection: Connection) -> None:
        """Give the engine the client of a connection that returns to the lane."""
        self.engine.know(fd, connection.remote_addr, connection.remote_port, connection.base_environ)

    def promote_all(self) -> None:
        """Make exchanges of all requests that run or wait."""
        self.engine.promote_all()

    # --- called by the engine, in a worker; `promote` also on the event loop ---

    def connection_of(self, fd: int, index: int) -> Connection:
        """Return the Connection of a descriptor, whose requests may all have been plain so far."""
        connection = self._connections.get(fd)
        if connection is None:
            connection = self._connections[fd] = self._new_connection(fd, index)
        return connection

    def forget(self, fd: int) -> None:
        """Drop the Connection of a descriptor that another connection has by now."""
        self._connections.pop(fd, None)

    def believes(self, index: int, addr: str) -> bool:
        """Whether the claims of a peer of this address about its clients count."""
        return self._plain(index).believes(addr)

    def changes(self, index: int, vars: bytes, own_count: int, flags: int) -> Environ | None:
        """Return the entries of the environ that a trusted peer's claims change; None: such a request is not plain."""
        return self._plain(index).changes(
            self._lane.new_exchange(index, vars.decode("latin-1"), own_count, flags, 0, b"", 0, 0)
        )

    def promote(
        self, state: PlainState
    ) -> tuple[Exchange, Connection, BegunResponse | GuardedResponse | None, Run | None]:
        """Make the objects of a request that is not plain any more; the engine publishes them, unless it has gone on meanwhile."""
        fd, index, body = state.fd, state.listener, state.body
        exchange: Exchange = self._lane.new_exchange(
            index,
            state.vars.decode("latin-1"),
            state.own_count,
            state.flags,
            state.modifier1,
            body or b"",
            0,
            len(body or b""),
        )
        if self._lane.is_stream(fd):
            connection = exchange.connection = self._lane.new_stream(fd, index)
            exchange.form, exchange.keep_alive = HTTP_2, False
        else:
            connection = exchange.connection = self._connections.get(fd) or self._new_connection(fd, index)
            exchange.keep_alive = state.keep_alive and not self._lane.is_draining
        if body is not None and exchange.rpc is None:
            exchange.body = BufferedBody.of(body)
        if state.arrived_at:
            exchange.arrived_at, exchange.began_at, exchange.thread_id = (
                state.arrived_at,
                state.began_at,
                state.thread_id,
            )
        # A request that has not begun needs neither response nor deadline yet. A call never has them.
        if not state.is_begun or exchange.rpc is not None:
            return exchange, connection, None, None
        self._plain(index).rewrite(exchange, state.made_id.decode("ascii"))
        response = self._begin_response(
            exchange, state.head, state.code, state.length, state.sent_bytes, state.is_full, state.unsent or b""
        )
        if self._deadlines is None:
            return exchange, connection, response, None
        run = self._deadlines.begun(exchange, state.thread_id, state.began_at, state.is_inside)
        return exchange, connection, GuardedResponse(response, run), run

    def _new_connection(self, fd: int, index: int) -> Connection:
        connection = Connection(self._services[index], *(self.engine.peer_of(fd) or ()))
        connection.wire = FastWire(self._lane.handovers, fd)
        return connection

    def _begin_response(
        self, exchange: Exchange, head: bytes, code: int, length: int,
        sent_bytes: int, is_full: bool = False, unsent: bytes = b"",
    ) -> BegunResponse:  # fmt: skip
        response = exchange.response = BegunResponse(exchange, exchange.connection.service.common_fields)
        response.unsent = unsent
        if head:
            response.adopt(head, code, length, sent_bytes, is_full)
        return response

    def late_response(self, index: int, head: bytes, code: int, length: int) -> BegunResponse:
        """Make the response of a request that is over, for an app that still uses it: its calls then fail."""
        exchange = Exchange("", 0)
        exchange.connection = Connection(self._services[index])
        exchange.connection.wire = LOST
        response = self._begin_response(exchange, head, code, length, -1)
        response.head_is_out = response.is_full = True
        return response

    # `run`: the Run of a begun request, if there are deadlines. No interrupt can come any more.

    def run(self, exchange: Exchange, _: None, run: None) -> None:
        """Run a request that has not begun."""
        exchange.connection.run(exchange)

    def finish(self, exchange: Exchange, iterable: Iterable[bytes], run: Run | None) -> None:
        """Send the response of the app, from what it returned."""
        if run is not None:
            iterable = run.come_back(iterable, None)
        exchange.response.returned = iterable
        exchange.connection.run(exchange, self._gateway_of(exchange).respond)

    def stream(self, exchange: Exchange, rest: tuple[Any, ...], run: None) -> None:
        """Send the rest of an iterable; `rest`: see Rest."""
        iterable, iterator, taken, exc, is_closed = rest
        if forked:
            end_if_forked(self._fields[0].forked_count, exc)
        wire = exchange.connection.wire
        if exchange.response.unsent or (isinstance(wire, FastWire) and wire.is_held):
            taken = (b"",)  # before the app is asked for more
        self.finish(exchange, Rest(iterable, iterator, taken, exc, is_closed), run)

    def fail(self, exchange: Exchange, exc: BaseException, run: Run | None) -> None:
        """Answer in place of an app that has raised an exception."""
        if run is not None:
            try:
                run.come_back(None, exc)
            except BaseException as fault:
                exc = fault
        if isinstance(exc, WrittenOff):
            raise exc
        gateway = self._gateway_of(exchange)
        respond = functools.partial(gateway.fail, response=exchange.response, exc=exc)
        try:
            exchange.connection.run(exchange, respond)
        finally:
            del respond, exc  # or it would hold the frame that holds it

    def _gateway_of(self, exchange: Exchange) -> Gateway:
        return self._plain(self._services.index(exchange.connection.service)).gateway

    def _plain(self, index: int) -> Plain:
        plain = self._plains[index]
        assert plain is not None  # otherwise none of its requests comes here
        return plain

    def answer(self, exchange: Exchange, octets: bytes, run: None) -> None:
        """Send the reply to a call."""
        if forked:
            end_if_forked(self._fields[0].forked_count, None)
        exchange.connection.run(exchange, lambda _: octets)

    def leave(self, exchange: Exchange, left: tuple[bytes, int], run: Run | None) -> None:
        """Let the event loop send the rest of a whole response; `left`: octets that the socket has not taken, and the body's length."""
        if run is not None:
            run.end()
        response = exchange.response
        rest, size = left
        if response is not None:  # a call has none
            response.sent_bytes = size
            response.head_is_out = response.is_full = True
        if exchange.began_at:
            exchange.left_at = time.monotonic()
        exchange.connection.wire.leave_lane_with(exchange, rest)

    def submit(self, count: int) -> None:
        """Submit the arrivals that are not plain, the first ones of the table."""
        self._submit(count)

    def lose_arrivals(self, count: int) -> None:
        """Close the connections of arrivals that could not be submitted, the first ones of the table."""
        self._lane.close_arrivals(count)

    def refuse_overdue(self) -> None:
        """Refuse requests whose bodies do not come."""
        self._lane.refuse_overdue()

    def lose(self, fd: int, exchange: Exchange | None, run: Run | None) -> None:
        """Close the connection of a request that cannot be served; `exchange`: if it was promoted."""
        if run is not None:
            run.end()
        if exchange is not None:
            exchange.connection.wire.fail(exchange, "internal error")
        else:
            self._lane.close_lost(fd, WHOLE)

    def report(self, exc: BaseException | None) -> None:
        """Log a bug in aserve: these requests are lost, later ones are not."""
        logger.error("internal error; please report this as a bug in aserve", exc_info=exc)
