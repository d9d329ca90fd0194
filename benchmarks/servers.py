"""The servers that are compared: how each is started, and what it is made of.

Owns:     the table of commands, the two Python environments of a comparison (aserve's and that of
          its peers), what a browser sends.
Rules:    aserve runs with its default settings unless the name says so; peers run as their own
          documentation starts them, threaded ones with 8 threads; each in one process that serves.
Not here: starting them (procs.py).
"""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from procs import BenchmarkError

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# A real browser's request is one of the corpus; wrk sends a Host of its own.
BROWSER = ROOT / "tests" / "corpus" / "http1" / "accept" / "client-firefox.raw"
WRK_SENDS = {"host", "connection"}


class Server(NamedTuple):
    """One row of the table; commands have {aserve}, {peer}, {bin}, {port}, {app}, {log} filled in."""

    name: str
    command: str
    package: str = ""  # the distribution that must be installed beside it; empty: none
    log_flags: str = ""  # how it writes an access log; empty: it has none
    runs_on_pypy: bool = False
    is_default: bool = True


ASERVE = "{aserve} -m aserve --bind 127.0.0.1:{port} apps:{app}"
ASERVE_LOG = "--access-log {log}"
UWSGI = "{bin}/uwsgi --module apps:{app} --disable-logging --listen 100"
GUNICORN = "{peer} -m gunicorn --bind 127.0.0.1:{port} --log-level error apps:{app}"
GUNICORN_LOG = "--access-logfile {log}"

SERVERS = [
    Server("floor", "{floor} {port}", runs_on_pypy=True),
    Server("aserve", ASERVE, "aserve-wsgi", ASERVE_LOG, runs_on_pypy=True),
    Server("aserve-threads-0", ASERVE + " --threads 0", "aserve-wsgi", ASERVE_LOG, runs_on_pypy=True),
    Server("aserve-httptools", ASERVE + " --http-parser httptools", "aserve-wsgi", ASERVE_LOG),
    Server("aserve-asyncio", ASERVE + " --loop asyncio", "aserve-wsgi", ASERVE_LOG),
    Server("bjoern", "{peer} -c \"import apps, bjoern; bjoern.run(apps.{app}, '127.0.0.1', {port})\"", "bjoern"),
    Server(
        "fastwsgi", "{peer} -c \"import apps, fastwsgi; fastwsgi.run(apps.{app}, '127.0.0.1', {port})\"", "fastwsgi"
    ),
    Server(
        "granian",
        "{peer} -m granian --interface wsgi --port {port} --no-ws --log-level error apps:{app}",
        "granian",
        "--log-level info --access-log",
    ),
    Server("waitress", "{peer} -m waitress --listen=127.0.0.1:{port} --threads=8 apps:{app}", "waitress", "", True),
    Server("gunicorn", GUNICORN + " --threads 8", "gunicorn", GUNICORN_LOG, runs_on_pypy=True),
    Server("gunicorn-sync", GUNICORN, "gunicorn", GUNICORN_LOG, runs_on_pypy=True, is_default=False),
    Server("uwsgi", UWSGI + " --threads 4 --http11-socket 127.0.0.1:{port}", "uwsgi", is_default=False),
    # For --close: its http11-socket is made for kept connections.
    Server("uwsgi-http", UWSGI + " --enable-threads --http-socket 127.0.0.1:{port}", "uwsgi", is_default=False),
    Server(
        "cheroot",
        "{peer} -c \"import apps; from cheroot import wsgi; wsgi.Server(('127.0.0.1', {port}), apps.{app}).start()\"",
        "cheroot",
        is_default=False,
    ),
    Server(
        "pyruvate",
        "{peer} -c \"import apps, pyruvate; pyruvate.serve(apps.{app}, '127.0.0.1:{port}', 4)\"",
        "pyruvate",
        is_default=False,
    ),
]
LOGGED = "+log"  # the same server with its access log on


def parse_server(text: str) -> Server:
    """Return the server that --server NAME=COMMAND names."""
    name, equals, command = text.partition("=")
    if not equals or not name.strip() or "{port}" not in command:
        raise BenchmarkError(f"--server {text!r}: give NAME=COMMAND, with {{port}} and {{app}} in it")
    return Server(name.strip(), command, runs_on_pypy=True)


def build_command(server: Server, values: dict[str, str]) -> list[str]:
    """Return the words that start the server."""
    text = server.command + (f" {server.log_flags}" if server.name.endswith(LOGGED) else "")
    try:
        return [word.format_map(values) for word in shlex.split(text)]
    except (KeyError, ValueError, IndexError) as fault:
        raise BenchmarkError(f"{server.name}: cannot fill in {fault} in {text!r}")


def browser_fields() -> list[str]:
    """Return the field lines that Firefox sends, but for those that wrk sends itself."""
    lines = BROWSER.read_bytes().decode("latin-1").split("\r\n\r\n")[0].split("\r\n")[1:]
    return [line for line in lines if line.split(":")[0].lower() not in WRK_SENDS]


# Environments

PROBE = """
import json, platform, sys, sysconfig
from importlib.metadata import PackageNotFoundError, version
def found(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
pypy = platform.python_implementation() == "PyPy"
print(json.dumps({
    "implementation": platform.python_implementation(),
    "version": platform.python_version(),
    "build": sys.version.replace("\\n", " "),
    # Debian builds with PGO and LTO by other means than these flags.
    "is_optimised": pypy or sys.base_prefix == "/usr" or "--enable-optimizations" in flags,
    "packages": {name: found(name) for name in sys.argv[1:]},
}))
"""
PACKAGES = sorted({server.package for server in SERVERS if server.package} | {"uvloop", "httptools", "werkzeug"})


class Pair(NamedTuple):
    """The two environments of one comparison, and what they said of themselves."""

    aserve: pathlib.Path
    peer: pathlib.Path
    aserve_facts: dict[str, Any]
    peer_facts: dict[str, Any]

    @property
    def is_pypy(self) -> bool:
        return bool(self.aserve_facts["implementation"] == "PyPy")

    @property
    def title(self) -> str:
        """The interpreter in words."""
        facts = self.aserve_facts
        how = "" if facts["is_optimised"] else " built without PGO"
        return f"{facts['implementation']} {facts['version']}{how}"

    @property
    def is_fair(self) -> bool:
        """Whether both environments are on the very same build of Python."""
        return bool(self.aserve_facts["build"] == self.peer_facts["build"])

    def version(self, server: Server) -> str | None:
        """Return the installed version of a server; None: it is not installed."""
        facts = self.aserve_facts if server.package == "aserve-wsgi" else self.peer_facts
        return facts["packages"][server.package] if server.package else ""


def find_pair(interpreter: str, aserve: str | None, peers: str | None) -> Pair:
    """
    Return the environments to compare in: `interpreter` is cpython, pypy or a python with all in it.

    Raises:
        BenchmarkError: one is not there, or aserve is not installed in its own.
    """
    if interpreter in ("cpython", "pypy"):
        suffix = "-pypy" if interpreter == "pypy" else ""
        peer = pathlib.Path(peers) if peers else ROOT / f".venv-peers{suffix}"
        made = [ROOT / f".venv-bench{suffix}", ROOT / f".venv{suffix}"]
        ours = pathlib.Path(aserve) if aserve else next((venv for venv in made if venv.exists()), made[1])
    else:
        ours, peer = pathlib.Path(aserve or interpreter), pathlib.Path(peers or interpreter)
    ours, peer = _python_of(ours), _python_of(peer)
    pair = Pair(ours, peer, _probe(ours), _probe(peer))
    if pair.aserve_facts["packages"]["aserve-wsgi"] is None:
        raise BenchmarkError(f"aserve is not installed in {ours}; `make bench` does that")
    return pair


def _python_of(path: pathlib.Path) -> pathlib.Path:
    python = path / "bin" / "python" if path.is_dir() else path
    if not python.exists():
        raise BenchmarkError(f"there is no {python}; `make bench` makes it, --aserve and --peers name another")
    return python.absolute()  # not resolved: the link itself is what makes it a venv's


def _probe(python: pathlib.Path) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", PROBE, *PACKAGES], capture_output=True, text=True, timeout=60, check=True
        )
        facts: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as fault:
        raise BenchmarkError(f"{python} does not say what it is: {fault}")
    return facts


def choose(pair: Pair, only: Sequence[str], extra: Sequence[Server], with_logs: bool) -> list[Server]:
    """
    Return the servers to run, in the table's order; with_logs adds those with their access log on.

    Raises:
        BenchmarkError: a name is not in the table, or is not for this interpreter.
    """
    table = [server for server in SERVERS if server.runs_on_pypy or not pair.is_pypy] + list(extra)
    for name in only:
        if name not in {server.name for server in table}:
            names = ", ".join(server.name for server in table)
            raise BenchmarkError(f"there is no server {name!r} for {pair.title}; there are {names}")
    chosen = []
    for server in table:
        if server in extra or (server.name in only if only else server.is_default):
            chosen.append(server)
            if with_logs and server.log_flags:
                chosen.append(server._replace(name=server.name + LOGGED))
    return chosen
