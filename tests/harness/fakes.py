"""Stand-ins for the surroundings of units under test: a transport, a connection, the seam.

A FakeTransport writes to one end of a real socket pair, so that a worker's writes past it, and sendfile()'s, arrive at the same `peer`, in order. A
Harness is a listener's service whose loop and worker go on only when the test lets them.
"""

from __future__ import annotations

import socket
import types
from typing import Any

from aserve.connections.connection import Connection
from aserve.connections.loop.websockets import WebSockets
from aserve.connections.loop.wire_loop import LoopWire
from aserve.connections.server_budgets import Budgets
from aserve.connections.service import Service, ServiceContext
from aserve.core.exchange import ANSWERED
from aserve.features import Config
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits
from aserve.wsgi import FileWrapper, Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import CommonFields


class Writers:
    """A loop's add_writer and remove_writer; `turn` is one iteration."""

    def __init__(self) -> None:
        self.callbacks: dict[int, Any] = {}

    def add_writer(self, fd: int, callback: Any) -> None:
        self.callbacks[fd] = callback

    def remove_writer(self, fd: int) -> None:
        del self.callbacks[fd]

    def turn(self) -> None:
        for callback in list(self.callbacks.values()):
            callback()


class FakeTransport:
    """An asyncio transport without a loop, which holds octets beyond its socket's room."""

    def __init__(self, peername: Any = ("203.0.113.7", 4711), high: int = 65536) -> None:
        self.loop: StepLoop | None = None  # its Harness'
        self.socket, self.peer = socket.socketpair()
        self.extra = {"socket": self.socket, "peername": peername}
        self.calls: list[str] = []  # all but writes, by name
        self.held = bytearray()
        self.is_stuck = False  # as if the client did not read
        self.eof_error: OSError | None = None  # raised by `write_eof`
        self.can_half_close = True
        self.high = self.default_high = high
        self.protocol: Any = None
        self._is_reading, self._is_paused, self._is_at_eof = True, False, False
        for end in (self.socket, self.peer):
            end.setblocking(False)

    def connect(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.extra[name]

    def write(self, data: Any) -> None:
        assert not self._is_at_eof, "written after write_eof"
        if not self.is_closing():
            self.held += data
            self.flush()

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def flush(self) -> None:
        """Send as much as the socket takes; pause or resume the protocol as asyncio does."""
        while self.held and not self.is_stuck:
            try:
                del self.held[: self.socket.send(self.held)]
            except BlockingIOError:
                break
        if self._is_at_eof and not self.held:
            self.socket.shutdown(socket.SHUT_WR)
        if len(self.held) > self.high and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()
        elif len(self.held) <= self.high // 4 and self._is_paused:
            self._is_paused = False
            self.protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = self.default_high if high is None else high
        self.flush()

    def get_write_buffer_size(self) -> int:
        return len(self.held)

    def can_write_eof(self) -> bool:
        return self.can_half_close

    def write_eof(self) -> None:
        self.calls.append("write_eof")
        if self.eof_error is not None:
            raise self.eof_error
        self._is_at_eof = True
        self.flush()

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")
        self._is_reading = False

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")
        self._is_reading = True

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    # Acts of the other side

    def unstick(self) -> None:
        """The client reads again."""
        self.is_stuck = False
        self.flush()
        while self.loop is not None and self.loop.soon:
            self.loop.turn()

    def received(self) -> bytes:
        """Return the client's octets since the last call."""
        octets = b""
        while True:
            try:
                piece = self.peer.recv(1 << 20)
            except BlockingIOError:
                return octets
            if not piece:
                return octets
            octets += piece
            if self.held:
                self.flush()
            while self.loop is not None and self.loop.soon:
                self.loop.turn()

    def lose(self, exc: Exception | None = None) -> None:
        """The connection is gone; as in asyncio, the socket closes after the protocol knows."""
        self.protocol.connection_lost(exc)
        self.dispose()

    def dispose(self) -> None:
        self.socket.close()
        self.peer.close()


DEFAULTS = Config()  # once: it checks each of its settings


class FakeConnection:
    """A connection for wsgi/environ.py, wsgi/response.py and wsgi/gateway.py."""

    def __init__(self, base_environ: dict[str, Any] | None = None) -> None:
        self.base_environ: dict[str, Any] = {} if base_environ is None else base_environ
        self.remote_addr = "203.0.113.7"
        self.remote_port = "4711"
        self.service = types.SimpleNamespace(config=DEFAULTS, loop=None)
        self.sent: list[bytes] = []
        self.error: BaseException | None = None  # raised by `send`

    def send(self, exchange: Any, octets: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(octets)


class StepLoop:
    """An event loop for a connection; `turn` is one iteration."""

    def __init__(self) -> None:
        self.soon: list[Any] = []
        self.writers: dict[int, Any] = {}

    def call_soon(self, callback: Any, *args: Any) -> None:
        self.soon.append((callback, args))

    def add_writer(self, fd: int, callback: Any) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> None:
        del self.writers[fd]

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback, args in soon:
            callback(*args)
        for callback in list(self.writers.values()):
            callback()


class StepExecutor:
    """An Executor without threads: jobs run, and answers come home, when the test says so."""

    is_inline = False

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.posts: list[Any] = []
        self.waking: list[None] = []
        self.slices: list[str] = []
        self.queue_wait = types.SimpleNamespace(seconds=lambda: self.wait_seconds, stalled_seconds=0)
        self.wait_seconds = 0.0

    @property
    def is_quiet(self) -> bool:
        return not self.jobs and not self.posts

    @property
    def waiting_count(self) -> int:
        return len(self.jobs)

    def submit(self, function: Any, argument: Any) -> None:
        self.jobs.append((function, argument))

    def post(self, function: Any, first: Any, second: Any) -> None:
        self.posts.append((function, first, second))

    def yield_slot(self) -> None:
        self.slices.append("yield")

    def end_slice(self) -> None:
        self.slices.append("leave")

    def run_job(self) -> None:
        """A worker takes the next job; nothing comes home yet."""
        function, argument = self.jobs.pop(0)
        function(argument)

    def flush(self) -> None:
        """Let the loop bring home the posted calls."""
        while self.posts:
            function, first, second = self.posts.pop(0)
            function(first, second)

    def run(self) -> None:
        """Go on until there is nothing left to do."""
        while self.jobs or self.posts:
            self.flush()
            if self.jobs:
                self.run_job()


class FakeAccessLog:
    """Remembers codes, and whether responses were cut."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.cuts: list[bool] = []

    def write(self, exchange: Any, may_wait: bool = False) -> None:
        self.cuts.append(exchange.end != ANSWERED)
        self.codes.append(exchange.response.code if exchange.response is not None else 0)

    def write_refused(self, connection: Any, exchange: Any, why: Any) -> None:
        self.codes.append(why.status)


class Harness:
    """The service of a listener, and its connections; nothing moves by itself."""

    def __init__(
        self, app: Any, executor: Any = None, has_sendfile: bool = True, protocol: str = "http", **settings: Any
    ) -> None:
        self.config = config = Config(**settings)
        self.loop, self.executor = StepLoop(), StepExecutor() if executor is None else executor
        self.log = FakeAccessLog()
        self.budgets = Budgets(config)
        limits = Limits(
            max_body_bytes=config.max_body_bytes,
            body_memory_bytes=config.body_memory_bytes,
            max_pipelined=config.max_pipelined,
            is_live=config.body == "stream",
            body_space=self.budgets.bodies,
        )
        common_fields = CommonFields("s")
        self.transports: list[FakeTransport] = []
        self.service = Service(
            ServiceContext(
                config,
                self.loop,  # type: ignore[arg-type]
                self.executor,
                common_fields,
                connections=set(),
                budgets=self.budgets,
                websockets=WebSockets(config, self.loop),  # type: ignore[arg-type]
            ),
            name="http://a:80",
            limits=limits,
            new_protocol=PROTOCOLS[protocol, config.http_parser if protocol == "http" else "c"](limits),
            gateway=Gateway(app, common_fields, has_sendfile),
            base_environ=build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=FileWrapper),
        )

    def connect(self, wire: Any = None, **options: Any) -> tuple[Any, FakeTransport]:
        """Connect a client; return the wire of its connection, a new one unless given, and its transport."""
        wire, transport = wire or LoopWire(Connection(self.service)), FakeTransport(**options)
        transport.loop = self.loop
        self.transports.append(transport)
        transport.connect(wire)
        return wire, transport

    def dispose(self) -> None:
        for transport in self.transports:
            transport.dispose()
