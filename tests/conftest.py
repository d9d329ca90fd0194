"""Servers and clients for the tests: real sockets, and nothing waits for ever.

`start_server(app, **settings)` runs an aserve.Server on an event loop in a thread of this
process; `server` serves apps.hello.  `start_process(name, *flags)` runs
`python -m aserve` on an app of harness/apps.py.  `raw_client(server)` is a blocking socket.

A test with `start_server` runs once for each way of serving (event loop, parser, lane); with
the marker `also_inline` once more with --threads 0, with `c_and_python` once more with the second
--native, if C is built.  A server on an https:// bind is met by `raw_client` in TLS; `pytest --over-tls tests/e2e` has `start_server` serve all over TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import logging
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import pytest_asyncio.plugin
from harness import apps, children, faults, native, side_by_side
from harness.certificates import HAS_OPENSSL, Authority, Issued
from harness.client import RawClient, TLSClient
from harness.interpreter import IS_PYPY, LOOP_KINDS, has_module, new_loop
from harness.manager import Manager
from harness.over_http2 import NOT_OVER_HTTP2
from harness.pebble import Pebble
from harness.process import ServerProcess
from harness.running import RunningServer
from harness.stores import SERVERS, StoreServer
from harness.waiting import wait_until
from harness.workers import Workers

from aserve.command import serving, start_notes
from aserve.core import forks, log_target
from aserve.lifecycle import exits
from aserve.lifecycle.signals import STARTING, early
from aserve.protocols import PROTOCOLS

TESTS = pathlib.Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of our own."""
    parser.addoption("--over-tls", action="store_true", help="what start_server starts is served over TLS")
    parser.addoption("--part", choices=["measured", "others"], help="the tests that count for floors.py, or all others")
    parser.addoption("--children", type=int, metavar="N", help="run the tests in N processes, which this one forks")
    parser.addoption("--repeat", type=int, default=1, metavar="N", help="with --children: run each test N times")
    parser.addoption("--brief", action="store_true", help="without tests marked long, and on PyPy long_on_pypy")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the e2e tests, and the needs of --children and -n."""
    side_by_side.configure(config)
    children.configure(config)
    native.change_default()
    # Without bytecode, each server started by a test would compile the package, for 0.3 s of CPU.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Servers of tests would have a control socket there.
    os.environ.pop("XDG_RUNTIME_DIR", None)
    os.environ.pop("RUNTIME_DIRECTORY", None)
    config.addinivalue_line("markers", "also_inline: run it with --threads 0, too")
    config.addinivalue_line(
        "markers", "c_and_python: run it with plain requests in C, and in Python; see harness/native.py"
    )
    config.addinivalue_line("markers", "also_http2: run it over HTTP/2, too; see harness/over_http2.py")
    config.addinivalue_line("markers", "both_loops: a coroutine that runs on asyncio's event loop and on uvloop's")
    config.addinivalue_line("markers", "any_parser: the parser does not matter here")
    config.addinivalue_line("markers", "one_way: the event loop and the parser do not matter here")
    config.addinivalue_line(
        "markers", "long: `make test-whole` runs it, and not `make test`: it takes too long for what it guards"
    )
    config.addinivalue_line("markers", "long_on_pypy: the same on PyPy alone: CPython's run sees what it guards")
    config.addinivalue_line("markers", "plain: it is about HTTP without TLS; not with --over-tls")
    config.addinivalue_line(
        "markers", "provokes(line): it logs a fault on purpose, in a line that matches; see harness/faults.py"
    )
    config.addinivalue_line("markers", "rule(clause): what a clause asks and what we do; see harness/rules.py")


# Code reached by these tests alone is not covered by the file of the same name.
NOT_MEASURED = tuple(f"{TESTS / folder}/" for folder in ("cluster", "cparsers", "e2e", "fuzz"))
# Nor is a test with this marker.
ELSEWHERE = "checkout"


def is_measured(item: pytest.Item) -> bool:
    """Whether a test counts for the floors of coverage; `make test` runs each test in either part, on CPython."""
    if item.get_closest_marker(ELSEWHERE):
        return False
    return not str(item.path).startswith(NOT_MEASURED)


def left_out_by(config: pytest.Config) -> tuple[str, ...]:
    """Return the markers of tests left out by --brief."""
    if not config.getoption("--brief"):
        return ()
    return ("long", "long_on_pypy") if IS_PYPY else ("long",)


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Read only files with a test asked for: to read all takes 20 s."""
    part, is_below = config.getoption("--part"), f"{collection_path}/".startswith(NOT_MEASURED)
    if part == "measured" and is_below:
        return True
    if not collection_path.name.startswith("test_") or not collection_path.is_file():
        return None
    text = collection_path.read_text()
    if part == "others" and not is_below and f"mark.{ELSEWHERE}" not in text:
        return True
    whole_file = re.search(r"^pytestmark = (?:\[\n(?: .*\n)+\]|.*)", text, re.MULTILINE)
    marks = re.findall(r"mark\.(\w+)", whole_file[0]) if whole_file is not None else ()
    return True if set(left_out_by(config)).intersection(marks) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of another part, not for a brief run, or impossible over TLS."""
    part, left_out = config.getoption("--part"), left_out_by(config)
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_here = part is None or is_measured(item) == (part == "measured")
        is_left_out = any(item.get_closest_marker(name) for name in left_out)
        (kept if is_here and not is_left_out else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept * config.getoption("--repeat")
    if config.getoption("--over-tls"):
        for item in items:
            if item.get_closest_marker("plain"):
                item.add_marker(pytest.mark.skip(reason="it is about HTTP without TLS"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """
    Keep the garbage collector from looking at collected tests: 10,000 objects with a life to the end.

    During the collection the collector would look at the tests again and again; later, for 0.3 s at each gc.collect() of a test.
    """
    if not hasattr(gc, "freeze"):  # as on PyPy
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


# Event loops of tests written as coroutines: pytest-asyncio's, asyncio's or uvloop's


def loop_kinds_of(item: Any) -> list[str]:
    """Return the kinds of event loops for a test."""
    return LOOP_KINDS if item.get_closest_marker("both_loops") else LOOP_KINDS[:1]


if hasattr(pytest_asyncio.plugin, "PytestAsyncioSpecs"):

    def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        return {kind: functools.partial(new_loop, kind) for kind in loop_kinds_of(item)}

else:  # before 1.4; 1.2 is the last for Python 3.9: by a policy
    asyncio.set_event_loop(None)  # or a loop closed by nobody would be made, only to be put back

    class LoopPolicy(asyncio.DefaultEventLoopPolicy):
        """Make loops of a kind."""

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
    """Return the patterns of the faults provoked on purpose by a test."""
    return tuple(pattern for marker in item.iter_markers("provokes") for pattern in marker.args)


@pytest.fixture(autouse=True)
def fault_watch(request: pytest.FixtureRequest) -> Iterator[faults.Watch]:
    """Fail a test with a fault logged by an event loop, or by aserve."""
    watch = faults.Watch()
    logging.getLogger().addHandler(watch)
    yield watch
    logging.getLogger().removeHandler(watch)
    text = watch.text(provoked_by(request.node))
    assert not text, f"logged while the test ran:\n{text}"


@pytest.fixture(scope="session", autouse=True)
def lasting() -> Iterator[None]:
    """Keep the command from ending this process: earlier tests may have left something running."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exits, "bound_exit", lambda status: None)
        yield


@pytest.fixture(autouse=True)
def living() -> Iterator[None]:
    """Put back signal handlers, and standard output for a log, replaced by a test or by the command in this process."""
    before = {number: signal.getsignal(number) for number in STARTING}
    yield
    forks.disown_all_handlers()
    log_target._kept.clear()
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)
    early.wait()
    early.came.clear()


@pytest.fixture
def need_python_of_all() -> None:
    """Skip the test where root alone can read this Python, as under pyenv in root's folder."""
    user = pwd.getpwnam("nobody")
    command, ids = [sys.executable, "-I", "-c", "import aserve, acme"], {"user": user.pw_uid, "group": user.pw_gid}
    try:
        subprocess.run(command, check=True, capture_output=True, extra_groups=[], **ids)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this Python cannot be run by others than root")


@pytest.fixture
def open_folder() -> Iterator[pathlib.Path]:
    """Make a folder readable for all users. Not pytest's: the next pytest closes those folders again."""
    with tempfile.TemporaryDirectory(prefix="aserve-test-") as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """All temporary files made; the files are closed in the end."""
    made = []
    real = tempfile.TemporaryFile

    def make(**options: Any) -> Any:
        made.append(real(**options))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", make)
    yield made
    assert all(file.closed for file in made), "a file was left open"


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Nothing is freed but by reference count, and finalizers of earlier tests' garbage do not run."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def plain_collector() -> None:
    """Take away the callback of Hypothesis in the garbage collector: a RequestTimeout raised inside is lost."""
    if hasattr(gc, "callbacks"):  # PyPy has none
        gc.callbacks.clear()


# Ways of serving


class Way(NamedTuple):
    """A combination of choices of a user, without a difference to see."""

    loop: str
    http_parser: str
    threads: int = 8
    lane: str = "off"
    native: str = native.DEFAULT
    wire: str = "http/1.1"


# The combinations of weight, not all: each loop and parser, with and without threads and lane.
if has_module("uvloop"):
    WAYS = [Way("uvloop", "c", lane="auto"), Way("uvloop", "c"), Way("asyncio", "c"), Way("uvloop", "httptools")]
    INLINE_WAYS = [Way("uvloop", "c", 0, "auto"), Way("asyncio", "c", 0)]
    # Each value is also in another way: in the brief run, unit tests alone have these.
    LONG_WAYS = (Way("uvloop", "c"), Way("asyncio", "c", 0))
else:
    WAYS = [Way("asyncio", "c", lane="auto"), Way("asyncio", "c")]
    if has_module("httptools"):
        WAYS.append(Way("asyncio", "httptools"))
    INLINE_WAYS = [Way("asyncio", "c", 0, "auto")]  # the second is CPython's
    LONG_WAYS = ()


def name_of(way: Way) -> str:
    return "-".join(map(str, way[:-1] if way.wire == "http/1.1" else way)).replace("/", "")


def is_long(way: Way) -> bool:
    """Whether each value is in another way, too: HTTP/2 with --threads 0 as well (tests/e2e/test_http2.py has both in each run)."""
    return way in LONG_WAYS or (way.wire == "http/2" and way.threads == 0)


def http2_ways(function: str, markers: set[str]) -> list[Way]:
    """Return the ways of HTTP/2 for a test: with threads, in the lane and on the event loop, and without threads."""
    if "also_http2" not in markers or function in NOT_OVER_HTTP2 or not has_module("h2"):
        return []
    found = [
        WAYS[-2 if has_module("httptools") else -1]._replace(lane="off", wire="http/2"),
        WAYS[0]._replace(wire="http/2"),
    ]
    return found + [INLINE_WAYS[-1]._replace(lane="off", wire="http/2")] if "also_inline" in markers else found


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
        if "c_and_python" in markers and native.IS_BUILT:
            ways = [*ways, WAYS[0]._replace(native=native.OTHER)]
        ways = [*ways, *http2_ways(metafunc.function.__name__, markers)]
        is_brief = str(metafunc.definition.path).startswith(NOT_MEASURED)
        marks = [pytest.mark.long if is_brief and is_long(way) else () for way in ways]
        rows = [pytest.param(way, marks=mark, id=name_of(way)) for way, mark in zip(ways, marks)]
        metafunc.parametrize("way", rows)


# Servers


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if not HAS_OPENSSL:
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def localhost(authority: Authority) -> Issued:
    """Return the certificate and key of localhost."""
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def tls_settings(authority: Authority, localhost: Issued) -> dict[str, Any]:
    """Return the settings for start_server to serve over TLS."""
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
        settings.setdefault("native", way.native)
        if (request.config.getoption("--over-tls") or way.wire == "http/2") and "bind" not in settings:
            settings.update(request.getfixturevalue("tls_settings"))
        if way.wire == "http/2":
            settings.setdefault("http2", "auto")
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


def end_all(running: Sequence[ServerProcess], node: Any) -> None:
    """End servers; none has a fault unless provoked by the test."""
    for process in running:
        process.end()
    for process in running:
        text = process.faults(provoked_by(node))
        assert not text, f"the server's standard error has:\n{text}"


@pytest.fixture
def start_process(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    """Start servers: start_process(app, *flags, launcher=(), fds=(), **env) -> ServerProcess; app: a name in harness/apps.py, or a spec."""
    running: list[ServerProcess] = []

    def start(app: str, *flags: str, launcher: Any = (), fds: Any = (), **env: str) -> ServerProcess:
        spec = app if ":" in app else f"{TESTS / 'harness/apps.py'}:{app}"
        process = ServerProcess([spec, *flags], tmp_path, env, launcher, fds)
        running.append(process)
        return process

    yield start
    end_all(running, request.node)


@pytest.fixture
def start_workers(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    """Start supervisors: start_workers(*flags, app="one", kind=Workers) -> the workers; app: a version, or a source."""
    running: list[Workers] = []

    def start(*flags: str, app: str = "one", kind: type[Workers] = Workers, **env: str) -> Workers:
        running.append(kind(tmp_path, app, *flags, **env))
        return running[-1]

    yield start
    end_all(running, request.node)


@pytest.fixture
def store_server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    """Return a Redis for the test alone, or the store named by `parametrize` with indirect=True: shared by hosts."""
    if not SERVERS:
        pytest.skip("neither redis-server nor valkey-server is installed")
    server = StoreServer(getattr(request, "param", SERVERS[0]))
    yield server
    server.end()


@pytest.fixture
def pebble(authority: Authority, tmp_path: pathlib.Path) -> Iterator[Pebble]:
    """Return an ACME authority of the test's own."""
    made = Pebble(tmp_path / "pebble", authority)
    yield made
    made.end()


@pytest.fixture
def manager(tmp_path: pathlib.Path) -> Iterator[Manager]:
    """A service manager that hears notifications."""
    with contextlib.closing(Manager(tmp_path / "notify")) as manager:
        yield manager


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., Any]:
    return wait_until


# Clients


@pytest.fixture
def raw_client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Connect: raw_client(server or address, receive_buffer_bytes=None) -> RawClient, a TLSClient, or an HTTP2Client."""
    clients: list[RawClient] = []
    way = request.getfixturevalue("way") if "way" in request.fixturenames else None

    def connect(server: Any, receive_buffer_bytes: int | None = None, **options: Any) -> RawClient:
        is_tls = getattr(server, "url", "").startswith("https:")
        kind: Any = TLSClient if is_tls else RawClient
        if way is not None and way.wire == "http/2":
            kind = importlib.import_module("harness.http2_client").HTTP2Client
        client = kind(getattr(server, "address", server), receive_buffer_bytes, **options)
        clients.append(client)
        if isinstance(server, RunningServer):
            server.clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The calls to the server, never run, in a folder with hello.py.

    Changes of the command to this process are put back.
    """
    calls = []
    # Not at the top, where `aserve` alone would find the app and say so.
    (tmp_path / "hello.py").write_text(
        "if True:\n    def app(environ, start_response):\n        start_response('200 OK', [])\n        return []\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [
        name for name in os.environ if name.startswith("ASERVE_") or name in ("PORT", "WEB_CONCURRENCY", "LISTEN_FDS")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(serving, "run_server", lambda app, config, *_: calls.append((app, config)) or 0)
    monkeypatch.setattr(start_notes, "is_root", lambda: False)
    logger = logging.getLogger("aserve")
    before = logger.handlers[:], logger.level, logger.propagate
    yield calls
    logger.handlers[:], logger.level, logger.propagate = before
    sys.modules.pop("hello", None)
