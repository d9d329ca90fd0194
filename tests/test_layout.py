"""The plan of the house: the allowed imports, and each file beside a test.

The table of rooms is the plan itself. When the code teaches better, change the table, with the reason in the commit.
"""

import ast
import pathlib
import re
import subprocess
import sys

import pytest
from harness.interpreter import ONCE
from harness.modules import MODULES, PACKAGE, ROOT, all_imports, tree_of

pytestmark = [pytest.mark.checkout, ONCE]

TESTS = ROOT / "tests"

# The rooms, from the ground up: folders of the package. A module belongs to the innermost folder with a row, and imports from this row and the rows
# below. No import leads back to the importing module.
ROOMS = (
    "_cparsers _native core",  # shared by all
    "settings",
    "rpc tls workers",  # none of these knows a connection
    "wsgi",
    "protocols proxies",
    "connections",
    "connections.loop",
    "connections.accepting",
    "connections.lane",
    "connections.drain connections.monitoring",
    "lifecycle",  # one process, and the state of processes
    "extension",
    "features compat.moving compat.routes compat.uwsgi_api",
    "server",  # serving by one process
    "processes.fleet",  # and several
    "processes.children",
    "processes.programs processes.transfers",
    "processes.monitoring",
    "processes.worker processes.upgrade",
    "processes",
    "command compat contrib demo __main__ aserve",  # where a process begins: the command, a framework's, an ini file, an app's import
)
ROWS = {room: number for number, rooms in enumerate(ROOMS) for room in rooms.split()}
# Modules known to only some rooms: the lowest row, by one of the rooms, and modules elsewhere with reasons.
RESERVED = {
    "asyncio": (
        "connections",
        {
            "workers.executor": "hands responses back with the loop's own call_soon_threadsafe",
            "workers.time_slices": "the loop looks whether they move",
            "workers.inline": "hides from the app that a loop runs",
            "workers.stopping": "the loop waits for them without blocking",
            "rpc.client": "one of its two clients is asyncio's",
            "features.metrics.app": "the loop waits for a thread that reads what the app counts",
            "features.metrics.single": "its answers are given on the loop",
            "features.control.top_screen": "a program of its own, with the loop of its screen",
            "features.http2.intake": "names the types of a loop and a transport",
            "features.http2.lingering": "names the type of a transport",
            "features.http2.session": "it is the protocol of a transport",
            "features.http2.stream": "to a wire it is a transport",
            "features.http2.turns": "names the type of a loop",
            "wsgi.finalizers": "asks whether a loop runs in this thread",
        },
    ),
    "threading": (
        "command",
        {
            "workers.threads": "the threads are its",
            "workers.executor": "workers sleep in it",
            "core.forks": "asks which thread forks",
            "core.budgets": "workers and the loop count in it",
            "connections.loop.pump": "has a thread of its own",
            "workers.time_slices": "workers wait in it",
            "features.access_log.log": "workers and the loop write it",
            "core.ends": "one thread at a time tells of ends",
            "features.slow_requests.watch": "workers tell it of ends; with --threads 0 it looks from a thread",
            "features.metrics.counting": "workers and the loop count at the same time",
            "features.metrics.gil": "a thread of its own waits for the GIL",
            "features.maintenance": "a thread of its own looks at a file",
            "features.https.network": "a thread reads an answer, and another one looks at the clock",
            "features.https.renewal": "a thread of its own looks what is due",
            "features.access_log.log_values": "asks for the names of workers",
            "wsgi.timing": "asks which of them it is in",
            "core.body": "a live body's reader waits for octets",
            "core.spool": "the app's thread writes while the loop reads",
            "wsgi.finalizers": "asks whether this thread begins",
            "wsgi.response": "a second thread of the app may send pieces of it, too",
            "connections.loop.websocket_request": "a worker meets the event loop there",
            "connections.lane.handover": "a worker waits there while its connection leaves the lane",
            "connections.connection": "a worker meets the event loop there",
            "connections.loop.outbox": "a worker waits there for room, and the loop wakes it",
            "connections.monitoring.stacks": "asks for their names",
            "server.running": "asks whether it runs on the main thread, the only one with signals",
            "rpc.registry": "functions are registered from any thread",
            "lifecycle.exits": "tells of threads that keep the process, and a timer ends it",
            "workers.interrupt": "one of them takes an exception back",
            "wsgi.deadlines": "asks which of them it is in",
            "demo": "shows the name of its worker",
            "processes.worker.opened": "asks which of them the app has started",
            "features.sharing.leases": "a thread renews them",
            "features.sharing.store": "a thread waits until it is back",
            "compat.moving.gunicorn_logger": "subclasses of gunicorn's Logger find a lock there",
            "compat.uwsgi_api.locks": "a thread stands before the others of its process",
            "compat.uwsgi_api.signals": "each run of a signal has a thread",
            "compat.uwsgi_api.wake": "a thread waits for another",
            "compat.uwsgi_api.request": "each has the request that it serves",
            "compat.uwsgi_api.harakiri": "a thread looks at the limits of others",
            "compat.uwsgi_api.websocket": "two threads may send",
            "compat.uwsgi_api.tallies": "workers and the loop count at the same time",
            "compat.uwsgi_api.decorators": "@thread starts one",
        },
    ),
}
# Imports inside functions: optional dependencies, each at one door, and a slow module.
DOORS = {
    ("server.running", "uvloop"),
    ("command.completion", "shtab"),
    ("features.control", "features.control.top_screen"),  # textual is known here
    ("features.http2", "features.http2.session"),  # only where a listener speaks it
    ("features.https", "features.https.hosts"),  # this and the next know redis
    ("features.https.order", "features.https.hosts"),
    ("features.https", "features.https.provide"),  # this and the next: processes, and dates, only with --https
    ("features.https", "features.https.renewal"),
    ("features.https", "features.https.status"),
    ("features.files.settings", "features.files.compressors"),  # knows the libraries
    ("compat.uwsgi_api", "compat.uwsgi_api.request"),
    ("compat.uwsgi_api", "compat.uwsgi_api.spooler.queues"),
    ("compat.uwsgi_api", "compat.uwsgi_api.module"),
    ("compat.uwsgi_api", "compat.uwsgi_api.memory"),
    ("compat.uwsgi_api", "compat.uwsgi_api.supervising"),
    ("compat.uwsgi_api", "compat.uwsgi_api.mules.post"),
    ("compat.uwsgi_api.mules", "compat.uwsgi_api.mules.post"),
    ("compat.uwsgi_api.mules", "compat.uwsgi_api.mules.supervising"),
    ("compat.uwsgi_api.mules", "compat.uwsgi_api.jobs"),
    ("compat.uwsgi_api.spooler", "compat.uwsgi_api.jobs"),
    ("compat.uwsgi_api.spooler.supervising", "compat.uwsgi_api.spooler.pages"),
    ("compat.uwsgi_api.memory", "compat.uwsgi_api.hosts"),  # this and the next know redis
    ("compat.uwsgi_api.module", "compat.uwsgi_api.spooler.queues"),
    # This and the next three: 0.9 MB of each process, and some 13 ms of the start.
    ("compat.moving", "compat.moving.translate"),
    ("features.control", "features.control.ask"),
    ("features.control", "features.control.supervising"),
    # These: 4 MB of each process, rarely asked for.
    ("command.start", "command.as_child"),
    ("command.start", "command.with_workers"),
    ("command.serving", "command.with_workers"),
    ("command.serving", "command.alone"),
    # These: a millisecond each of a start, for what serves nothing, or not an app.
    ("command.cli", "compat.gunicorn.python"),
    ("command.subcommands", "command.explain"),
    ("command.subcommands", "command.init"),
    ("command.subcommands", "command.pages"),
    ("command.showing", "command.completion"),
    ("command.showing", "command.finding"),
    ("command.apps", "demo"),
    ("command.apps", "protocols.httptools1"),
    ("features.access_log", "features.access_log.log"),
    ("features.metrics", "features.metrics.app"),
    ("features.metrics", "features.metrics.app_files"),
    ("features.metrics", "features.metrics.counting"),
    ("features.metrics", "features.metrics.gil"),
    ("features.metrics", "features.metrics.scrapes"),
    ("features.metrics", "features.metrics.several"),
    ("features.metrics", "features.metrics.single"),
    ("features.slow_requests", "features.slow_requests.watch"),
    ("core.near_names", "difflib"),
    ("settings.values", "dataclasses"),
    ("compat.routes.guards", "hmac"),
    ("settings.toml", "tomllib"),
    ("settings.toml", "tomli"),
    ("tls.certificates", "tls.validity"),
    ("server.shielding", "anyio"),
    ("lifecycle.logs", "logging.config"),
    ("lifecycle.loading", "configparser"),
    ("lifecycle.loading", "logging.config"),
    ("protocols", "protocols.httptools1"),
    ("features.files", "features.files.compressing"),
    ("features.files", "features.files.static"),
    ("features.files", "features.files.x_sendfile"),
    ("compat.moving.origin", "compat.moving.gunicorn"),
    ("compat.moving.gunicorn", "compat.moving.gunicorn_logs"),
    ("compat.moving.gunicorn_stand_in", "compat.moving.gunicorn_logger"),
    ("compat.moving.origin", "compat.moving.gunicorn_programs"),
    ("command.plans", "compat.moving.origin"),
    ("command.flags", "compat.moving.foreign_flags"),
    ("compat.moving.origin", "compat.moving.uwsgi"),
    ("compat.moving.uwsgi_files", "xml.etree.ElementTree"),
    ("features.tracing", "opentelemetry"),
    ("features.tracing", "opentelemetry.trace"),
    ("features.tracing", "opentelemetry.trace.propagation.tracecontext"),
    ("features.metrics.app", "prometheus_client"),
    ("processes.worker.reloading", "watchfiles"),
    ("features.metrics.app", "prometheus_client.multiprocess"),
    ("lifecycle.arenas", "ctypes"),
    ("workers.interrupt", "ctypes"),
    ("workers.interrupt", "__pypy__.thread"),
}
# Foreign modules brought by these, and by nobody else.
HEAVY = {
    "anyio", "configparser", "dataclasses", "datetime", "difflib", "email.utils", "hashlib", "hmac", "html", "httptools", "importlib.metadata", "logging.config",
    "mimetypes", "platform", "tomli", "tomllib", "typing_extensions",
}  # fmt: skip
TESTS_OF_NO_ONE_FILE = {
    "bench_profile", "bench_report", "bench_shares", "bench_suites", "bench_tls", "benchmarks", "chaos_client",
    "children", "docs", "faults", "layout", "measures", "pebble", "setup", "simulate_scale", "site", "whole",
    "within",
}  # fmt: skip


def row_of(name: str) -> int:
    """Return the number of the row of a module's innermost room."""
    room = name or "aserve"
    while room not in ROWS:
        room, dot, _ = room.rpartition(".")
        assert dot, f"{name} is in no room of tests/test_layout.py"
    return ROWS[room]


def test_imports_point_down():
    """A module imports from rooms of the same row and of the rows below; wire protocols do not import each other, nor do features, but for the part
    shared by hosts.
    """
    up = {
        (name, found.name): found.line
        for name, found in all_imports()
        if found.is_ours and row_of(found.name) > row_of(name)
    }
    assert up == {}
    wires = {"http1", "httptools1", "scgi", "uwsgi"}
    for name, found in all_imports():
        assert not {name, found.name} <= {f"protocols.{wire}" for wire in wires}, f"{MODULES[name]}:{found.line}"
        one, other = feature_of(name), feature_of(found.name if found.is_ours else "")
        assert not one or other in ("", "sharing", one), f"{MODULES[name]}:{found.line}: features import one another"


def feature_of(name: str) -> str:
    """Return the feature of a module; "": none, or the list of all."""
    return name.split(".")[1] if "." in name and row_of(name) == ROWS["features"] else ""


def test_no_import_leads_back():
    """A needed module does not need the importing module; types apart."""
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, found in all_imports():
        if found.is_ours and not found.is_typing and found.name in MODULES and found.name not in name_and_above(name):
            graph[name].add(found.name)
    graph["compat.moving"].discard(
        "compat.moving.translate"
    )  # the command behind this door knows the settings of all features
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"{' -> '.join([*way[way.index(name) :], name])}"
        if name not in done:
            for below in graph[name]:
                visit(below, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def name_and_above(name: str) -> set[str]:
    """Return the names of the packages around a module: each is begun when the module is read."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(len(parts))}


def test_reserved_modules_stay_where_planned():
    """asyncio, threading and _cparsers are known only at the places of the plan."""
    for name, found in all_imports():
        where = f"{MODULES[name]}:{found.line} imports {found.name}"
        if found.is_ours and found.name == "_cparsers":
            assert name.startswith("protocols.") or name in (
                "connections.in_flight", "connections.lane.lane", "connections.lane.lane_memory",
                "connections.load_board", "connections.lane.native", "connections.loop.pump",
                "connections.shared_memory", "connections.lane.wire_fast", "connections.lane.handover",
                "connections.drain.detaching", "core.forks", "lifecycle.signals", "processes.supervisor",
                "processes.programs.programs", "tls.sessions", "connections.lane.availability",
            ), where  # which do I/O in C  # fmt: skip
        elif not found.is_ours and found.name.split(".")[0] in RESERVED:
            lowest, exceptions = RESERVED[found.name.split(".")[0]]
            is_above = row_of(name) >= row_of(lowest) and row_of(name) != ROWS["features"]  # features run in workers
            assert is_above or name in exceptions, where


def test_the_supervisor_may_fork():
    """Only a worker has an event loop: a fork keeps neither loops nor threads whole; a mold asks whether the app has threads."""
    for name, found in all_imports():
        if name.startswith("processes.") and name not in (
            "processes.worker.worker",
            "processes.transfers.idle_connections",
            "processes.worker.opened",
            "processes.transfers.passing",
            "processes.worker.reloading",
        ):
            assert found.is_ours or found.name.split(".")[0] not in ("asyncio", "threading", "uvloop"), name


def test_imports_are_at_the_top():
    """The needs of a module are seen at the top."""
    for name, found in all_imports():
        if found.is_inside:
            assert (name, found.name) in DOORS, f"{MODULES[name]}:{found.line}: {found.name}"


def test_what_is_behind_a_door_waits_there():
    """The command imports nothing behind a door before somebody asks."""
    ours = {f"aserve.{name}" for _, name in DOORS if name in MODULES}
    # From Python 3.14 on, asyncio imports dataclasses by itself.
    code = (
        "import sys, asyncio; before = set(sys.modules); import aserve.command.cli; "
        f"print(*(sys.modules.keys() - before) & {ours | HEAVY!r})"
    )
    done = subprocess.run([sys.executable, "-Ic", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# The last two: a program of the user's is in the place of the command.
EDGE = {"command.cli", "command.plans", "command.apps", "compat.gunicorn.serving", "compat.gunicorn.python"}


def test_the_process_is_read_at_the_edge():
    """os.environ and sys.argv are read by the command, not by a server in a foreign program; systemd's words, by both."""
    edges = {("os", "environ"), ("os", "getenv"), ("sys", "argv")}
    for name in MODULES.keys() - {*EDGE, "core.systemd"}:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in edges, f"{MODULES[name]}:{node.lineno}"
            if isinstance(node, ast.ImportFrom):
                assert not edges & {(node.module, alias.name) for alias in node.names}, f"{MODULES[name]}:{node.lineno}"


def test_octets_go_to_c_by_offset():
    """PyPy's from_buffer() copies, and keeps the copy until a run of the collector, without a count of the size."""
    for name, path in MODULES.items():
        assert not name.startswith("protocols.") or "from_buffer" not in re.sub(r"#.*", "", path.read_text()), path


def mirrored(source_folder: pathlib.Path, test_folder: pathlib.Path) -> tuple[set[str], set[str]]:
    """Return the names of the sources in a folder, and of the tests."""
    sources = {path.stem for path in source_folder.glob("*.py") if path.stem[:2] != "__"}
    return sources, {path.stem.removeprefix("test_") for path in test_folder.glob("test_*.py")}


FOLDERS = sorted(
    {"/".join(path.relative_to(PACKAGE).parts[:-1]) for path in MODULES.values()}
    - {"contrib/django", "contrib/django/management", "contrib/django/management/commands"}
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_source_has_its_tests(folder):
    """
    Each source file has a test file of that name, and each test file a source.

    Tests of a source for more than a file are cut by behaviour: test_executor.py is
    the first, test_executor_stop.py the next in a listing.
    """
    sources, tests = mirrored(PACKAGE / folder, TESTS / folder)
    assert sources - tests == set(), "sources without a test file"
    further = {test for test in tests for source in sources if test.startswith(f"{source}_")}
    folders = {path.name for path in (PACKAGE / folder).iterdir() if path.is_dir()}  # folders with an __init__
    assert tests - sources - further - folders - TESTS_OF_NO_ONE_FILE == set(), "test files without a source"


def test_files_of_tests_are_short():
    """A behaviour is found by the name of a file, so no file has all the tests of a large module."""
    long = {path for path in TESTS.rglob("*.py") if len(path.read_text().splitlines()) > 600}
    assert long == set()


def test_long_files_say_why():
    """A source of more than 400 lines has the reason in the docstring, or in the first comment."""
    sources = [path for room in ("aserve", "cparsers", "native") for path in (ROOT / room).rglob("*.*")]
    texts = {path: path.read_text() for path in sources if path.suffix in (".py", ".c", ".h")}
    long = {path: text for path, text in texts.items() if text.count("\n") > 400}
    first = {path: re.split(r"^(?:from|import|#)", text, maxsplit=1, flags=re.M)[0] for path, text in long.items()}
    why = re.compile(r"\b(?:Long|Longer|A long|is long)\b")
    assert len(first) > 10 and [path for path, words in first.items() if not why.search(words)] == []


def test_every_exception_is_needed():
    """An exception without need is taken back."""
    needed = {(name, found.name.split(".")[0]) for name, found in all_imports() if not found.is_ours}
    for module, (_, exceptions) in RESERVED.items():
        for name in exceptions:
            assert name in MODULES and (name, module) in needed, f"{name} and {module}"


def test_no_text_names_the_other_project():
    """On the package index, `aserve` is somebody else's: ours is aserve-wsgi."""
    other = re.compile(r"pip3? install (-U |--upgrade )?['\"]?aserve(?!-wsgi)")
    texts = [*ROOT.glob("*.*"), *(ROOT / "docs").rglob("*.*"), *MODULES.values()]
    for path in texts:
        if path.suffix in (".md", ".py", ".toml"):
            assert not other.search(path.read_text()), path
