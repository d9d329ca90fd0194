"""The plan of the house: who may know whom, and each file beside its test.

The table of floors is the plan itself.  When the code teaches better, change the
table, with the reason in the commit.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "aserve"
TESTS = ROOT / "tests"

# From the ground up. A module imports only from floors below its own; its types may come from its own floor.
FLOORS = (
    "accounts errors descriptors episode escaping footprint frames http_date json_text local_time log_once log_pipe near_names shielding systemd _cparsers _native",
    "forks lacking manager misnamed arenas standard_streams start_folder log_target",  # manager: what systemd is told, and when
    "error_log",
    "settings",
    "budgets",  # of memory, disk and descriptors, which bodies take
    "exchange body spool tls loading demo surroundings",
    "hooks logs request_log",  # hooks: which the app gives
    "workers rpc log_values wire_log",
    "log_format switch_interval",
    "line_program",
    "access_log",  # none of which knows a connection, or WSGI
    "wsgi",
    "mounts",
    "fault_page",  # between the app and the gateway
    "proxies",  # stand before the gateway of wsgi
    "protocols",
    "connections",
    "extension",
    "features",
    "failing signals stacks statistics services privileges pid_file fd_store",  # statistics looks at all of them
    "exits metrics slow_requests stalls titles",  # metrics: counts what statistics knows
    "records",  # what a server keeps of its requests: log and counters
    "server",
    "running",  # run() makes the loop that a server runs on
    "sharing",
    "spooler",
    "processes",  # each worker runs a server
    "alone top",
    "top_screen",
    "uwsgi_api",  # below `import uwsgi`
    "compat moving",
    "banner completion explain finding",
    "flags",
    "with_workers",
    "cli",
    "aserve __main__",
    "contrib",  # of frameworks, which find it
)
# The floors inside a package, from the ground up; its own __init__ is on top of them.
WITHIN = {
    "settings": (
        "peer bind platform log_line secrecy",
        "crontab",
        "kinds",
        "caches commands files shared",
        "paths",
        "table",
        "toml",
    ),
    "rpc": ("errors", "packets", "registry client"),
    "tls": ("certificates client_hello",),
    "workers": ("cpu interrupt queue_wait threads", "time_slices", "executor inline", "stopping"),
    "wsgi": (
        "environ head returned",
        "response",
        "begun",
        "gateway",
        "wrapping",
        "rpc_calls deadlines timing request_id",
    ),
    "proxies": ("peers", "forwarded proxy_protocol", "trust"),
    "protocols": ("refused_head underscores", "base", "one_request chunked", "http1 httptools1 scgi uwsgi"),
    "connections": (
        "addresses",
        "states data_rate sender listeners shared_memory health",
        "sendfile",
        "load_board",
        "in_flight limit listen_queue",
        "lane_memory",
        "service",
        "plain",  # what stands before the app, for C
        "connection streams pump",  # know no wire
        "writing",  # the event loop's half of a wire
        "large_bodies",
        "sending",  # the workers' half
        "ending",
        "timeouts websockets",
        "offered",
        "websocket",
        "upgrading",  # the way out of HTTP
        "wire_loop",
        "handover",
        "wire_fast",  # leads to the other wire
        "departed",  # looks at both wires
        "lane_log native",
        "lane greeting tls_transport",  # make connections
        "acceptor",  # lets in; its numbers are the lane's, too
        "detaching",  # lets go, from both wires
    ),
    "features": (
        "files.codings files.compressors files.conditions files.content_types files.opening files.ranges",
        "files.reply",
        "files.compressing files.static files.x_sendfile",
        "files queue_wait routes tracing turnover underscore_fields",
    ),
    "metrics": (
        "busy table",
        "advice app balance counting gil growth history stats statsd status text totals",
        "pages picture",
        "scrapes",
        "single",
    ),
    "processes": (
        "cgroups",
        "resources opened warming",
        "absences app_files ask backoff channel command control liveness memory_file plan recycling signal_pipe tally timers touched",
        "child rollout slots sources wishes",
        "children programs",
        "spoolers",
        "attached",
        "status",
        "overview",
        "reloading",
        "inheritance losses molds worker",  # the last is the child's side
        "mold trial",  # become workers
        "shutdown upgrade watch",
        "crew",
        "answers",
        "reloads",
        "failed_starts",
        "ends",
        "supervisor",
    ),
    "sharing": ("store", "leases"),
    "uwsgi_api": (
        "locks schedules wake",
        "caches handlers",
        "shared_caches shared_locks turns",
        "hosts",
        "memory",
        "signals",
        "functions",
        "decorators",
    ),
    "spooler": ("board folder", "queues", "runner", "functions"),
    "compat": ("paste uwsgi",),
    "moving": (
        "draft guests",
        "uwsgi_files uwsgi_values gunicorn_hooks",
        "uwsgi_cron",
        "uwsgi_logic uwsgi_table gunicorn_values",
        "uwsgi gunicorn_table",
        "gunicorn",
        "foreign_flags origin",
        "translate",
    ),
    "contrib": (
        "becoming",
        "django django.management django.management.commands",
        "django.app django.management.commands.runaserve flask",
    ),
}
# Modules that only some rooms may know: the lowest floor, and rooms below it with their reasons.
RESERVED = {
    "asyncio": (
        "connections",
        {
            "workers.executor": "hands responses back with the loop's own call_soon_threadsafe",
            "workers.time_slices": "the loop looks whether they move",
            "workers.inline": "hides from the app that a loop runs",
            "workers.stopping": "the loop waits for them without blocking",
            "rpc.client": "one of its two clients is asyncio's",
        },
    ),
    "threading": (
        "compat",
        {
            "workers.threads": "the threads are its",
            "workers.executor": "workers sleep in it",
            "forks": "asks which thread forks",
            "budgets": "workers and the loop count in it",
            "connections.pump": "has a thread of its own",
            "workers.time_slices": "workers wait in it",
            "access_log": "workers and the loop write it",
            "request_log": "one thread at a time tells of ends",
            "slow_requests": "workers tell it of ends; with --threads 0 it looks from a thread",
            "metrics.counting": "workers and the loop count at the same time",
            "metrics.gil": "a thread of its own waits for the GIL",
            "log_values": "asks for the names of workers",
            "wsgi.timing": "asks which of them it is in",
            "body": "a live body's reader waits for octets",
            "spool": "the app's thread writes while the loop reads",
            "wsgi.response": "a second thread of the app may send pieces of it, too",
            "connections.offered": "a worker meets the event loop there",
            "connections.handover": "a worker waits there while its connection leaves the lane",
            "connections.connection": "a worker meets the event loop there",
            "connections.sending": "a worker waits there for room",
            "connections.writing": "the loop wakes it",
            "stacks": "asks for their names",
            "running": "asks whether it runs on the main thread, the only one with signals",
            "rpc.registry": "functions are registered from any thread",
            "exits": "tells of threads that keep the process, and a timer ends it",
            "workers.interrupt": "one of them takes an exception back",
            "wsgi.deadlines": "asks which of them it is in",
            "demo": "shows the name of its worker",
            "processes.opened": "asks which of them the app has started",
            "sharing.leases": "a thread renews them",
            "sharing.store": "a thread waits until it is back",
            "uwsgi_api.locks": "a thread stands before the others of its process",
            "uwsgi_api.signals": "each run of a signal has a thread",
            "uwsgi_api.wake": "a thread waits for another",
            "uwsgi_api.decorators": "@thread starts one",
        },
    ),
}
# Imports inside functions: optional dependencies, each at one door, and one that is slow.
DOORS = {
    ("running", "uvloop"),
    ("banner", "importlib.metadata"),
    ("completion", "shtab"),
    ("cli", "top_screen"),  # which knows textual
    ("cli", "compat.uwsgi"),  # and all of uwsgi_api
    ("cli", "uwsgi_api.memory"),
    ("cli", "spooler.board"),
    ("cli", "spooler.functions"),
    ("cli", "spooler.runner"),
    ("processes.attached", "processes.spoolers"),
    ("uwsgi_api.memory", "uwsgi_api.hosts"),  # this and the next know redis
    ("compat.uwsgi", "spooler.queues"),
    ("cli", "moving.translate"),  # this and the next three: 0.9 MB of each process, and some 13 ms of its start
    # These: 4 MB of each process, for what most have not asked for.
    ("cli", "with_workers"),
    ("cli", "alone"),
    ("records", "access_log"),
    ("records", "metrics.counting"),
    ("records", "metrics.gil"),
    ("records", "metrics.single"),
    ("records", "slow_requests"),
    ("near_names", "difflib"),
    ("shielding", "anyio"),
    ("logs", "logging.config"),
    ("loading", "configparser"),
    ("loading", "logging.config"),
    ("protocols", "protocols.httptools1"),
    ("features.files", "features.files.compressing"),
    ("features.files", "features.files.static"),
    ("features.files", "features.files.x_sendfile"),
    ("moving.origin", "moving.gunicorn"),
    ("flags", "moving.foreign_flags"),
    ("moving.origin", "moving.uwsgi"),
    ("moving.uwsgi_files", "xml.etree.ElementTree"),
    ("features.tracing", "opentelemetry"),
    ("features.tracing", "opentelemetry.trace"),
    ("features.tracing", "opentelemetry.trace.propagation.tracecontext"),
    ("metrics.app", "prometheus_client"),
    ("processes.reloading", "watchfiles"),
    ("processes.worker", "processes.warming"),  # --warm-up
    ("metrics.app", "prometheus_client.multiprocess"),
    ("arenas", "ctypes"),
    ("workers.interrupt", "ctypes"),
    ("workers.interrupt", "__pypy__.thread"),
}
# What these bring with them that is not ours, and that nobody else may bring.
HEAVY = {
    "anyio", "configparser", "difflib", "email.utils", "html", "httptools", "logging.config", "mimetypes", "typing_extensions",
}  # fmt: skip
TESTS_OF_NO_ONE_FILE = {
    "bench_profile",
    "bench_report",
    "bench_shares",
    "bench_suites",
    "bench_tls",
    "benchmarks",
    "chaos_client",
    "docs",
    "faults",
    "layout",
    "measures",
    "setup",
    "simulate_scale",
    "whole",
}


class Import(NamedTuple):
    """One import statement's target; `name` is dotted, and relative to aserve if `is_ours`."""

    name: str
    is_ours: bool
    is_inside: bool  # a function
    is_typing: bool  # below `if TYPE_CHECKING`
    line: int


def module_name(path: pathlib.Path) -> str:
    """Return a source file's dotted name below aserve: "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def floor_of(name: str) -> tuple[int, int]:
    """Return the floor of a module in the house, and inside its package."""
    first, _, rest = (name or "aserve").partition(".")
    inside = WITHIN.get(first, ())
    return place_in(FLOORS, first), place_in(inside, rest) if rest else len(inside)


def place_in(floors: tuple[str, ...], name: str) -> int:
    """Return the number of the floor that a name stands on."""
    for number, names in enumerate(floors):
        if name in names.split():
            return number
    raise AssertionError(f"{name} has no floor in tests/test_layout.py")


@functools.cache
def tree_of(name: str) -> ast.Module:
    """Return a module's syntax; a rule is one test for all modules, as hundreds of cases took longer than what they ask."""
    return ast.parse(MODULES[name].read_text())


@functools.cache
def imports_of(name: str) -> list[Import]:
    """Return every import of a module, those of functions and of types included."""
    path = MODULES[name]
    parts = ["aserve", *filter(None, name.split("."))]
    folder = parts if path.name == "__init__.py" else parts[:-1]
    found: list[Import] = []

    def visit(node: ast.AST, is_inside: bool, is_typing: bool) -> None:
        for target in targets_of(node, folder):
            is_ours = target.split(".")[0] == "aserve"
            shown = target[len("aserve") :].lstrip(".") if is_ours else target
            found.append(Import(shown, is_ours, is_inside, is_typing, node.lineno))
        is_inside |= isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        is_typing |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.iter_child_nodes(node):
            visit(child, is_inside, is_typing)

    visit(tree_of(name), False, False)
    return found


def targets_of(node: ast.AST, folder: list[str]) -> list[str]:
    """Return the absolute names of the modules that one statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = folder[: len(folder) - node.level + 1] if node.level else []
    base = ".".join([*above, *filter(None, [node.module])])
    # `from . import http1` imports a module, `from .config import Config` does not.
    return [f"{base}.{alias.name}" if is_ours_below(base, alias.name) else base for alias in node.names]


def is_ours_below(base: str, name: str) -> bool:
    """Whether aserve's package `base` has a module of this name."""
    below = f"{base}.{name}"[len("aserve.") :]
    return base.split(".")[0] == "aserve" and (below in MODULES or below in ("_cparsers", "_native"))


@functools.cache
def all_imports() -> list[tuple[str, Import]]:
    """Return every import of every module; not at import, where each of the processes that pytest runs in would read the package."""
    return [(name, found) for name in MODULES for found in imports_of(name)]


def test_imports_point_down():
    """A module knows only modules on lower floors; the wire protocols do not know one another."""
    for name, found in all_imports():
        if not found.is_ours:
            continue
        below, own = floor_of(found.name), floor_of(name)
        allowed = below <= own if found.is_typing else below < own
        where = f"{MODULES[name]}:{found.line}"
        assert allowed, f"{where}: floor {own} imports {found.name} of floor {below}"


def test_reserved_modules():
    """asyncio, threading and _cparsers are known only where the plan says."""
    for name, found in all_imports():
        where = f"{MODULES[name]}:{found.line} imports {found.name}"
        if found.is_ours and found.name == "_cparsers":
            assert name.startswith("protocols.") or name in (
                "connections.in_flight",
                "connections.lane",
                "connections.lane_memory",
                "connections.load_board",
                "connections.native",
                "connections.pump",
                "connections.shared_memory",
                "connections.wire_fast",
                "connections.handover",
                "connections.detaching",
                "forks",
                "processes.molds",
                "processes.programs",
            ), where  # which do I/O in C
        elif not found.is_ours and found.name.split(".")[0] in RESERVED:
            lowest, exceptions = RESERVED[found.name.split(".")[0]]
            assert floor_of(name)[0] >= floor_of(lowest)[0] or name in exceptions, where


def test_the_supervisor_may_fork():
    """Only a worker has an event loop: a fork keeps neither that nor threads whole; a mold asks whether the app has threads."""
    for name, found in all_imports():
        if name.startswith("processes.") and name not in (
            "processes.worker",
            "processes.opened",
            "processes.reloading",
        ):
            assert found.is_ours or found.name.split(".")[0] not in ("asyncio", "threading", "uvloop"), name


def test_imports_are_at_the_top():
    """What a module needs is seen at its top."""
    for name, found in all_imports():
        if found.is_inside:
            assert (name, found.name) in DOORS, f"{MODULES[name]}:{found.line}: {found.name}"


def test_what_is_behind_a_door_waits_there():
    """The command imports none of it before somebody asks for it."""
    ours = {f"aserve.{name}" for _, name in DOORS if name in MODULES}
    code = f"import sys, aserve.cli; print(*sys.modules.keys() & {ours | HEAVY!r})"
    done = subprocess.run([sys.executable, "-Ic", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_process_is_read_at_the_edge():
    """os.environ and sys.argv are read by the command, not by a server in someone's program; what systemd says, by both."""
    edges = {("os", "environ"), ("os", "getenv"), ("sys", "argv")}
    for name in MODULES.keys() - {"cli", "systemd"}:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in edges, f"{MODULES[name]}:{node.lineno}"
            if isinstance(node, ast.ImportFrom):
                assert not edges & {(node.module, alias.name) for alias in node.names}, f"{MODULES[name]}:{node.lineno}"


def test_octets_go_to_c_by_offset():
    """PyPy copies what from_buffer() is asked for and keeps the copy until its collector comes by, which does not count it."""
    for name, path in MODULES.items():
        assert not name.startswith("protocols.") or "from_buffer" not in re.sub(r"#.*", "", path.read_text()), path


def mirrored(source_folder: pathlib.Path, test_folder: pathlib.Path) -> tuple[set[str], set[str]]:
    """Return the names of a folder's sources, and of its tests."""
    sources = {path.stem for path in source_folder.glob("*.py") if path.stem[:2] != "__"}
    return sources, {path.stem.removeprefix("test_") for path in test_folder.glob("test_*.py")}


@pytest.mark.parametrize("folder", ["", *WITHIN, "features/files"])
def test_every_source_has_its_tests(folder):
    """
    Each source file has a test file of its name, and each test file a source.

    Tests of one source that would fill more than one file are cut by behaviour: test_executor.py is
    the first, test_executor_stop.py a further one, which stands beside it in a listing.
    """
    sources, tests = mirrored(PACKAGE / folder, TESTS / folder)
    assert sources - tests == set(), "sources without a test file"
    further = {test for test in tests for source in sources if test.startswith(f"{source}_")}
    folders = {path.name for path in (PACKAGE / folder).iterdir() if path.is_dir()}  # of whose __init__ it is
    assert tests - sources - further - folders - TESTS_OF_NO_ONE_FILE == set(), "test files without a source"


def test_files_of_tests_are_short():
    """Who looks for a behaviour finds it by the name of a file, so none has all the tests of a large module."""
    long = {path for path in TESTS.rglob("*.py") if len(path.read_text().splitlines()) > 600}
    assert long == set()


def test_every_exception_is_needed():
    """An exception that nothing needs any more is taken back."""
    needed = {(name, found.name.split(".")[0]) for name, found in all_imports() if not found.is_ours}
    for module, (_, exceptions) in RESERVED.items():
        for name in exceptions:
            assert name not in MODULES or (name, module) in needed, f"{name} and {module}"


def test_no_text_names_the_other_project():
    """On the package index, `aserve` is somebody else's: ours is aserve-wsgi."""
    other = re.compile(r"pip3? install (-U |--upgrade )?['\"]?aserve(?!-wsgi)")
    texts = [*ROOT.glob("*.*"), *(ROOT / "docs").rglob("*.*"), *MODULES.values()]
    for path in texts:
        if path.suffix in (".md", ".py", ".toml"):
            assert not other.search(path.read_text()), path
