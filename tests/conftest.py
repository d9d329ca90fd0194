"""Servers and clients for the tests: real sockets, and nothing waits for ever.

`start_server(app, **settings)` runs an aserve.Server on an event loop in a thread of this
process; `server` is one that serves apps.hello.  `start_process(name, *flags)` runs
`python -m aserve` on an app of apps.py.  `raw_client(server)` is a blocking socket.

A test that uses `start_server` runs once for each way of serving (event loop, parser, lane); with
the marker `also_inline` once more with --threads 0.  A server on an https:// bind is met by
`raw_client` in TLS; `pytest --over-tls tests/e2e` serves all that `start_server` starts so.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib.util
import json
import logging
import os
import pathlib
import re
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio.plugin

TESTS = pathlib.Path(__file__).parent
# The tests import apps.py and soak.py as modules; importmode=importlib puts nothing on sys.path.
sys.path.insert(0, str(TESTS))

import apps  # noqa: E402
import faults  # noqa: E402
import side_by_side  # noqa: E402
from certificates import HAS_OPENSSL, Authority, Issued  # noqa: E402

import aserve  # noqa: E402
from aserve.protocols import PROTOCOLS  # noqa: E402

PATIENCE_SECONDS = 10.0  # for anything that should happen at once, also where others use the machine
IS_PYPY = sys.implementation.name == "pypy"


def has_module(name: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(name) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of our own."""
    parser.addoption("--over-tls", action="store_true", help="what start_server starts is served over TLS")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the e2e tests, and what -n needs."""
    side_by_side.configure(config)
    config.addinivalue_line("markers", "also_inline: run it with --threads 0, too")
    config.addinivalue_line("markers", "both_loops: a coroutine that runs on asyncio's event loop and on uvloop's")
    config.addinivalue_line("markers", "any_parser: the parser does not matter here")
    config.addinivalue_line("markers", "one_way: the event loop and the parser do not matter here")
    config.addinivalue_line("markers", "plain: it is about HTTP without TLS; not with --over-tls")
    config.addinivalue_line(
        "markers", "provokes(line): it logs a fault on purpose, in a line that matches; see faults.py"
    )
    config.addinivalue_line("markers", "rule(clause): what a clause asks and what we do; see rules.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot be done over TLS, or under coverage."""
    # CPython 3.11's evaluation loop, where it is traced, never gets past an exception that is pending in another thread.
    if sys.gettrace() is not None and sys.version_info < (3, 12):
        for item in items:
            if item.get_closest_marker("interrupted"):
                item.add_marker(pytest.mark.skip(reason="CPython before 3.12 does not survive it while it is traced"))
    if config.getoption("--over-tls"):
        for item in items:
            if item.get_closest_marker("plain"):
                item.add_marker(pytest.mark.skip(reason="it is about HTTP without TLS"))


# Event loops of tests that are coroutines: pytest-asyncio's, asyncio's own or uvloop's

LOOP_KINDS = ["asyncio", *(["uvloop"] if has_module("uvloop") else [])]


def loop_kinds_of(item: Any) -> list[str]:
    """Return the kinds of event loops that a test runs on."""
    return LOOP_KINDS if item.get_closest_marker("both_loops") else LOOP_KINDS[:1]


if hasattr(pytest_asyncio.plugin, "PytestAsyncioSpecs"):

    def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Name the loops for pytest-asyncio."""
        return {kind: functools.partial(new_loop, kind) for kind in loop_kinds_of(item)}

else:  # before 1.4; 1.2 is the last for Python 3.9: by a policy
    asyncio.set_event_loop(None)  # or it would ask for a loop that nobody closes, in order to put it back

    class LoopPolicy(asyncio.DefaultEventLoopPolicy):
        """Makes loops of one kind."""

        def __init__(self, kind: str) -> None:
            super().__init__()
            self._kind = kind

        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            """Return a new loop; asyncio's own function would ask here again."""
            return super().new_event_loop() if self._kind == "asyncio" else new_loop(self._kind)

    @pytest.fixture
    def event_loop_policy(request: pytest.FixtureRequest) -> LoopPolicy:
        """Choose the loop for pytest-asyncio."""
        return LoopPolicy(getattr(request, "param", LOOP_KINDS[0]))


# Faults


def provoked_by(item: Any) -> tuple[str, ...]:
    """Return the patterns of the faults that a test provokes on purpose."""
    return tuple(pattern for marker in item.iter_markers("provokes") for pattern in marker.args)


@pytest.fixture(autouse=True)
def fault_watch(request: pytest.FixtureRequest) -> Iterator[faults.Watch]:
    """Fail a test in which an event loop, or aserve itself, has logged a fault."""
    watch = faults.Watch()
    logging.getLogger().addHandler(watch)
    yield watch
    logging.getLogger().removeHandler(watch)
    text = watch.text(provoked_by(request.node))
    assert not text, f"logged while the test ran:\n{text}"


@pytest.fixture(autouse=True)
def plain_collector() -> None:
    """Take away the callback that Hypothesis leaves in the garbage collector: a RequestTimeout that is raised in it is lost."""
    if hasattr(gc, "callbacks"):  # PyPy has none
        gc.callbacks.clear()


# Ways of serving


class Way(NamedTuple):
    """One combination of what a user can choose and should not notice."""

    loop: str
    http_parser: str
    threads: int = 8
    lane: str = "off"


# Those that matter, not all combinations: each loop and parser, with and without threads and lane.
if has_module("uvloop"):
    WAYS = [Way("uvloop", "c", lane="auto"), Way("uvloop", "c"), Way("asyncio", "c"), Way("uvloop", "httptools")]
    INLINE_WAYS = [Way("uvloop", "c", 0, "auto"), Way("asyncio", "c", 0)]
else:
    WAYS = [Way("asyncio", "c", lane="auto"), Way("asyncio", "c")]
    if has_module("httptools"):
        WAYS.append(Way("asyncio", "httptools"))
    INLINE_WAYS = [Way("asyncio", "c", 0, "auto")]  # the other is CPython's


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise whatever serves, and whatever runs on both event loops."""
    if "event_loop_policy" in globals() and metafunc.definition.get_closest_marker("both_loops"):
        metafunc.parametrize("event_loop_policy", LOOP_KINDS, indirect=True)
    if "way" in metafunc.fixturenames:
        markers = {marker.name for marker in metafunc.definition.iter_markers()}
        ways = WAYS[:1] if "one_way" in markers else WAYS
        if "any_parser" in markers:
            ways = [way for way in ways if way.http_parser == "c"]
        if "also_inline" in markers:
            ways = ways + (INLINE_WAYS[:1] if "one_way" in markers else INLINE_WAYS)
        metafunc.parametrize("way", ways, ids=["-".join(map(str, way)) for way in ways])


# Servers


class RunningServer:
    """An aserve.Server on an event loop in a thread of its own."""

    def __init__(self, app: Any, loop: str, settings: dict[str, Any]) -> None:
        self.server = aserve.Server(app, **settings)
        self.faults: list[str] = []  # what reached the event loop's exception handler
        self.is_clean: bool | None = None  # what drain() returned
        self.clients: list[RawClient] = []
        self._is_clock_held = False
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._loop_kind = loop
        self._thread = threading.Thread(target=self._run, name="event-loop", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    @property
    def address(self) -> Any:
        """The first address it listens on."""
        return self.server.addresses[0]

    @property
    def url(self) -> str:
        """The same, for clients that want a URL."""
        return self.server.urls[0]

    def call(self, function: Callable[[], Any]) -> Any:
        """Return function() run on the event loop."""

        async def run() -> Any:
            return function()

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return future.result(PATIENCE_SECONDS)

    def hold_clock(self) -> None:
        """For the time-outs no second passes from now on, but for those of `pass_seconds`; `stop` lets it go on."""
        self._is_clock_held = True
        self._do(lambda: setattr(self.server, "on_second", lambda: None))  # which its timer calls

    def pass_seconds(self, count: int) -> None:
        """Let so many seconds pass for the time-outs, at once, and hold the clock; harmless in a drain's last moment."""
        self.hold_clock()
        for _ in range(count):
            self._do(lambda: aserve.Server.on_second(self.server))

    def pass_seconds_until(self, condition: Callable[[], Any]) -> None:
        """Let them pass, one by one, until this is so."""

        def look() -> Any:
            self.pass_seconds(1)
            return condition()

        wait_until(look)

    def statistics(self) -> aserve.Statistics:
        """Return what it is doing at this moment."""
        return self.call(self.server.statistics)

    def options(self, level: int, name: int) -> list[int]:
        """Return what a socket option is for each of its connections, TCP only."""

        def look() -> list[int]:
            found = {}  # by client: a connection may have two descriptors for a while
            for fd in map(int, os.listdir("/dev/fd")):
                with contextlib.suppress(OSError):  # the folder's own, which is closed again; and no socket
                    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                        continue
                    is_blocking = os.get_blocking(fd)
                    with socket.socket(fileno=os.dup(fd)) as sock:
                        os.set_blocking(fd, is_blocking)  # PyPy's socket changes that, of what both share
                        if sock.getsockname() == self.address:
                            found[sock.getpeername()] = sock.getsockopt(level, name)
            return list(found.values())

        return self.call(look)

    def wait_until_idle(self) -> None:
        """Wait until no connection is left."""
        wait_until(lambda: not self.server.connection_count)

    def wait_until_known(self, count: int) -> None:
        """Wait until so many connections have been accepted and are open."""
        wait_until(lambda: self.server.connection_count == count)

    def wait_until_receiving(self) -> None:
        """Wait until octets of a request have come; those of a TLS handshake are none."""
        wait_until(lambda: self.statistics().connections_receiving)

    def has_received(self, count: int) -> bool:
        """Whether so many octets of the body of an incomplete request have come."""
        statistics = self.statistics()
        return statistics.bodies_incomplete > 0 and statistics.bodies_incomplete_bytes == count

    def stop_when(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition, then stop."""
        wait_until(condition)
        self.stop()

    def begin_drain(self) -> None:
        """Start draining, and see it begun; `stop` waits for the end."""
        self._do(self._stopping.set)
        wait_until(lambda: self.server.is_draining or not self._thread.is_alive())

    def stop(self) -> None:
        """Drain, and check that nothing went wrong on the event loop."""
        for client in self.clients:
            client.close()  # the drain need not linger for them
        if self._thread.is_alive():
            if self._is_clock_held:
                self._do(lambda: vars(self.server).pop("on_second"))
            self.begin_drain()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server does not stop"
        assert self._error is None, self._error
        assert not self.faults, "what reached the event loop's exception handler:\n" + "\n\n".join(self.faults)

    def _do(self, function: Callable[[], Any]) -> None:
        """Run function() on the event loop, unless that has ended or is about to."""
        is_done = threading.Event()

        def run() -> None:
            if self.is_clean is None:
                function()
            is_done.set()

        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(run)
        wait_until(lambda: is_done.is_set() or not self._thread.is_alive())

    def _run(self) -> None:
        loop = new_loop(self._loop_kind)
        loop.set_exception_handler(lambda _, context: self.faults.append(faults.describe(context)))
        try:
            loop.run_until_complete(self._serve())
        except BaseException as exc:
            self._error = exc
            self._ready.set()
        finally:
            loop.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        await self.server.start()
        self._ready.set()
        await self._stopping.wait()
        self.is_clean = await self.server.drain()
        await asyncio.sleep(0)  # the transports' own last callbacks


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Return a new event loop of that kind."""
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority of the tests."""
    if not HAS_OPENSSL:
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def localhost(authority: Authority) -> Issued:
    """Return the certificate and key of localhost."""
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def tls_settings(authority: Authority, localhost: Issued) -> dict[str, Any]:
    """Return the settings that make start_server serve over TLS."""
    RawClient.authority = str(authority.certificate)
    return {"bind": "https://127.0.0.1:0", "certificate": localhost.certificate, "key": localhost.key}


@pytest.fixture
def start_server(request: pytest.FixtureRequest, way: Way, caplog: Any, fault_watch: Any) -> Iterator[Any]:
    """Start servers: start_server(app, is_checked=True, **settings) -> RunningServer."""
    if ("http", way.http_parser) not in PROTOCOLS:
        pytest.skip(f"--http-parser {way.http_parser} is not in aserve.protocols.PROTOCOLS")
    caplog.set_level(logging.INFO, "aserve")
    running: list[RunningServer] = []

    def start(app: Any, is_checked: bool = True, **settings: Any) -> RunningServer:
        settings.setdefault("threads", way.threads)
        settings.setdefault("http_parser", way.http_parser)
        settings.setdefault("lane", way.lane)
        if request.config.getoption("--over-tls") and "bind" not in settings:
            settings.update(request.getfixturevalue("tls_settings"))
        settings.setdefault("bind", "127.0.0.1:0")
        settings.setdefault("drain_seconds", 5)
        server = RunningServer(apps.checked(app) if is_checked else app, way.loop, settings)
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def server(start_server: Any) -> RunningServer:
    """A server of apps.hello."""
    return start_server(apps.hello)


class ServerProcess:
    """`python -m aserve` in a process of its own."""

    def __init__(self, arguments: list[str], folder: pathlib.Path, env: dict[str, str]) -> None:
        self._log_path = folder / f"stderr-{time.monotonic_ns()}"
        clean = {name: v for name, v in os.environ.items() if not name.startswith("ASERVE_")}
        with open(self._log_path, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-m", "aserve", "--bind", "127.0.0.1:0", *arguments],
                cwd=folder,
                env={**clean, "PYTHONUNBUFFERED": "1", **env},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            match = self.wait_for_log(r"serving on (https?)://([\d.]+):(\d+)", 60)
        except BaseException:
            self.end()
            raise
        self.address = (match[2], int(match[3]))
        self.url = match[0].split()[-1]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def log(self) -> str:
        """What it has written to standard error."""
        return self._log_path.read_text(errors="replace")

    def wait_for_log(self, pattern: str, seconds: float = PATIENCE_SECONDS) -> re.Match[str]:
        """Wait until standard error matches."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.log)
            assert found or self.process.poll() is None, f"the server has ended:\n{self.log}"
            return found

        return wait_until(look, seconds, lambda: f"no {pattern!r} in:\n{self.log}")

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, seconds: float = 10.0) -> int:
        """Wait for its end; return the exit status."""
        return self.process.wait(seconds)

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used; Linux only."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> list[str]:
        """Return what its file descriptors are, the standard ones left out."""
        names = []
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(OSError):
                if int(fd) > 2:
                    names.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
        return sorted(names)

    def faults(self, provoked: tuple[str, ...] = ()) -> str:
        """Return what its log tells of that must never happen; "" when all is well."""
        return faults.faults_in(self.log, provoked)

    def end(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def start_process(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    """Start servers: start_process(app, *flags, **env) -> ServerProcess; app: a name in apps.py, or a spec."""
    running: list[ServerProcess] = []

    def start(app: str, *flags: str, **env: str) -> ServerProcess:
        spec = app if ":" in app else f"{TESTS / 'apps.py'}:{app}"
        process = ServerProcess([spec, *flags], tmp_path, env)
        running.append(process)
        return process

    yield start
    for process in running:
        process.end()
    for process in running:
        text = process.faults(provoked_by(request.node))
        assert not text, f"the server's standard error has:\n{text}"


def wait_until(
    condition: Callable[[], Any],
    seconds: float = PATIENCE_SECONDS,
    explain: Callable[[], str] = lambda: "it did not happen in time",
) -> Any:
    """Return the first true value of `condition`, asked often; for what cannot be awaited."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, explain()
        time.sleep(0.005)


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., Any]:
    return wait_until


# Clients


class Truncated(Exception):
    """The connection ended within a response; `octets` is what had come of it."""

    def __init__(self, octets: bytes, is_reset: bool) -> None:
        super().__init__(f"truncated after {octets[-200:]!r}, {'reset' if is_reset else 'closed'}")
        self.octets = octets
        self.is_reset = is_reset


class Reply(NamedTuple):
    """One response."""

    version: str
    status: int
    reason: str
    fields: list[tuple[str, str]]  # as they came
    body: bytes
    framing: str  # "length", "chunked", "close" or "none"

    def get(self, name: str) -> str | None:
        """Return the value of a field that occurs at most once."""
        values = [value for key, value in self.fields if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} repeated: {values}"
        return values[0] if values else None

    def json(self) -> Any:
        """Return the body, read as JSON."""
        return json.loads(self.body)


class RawClient:
    """A blocking socket that speaks in octets; each wait ends after ten seconds."""

    Truncated = Truncated
    authority = ""  # whose certificates are believed

    def __init__(self, address: Any, receive_buffer_bytes: int | None = None) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_SECONDS)
        if receive_buffer_bytes:
            # Before connect(), or the window is already open.
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            self.sock.connect(address)
        except OSError:
            self.sock.close()
            raise
        if family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self.is_reset = False

    # Sending

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.sock.sendall(data)

    def request(self, target: str = "/", *fields: str, method: str = "GET", body: bytes = b"") -> None:
        """Send an HTTP/1.1 request; Content-Length is added for a body."""
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def fetch(self, target: str = "/", *fields: str, method: str = "GET", body: bytes = b"") -> Reply:
        """Send a request, return the response."""
        self.request(target, *fields, method=method, body=body)
        return self.recv_response(is_head=method == "HEAD")

    def end_sending(self) -> None:
        """Half-close: no more will be sent."""
        self.sock.shutdown(socket.SHUT_WR)

    # Receiving

    def recv_until(self, mark: bytes) -> bytes:
        """Receive up to and with the mark."""
        while mark not in self._buffer:
            self._fill()
        end = self._buffer.index(mark) + len(mark)
        return self._cut(end)

    def recv_exactly(self, count: int) -> bytes:
        """Receive so many octets."""
        if len(self._buffer) < count:
            parts, have = [self._buffer], len(self._buffer)
            self._buffer = b""
            while have < count:
                try:
                    data = self._recv()
                except Truncated:
                    self._buffer = b"".join(parts)
                    raise Truncated(self._buffer, self.is_reset) from None
                parts.append(data)
                have += len(data)
            self._buffer = b"".join(parts)
        return self._cut(count)

    def recv_head(self) -> Reply:
        """Receive a response's head."""
        head = self.recv_until(b"\r\n\r\n").decode("latin-1")
        status_line, *lines = head[:-4].split("\r\n")
        version, status, reason = (status_line + " ").split(" ", 2)
        assert re.fullmatch(r"[0-9]{3}", status), f"no status line: {status_line!r}"
        fields = []
        for line in lines:
            name, colon, value = line.partition(": ")
            assert colon and "\n" not in value and "\r" not in value, f"no field line: {line!r}"
            fields.append((name, value))
        return Reply(version, int(status), reason.rstrip(), fields, b"", "none")

    def recv_response(self, is_head: bool = False) -> Reply:
        """Receive one response (a 1xx counts as one); strict about framing."""
        reply = self.recv_head()
        length, coding = reply.get("Content-Length"), reply.get("Transfer-Encoding")
        assert length is None or coding is None, "two framings"
        if is_head or reply.status < 200 or reply.status in (204, 304):
            return reply
        if coding is not None:
            assert coding == "chunked"
            return reply._replace(body=b"".join(self.recv_chunks()), framing="chunked")
        if length is not None:
            return reply._replace(body=self.recv_exactly(int(length)), framing="length")
        return reply._replace(body=self.recv_to_end(), framing="close")

    def recv_chunks(self) -> Iterator[bytes]:
        """Receive a chunked body, chunk by chunk."""
        while True:
            size = int(self.recv_until(b"\r\n"), 16)
            chunk = self.recv_exactly(size)
            assert self.recv_exactly(2) == b"\r\n"
            if not size:
                return
            yield chunk

    def recv_to_end(self) -> bytes:
        """Receive until the server closes; a reset raises Truncated."""
        while True:
            try:
                self._fill()
            except Truncated as exc:
                if exc.is_reset:
                    raise
                return self._cut(len(self._buffer))

    def is_closed(self) -> bool:
        """Wait for the server's FIN or reset; False if octets come instead, or nothing for ten seconds."""
        try:
            self._fill()
        except Truncated:
            return True
        except TimeoutError:
            return False
        return False

    def is_quiet(self) -> bool:
        """Whether the server has neither sent anything more nor closed, as of now."""
        if self._buffer:
            return False
        self.sock.setblocking(False)
        try:
            self._fill()
        except BlockingIOError:
            return True
        except Truncated:
            return False
        finally:
            self.sock.settimeout(PATIENCE_SECONDS)
        return False

    # Ending

    def close(self) -> None:
        """Close, the usual way."""
        self.sock.close()

    def reset(self) -> None:
        """Close with a reset, as a client that crashes."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _fill(self) -> None:
        self._buffer += self._recv()

    def _recv(self) -> bytes:
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            self.is_reset = True
            data = b""
        except socket.timeout as exc:  # before 3.10 not yet the same as TimeoutError
            raise TimeoutError(str(exc)) from None
        if not data:
            raise Truncated(self._buffer, self.is_reset)
        return data

    def _cut(self, end: int) -> bytes:
        data, self._buffer = self._buffer[:end], self._buffer[end:]
        return data


class TLSClient(RawClient):
    """The same in TLS; a connection that ends without a closure alert is taken for a reset."""

    def __init__(
        self, address: Any, receive_buffer_bytes: int | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(address, receive_buffer_bytes)
        if context is None:
            context = ssl.create_default_context(cafile=self.authority)
        try:
            # Without PyPy's help: a socket that is closed in the handshake would be a warning.
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost", suppress_ragged_eofs=False)
        except BaseException:
            self.sock.close()
            raise

    def end_sending(self) -> None:
        """Half-close the socket below: a FIN, and no closure alert."""
        socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def is_quiet(self) -> bool:
        """Whether the server has neither sent anything more nor closed, as of now."""
        try:
            return super().is_quiet()
        except ssl.SSLWantReadError:
            return True

    def _recv(self) -> bytes:
        try:
            return super()._recv()
        except ssl.SSLEOFError:
            self.is_reset = True
            raise Truncated(self._buffer, self.is_reset) from None


@pytest.fixture
def raw_client() -> Iterator[Any]:
    """Connect: raw_client(server or address, receive_buffer_bytes=None) -> RawClient, or a TLSClient."""
    clients: list[RawClient] = []

    def connect(server: Any, receive_buffer_bytes: int | None = None, **options: Any) -> RawClient:
        is_tls = getattr(server, "url", "").startswith("https:")
        kind: Any = TLSClient if is_tls else RawClient
        client = kind(getattr(server, "address", server), receive_buffer_bytes, **options)
        clients.append(client)
        if isinstance(server, RunningServer):
            server.clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()
