"""The servers that are compared: how each is started, and what it is made of.

Owns:     the tables of commands, the two Python environments of a comparison (aserve's and that of
          its peers), what a browser sends, what an RPC call is.
Rules:    aserve runs with its default settings unless the name says so; peers run as their own
          documentation starts them, threaded ones with 8 threads; each in one process that serves.
Not here: starting them (procs.py).
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from procs import BenchmarkError

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# A real browser's request is one of the corpus; wrk sends a Host of its own.
BROWSER = ROOT / "tests" / "corpus" / "http1" / "accept" / "client-firefox.raw"
WRK_SENDS = {"host", "connection"}
# A call of rpc_app.py's function.
RPC_WORDS = ["myfunc", "one", "two", "three", "four", "five", "six", "seven"]
RPC_RESULT = b"seven|six|five|four|three|two|one"


class Server(NamedTuple):
    """One row of a table; commands have {aserve}, {peer}, {bin}, {port}, {sock}, {app}, {log}, and what tls.py makes, filled in."""

    name: str
    command: str
    package: str = ""  # the distribution that must be installed beside it; empty: none
    log_flags: str = ""  # how it writes an access log; empty: it has none
    runs_on_pypy: bool = False
    runs_on_cpython: bool = True
    is_default: bool = True
    protocol: str = "http"  # "uwsgi", "scgi": on a unix socket behind nginx
    note: str = ""  # how it is set up, for those who read the results

    @property
    def is_ours(self) -> bool:
        return self.package == OURS


OURS = "aserve-wsgi"
ASERVE = "{aserve} -m aserve --bind 127.0.0.1:{port} apps:{app}"
ASERVE_LOG = "--access-log {log}"
# Without --master: one process, as aserve has. Without a log, as aserve has none by default.
UWSGI = "{bin}/uwsgi --disable-logging --listen 100"
ONE_THREAD = "one process without master, one thread, the GIL released while it waits"
THREADS_8 = "one process without master, 8 threads"
GUNICORN = "{peer} -m gunicorn --bind 127.0.0.1:{port} --log-level error apps:{app}"
GUNICORN_LOG = "--access-logfile {log}"
PEREGRINE = "{bin}/peregrine --host 127.0.0.1 --port {port} --protocol wsgi apps:{app}"
# Its daemon process is no longer root's, and may enter no folder that a benchmark makes: so its own is elsewhere.
MOD_WSGI = (
    f"{{bin}}/mod_wsgi-express start-server --application-type module --callable-object {{app}} --python-path {HERE} --host 127.0.0.1 "
    f"--port {{port}} --processes 1 --threads 8 --server-root /tmp/mod_wsgi-{{port}} {'--user www-data --group www-data ' if os.geteuid() == 0 else ''}--log-to-terminal apps"
)
M0SERVE = "{bin}/m0serve --host 127.0.0.1 --port {port} --workers 1 apps:{app}"

HTTP_SERVERS = [
    Server("floor", "{floor} {port}", runs_on_pypy=True),
    Server("aserve", ASERVE, OURS, ASERVE_LOG, runs_on_pypy=True),
    Server("aserve-threads-0", ASERVE + " --threads 0", OURS, ASERVE_LOG, runs_on_pypy=True),
    Server("aserve-lane-off", ASERVE + " --lane off", OURS, ASERVE_LOG, runs_on_pypy=True, is_default=False),
    Server("aserve-httptools", ASERVE + " --http-parser httptools", OURS, ASERVE_LOG),
    Server("aserve-asyncio", ASERVE + " --loop asyncio", OURS, ASERVE_LOG),
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
    Server(
        "mod_wsgi",
        MOD_WSGI,
        "mod_wsgi",
        is_default=False,
        note="mod_wsgi-express: Apache, and one daemon process with 8 threads",
    ),
    Server(
        "uwsgi",
        UWSGI + " --module apps:{app} --threads 4 --http11-socket 127.0.0.1:{port}",
        "uwsgi",
        is_default=False,
        note="one process without master, 4 threads; it keeps connections also when asked to close them",
    ),
    Server(
        "uwsgi-http11",
        UWSGI + " --module apps:{app} --http11-socket 127.0.0.1:{port}",
        "uwsgi",
        is_default=False,
        note="one process without master",
    ),
    # Its http11-socket does not close when asked to; this one closes always.
    Server(
        "uwsgi-http",
        UWSGI + " --module apps:{app} --enable-threads --http-socket 127.0.0.1:{port}",
        "uwsgi",
        is_default=False,
        note=ONE_THREAD,
    ),
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
    Server(
        "cherrypy",
        "{peer} -c \"import apps, cherrypy; cherrypy.tree.graft(apps.{app}, '/'); cherrypy.server.socket_port = {port}; "
        "cherrypy.config.update(dict(environment='production')); cherrypy.engine.start(); cherrypy.engine.block()\"",
        "cherrypy",
        is_default=False,
    ),
    Server("gunicorn-tornado", GUNICORN + " --worker-class tornado", "tornado", GUNICORN_LOG, True, is_default=False),
    # One thread for the app; with -8: eight.
    Server(
        "freastal",
        "{peer} -c \"import apps, freastal; freastal.serve(apps.{app}, '127.0.0.1', {port})\"",
        "freastal",
        is_default=False,
    ),
    Server("fastpysgi", "{bin}/fastpysgi --host 127.0.0.1 -p {port} apps:{app}", "fastpysgi", is_default=False),
    Server("peregrine", PEREGRINE, "peregrine-server", is_default=False),
    Server("peregrine-8", PEREGRINE + " --wsgi-threads 8", "peregrine-server", is_default=False),
    Server("m0serve", M0SERVE + " --blocking-threads 0", "m0serve", is_default=False),
    Server("m0serve-8", M0SERVE + " --blocking-threads 8", "m0serve", is_default=False),
    Server(
        "socketify",
        "{peer} -m socketify apps:{app} --interface wsgi --port {port} --host 127.0.0.1 --disable-listen-log true",
        "socketify",
        runs_on_pypy=True,
        is_default=False,
    ),
    Server(
        "uwsgi-pypy",
        "{bin}/uwsgi --disable-logging --listen 100 --pypy-lib {pypy_lib} --pypy-home {pypy_home} --threads 4 "
        "--pypy-eval 'import site; site.addsitedir(\"{site}\")' --pypy-wsgi apps:{app} --http11-socket 127.0.0.1:{port}",
        "uwsgi",
        runs_on_pypy=True,
        runs_on_cpython=False,
        is_default=False,
        note="its PyPy plugin, in one process without master, 4 threads; the library is Debian's libpypy3.9-c.so",
    ),
    Server(
        "aserve-tls",
        "{aserve} -m aserve --bind https://127.0.0.1:{port} --certificate {certificate} --key {key} apps:{app}",
        OURS,
        runs_on_pypy=True,
        is_default=False,
    ),
    Server(
        "granian-tls",
        "{peer} -m granian --interface wsgi --port {port} --no-ws --log-level error --ssl-certificate {certificate} "
        "--ssl-keyfile {key} apps:{app}",
        "granian",
        is_default=False,
        note="its TLS is rustls, not OpenSSL",
    ),
    Server(
        "openssl",
        "sh -c 'cd {tls} && exec openssl s_server -quiet -WWW -accept 127.0.0.1:{port} -cert certificate.pem -key key.pem'",
        is_default=False,
        note="Debian's `openssl s_server`, one connection at a time, which answers with a file",
    ),
    Server(
        "nginx-tls",
        "sh -c 'cd {tls} && echo \"listen 127.0.0.1:{port} ssl http2;\" > listen.conf && exec nginx -e nginx.log -p . -c nginx.conf'",
        is_default=False,
        note="Debian's nginx, one worker, which answers with a constant and runs no app",
    ),
]


WORKER_COUNTS = (1, 2, 3, 4, 6)
# What a site behind a proxy has on.
PRODUCTION = (
    f"{ASERVE_LOG} --metrics 127.0.0.1:0 --slow-request 5 --request-timeout 30 --request-id-header X-Request-ID "
    "--trusted-proxies 127.0.0.1"
)


def _with(name: str, new_name: str, flags: str, note: str = "") -> Server:
    """Return the server of that name with more flags, by name only."""
    server = next(each for each in HTTP_SERVERS if each.name == name)
    return server._replace(name=new_name, command=f"{server.command} {flags}", is_default=False, note=note)


def _variants() -> Iterator[Server]:
    """Yield servers by their number of threads (-t8) and of worker processes (-w2)."""
    by_threads = {
        "aserve": ("aserve", "--threads {}"),
        "uwsgi": ("uwsgi-http11", "--threads {}"),
        "gunicorn": ("gunicorn-sync", "--threads {}"),
    }
    for name, (base, flags) in by_threads.items():
        for count in (1, 2, 4, 8, 40):
            yield _with(base, f"{name}-t{count}", flags.format(count))
    # Where the number stands in the command.
    for name, old, new in (("pyruvate", "{port}', 4)", "{{port}}', {})"), ("waitress", "--threads=8", "--threads={}")):
        for count in (1, 2, 4, 8):
            server = _with(name, f"{name}-t{count}", "")
            yield server._replace(command=server.command.replace(old, new.format(count)).rstrip())
    for name in ("aserve", "gunicorn-sync", "gunicorn", "gunicorn-tornado"):
        for count in WORKER_COUNTS:
            yield _with(name, f"{name}-w{count}", f"--workers {count}")
    yield _with("aserve", "aserve-production", PRODUCTION, note="all that a site has on")
    yield _with("granian", "granian-t8", "--blocking-threads 8")
    yield _with("granian", "granian-w2", "--workers 2")
    yield _with(
        "uwsgi-http11", "uwsgi-w2", "--processes 2 --threads 8", note="two processes without master, 8 threads each"
    )


HTTP_SERVERS += _variants()


def _sidecars(protocol: str) -> Iterator[Server]:
    """Yield the servers of one protocol behind nginx; the longer list of variants is uwsgi's."""
    ours = f"{{aserve}} -m aserve --bind {protocol}://unix:{{sock}} apps:{{app}}"
    socket_flag = {"uwsgi": "--socket", "scgi": "--scgi-socket"}[protocol]
    peer = f"{UWSGI} --module apps:{{app}} {socket_flag} {{sock}} --chmod-socket=666"
    row = functools.partial(Server, runs_on_pypy=True, protocol=protocol)
    is_default = protocol == "uwsgi"
    yield row(f"{protocol}:aserve", ours, OURS)
    yield row(f"{protocol}:aserve-lane-off", ours + " --lane off", OURS, is_default=is_default)
    yield row(f"{protocol}:aserve-threads-0", ours + " --threads 0", OURS, is_default=is_default)
    yield row(f"{protocol}:uwsgi", peer + " --enable-threads", "uwsgi", note=ONE_THREAD)
    yield row(f"{protocol}:uwsgi-threads-8", peer + " --threads 8", "uwsgi", is_default=is_default, note=THREADS_8)


SIDECAR_SERVERS = [*_sidecars("uwsgi"), *_sidecars("scgi")]


def _rpc_servers() -> Iterator[Server]:
    """Yield the servers of RPC: by packets, and by an HTTP route; with 1 and with 8 threads."""
    route = f"rpc:{' '.join(RPC_WORDS)}"
    ours = "{aserve} -m aserve rpc_app:app --bind "
    peer = UWSGI + " --module rpc_app:app --enable-threads "
    ways = {
        "rpc": (ours + "uwsgi://127.0.0.1:{port}", peer + "--socket 127.0.0.1:{port}"),
        "route": (
            f"{ours}127.0.0.1:{{port}} --route '{route}'",
            f"{peer}--http11-socket 127.0.0.1:{{port}} --route-run '{route}'",
        ),
    }
    for way, commands in ways.items():
        for threads in (1, 8):
            flags = f" --threads {threads}"
            yield Server(f"{way}:aserve-{threads}", commands[0] + flags, OURS, runs_on_pypy=True)
            note = "one process without master"
            yield Server(f"{way}:uwsgi-{threads}", commands[1] + flags, "uwsgi", runs_on_pypy=True, note=note)


# Each with two workers, and the app that bench_reload.py deploys; as many threads as it has clients, where each keeps one.
RELOAD_SERVERS = [
    Server("aserve", "{aserve} -m aserve --bind 127.0.0.1:{port} --workers 2 site_app:app", OURS, runs_on_pypy=True),
    Server(
        "gunicorn",
        "{peer} -m gunicorn --bind 127.0.0.1:{port} --workers 2 --worker-class gthread --threads 8 site_app:app",
        "gunicorn",
        runs_on_pypy=True,
    ),
    Server(
        "granian",
        "{peer} -m granian --interface wsgi --port {port} --workers 2 --blocking-threads 8 --no-ws site_app:app",
        "granian",
    ),
    Server(
        "uvicorn",
        "{peer} -m uvicorn --port {port} --workers 2 --no-access-log --timeout-worker-healthcheck 30 site_app:asgi",
        "uvicorn",
        runs_on_pypy=True,
        note="ASGI; it gives up on what takes longer than its health check, 5 s by default",
    ),
    Server(
        "uwsgi",
        "{bin}/uwsgi --master --lazy-apps --need-app --processes 2 --threads 32 --http11-socket 127.0.0.1:{port} --listen 100 "
        "--disable-logging --module site_app:app --hook-master-start 'unix_signal:15 gracefully_kill_them_all'",
        "uwsgi",
        note="a kept connection holds a thread",
    ),
]

# Those that serve WSGI over HTTP/2. Gunicorn runs the streams of a connection one after the other, in a thread for each connection: so it has more
# of these than h2load has connections.
TLS_FILES = "--certfile {certificate} --keyfile {key}"
HTTP2_SERVERS = [
    Server(
        "aserve",
        "{aserve} -m aserve --bind https://127.0.0.1:{port} --certificate {certificate} --key {key} --http2 auto --threads 8 apps:{app}",
        OURS,
        runs_on_pypy=True,
    ),
    Server(
        "gunicorn",
        f"{{peer}} -m gunicorn --bind 127.0.0.1:{{port}} --log-level error --http-protocols h2,h1 --threads 16 {TLS_FILES} apps:{{app}}",
        "gunicorn",
    ),
    Server(
        "granian",
        "{peer} -m granian --interface wsgi --port {port} --no-ws --log-level error --blocking-threads 8 --ssl-certificate {certificate} "
        "--ssl-keyfile {key} apps:{app}",
        "granian",
    ),
    Server(
        "hypercorn",
        f"{{peer}} -m hypercorn --bind 127.0.0.1:{{port}} --log-level error {TLS_FILES} wsgi:apps:{{app}}",
        "hypercorn",
    ),
]

# By the command that measures them. Where one runs on PyPy, uWSGI stays on CPython: it has no other.
SERVERS = {
    "serve": HTTP_SERVERS,
    "sidecar": SIDECAR_SERVERS,
    "rpc": list(_rpc_servers()),
    "reload": RELOAD_SERVERS,
    "http2": HTTP2_SERVERS,
}
LOGGED = "+log"  # the same server with its access log on
BAD = "+bad"  # the same server with bad clients beside the good ones


def why_not_installed(pair: Pair, package: str) -> str:
    """Return what pip said when setup_peers.sh could not install a package; empty: nothing is known."""
    try:
        lines = (pair.peer.parent.parent / ".left-out").read_text().splitlines()
    except OSError:
        return ""
    reasons = dict(line.split("\t", 1) for line in lines if "\t" in line)
    return f": {reasons[package].strip()}" if package in reasons else ""


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


def places(pair: Pair) -> dict[str, str]:
    """Return what commands name of the environments: pythons, programs, and the library that uWSGI's PyPy plugin loads."""
    peer, pypy = pair.peer, f"pypy{pair.peer_facts['version'].rpartition('.')[0]}"
    libraries = sorted(pathlib.Path("/usr/lib").glob(f"*/lib{pypy}-c.so"))
    return {
        "aserve": str(pair.aserve),
        "peer": str(peer),
        "bin": str(peer.parent),
        "site": pair.peer_facts.get("site", ""),
        "pypy_lib": str(libraries[0]) if libraries else "none",
        "pypy_home": f"/usr/lib/{pypy}",
    }


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
    "site": sysconfig.get_path("purelib"),
}))
"""
PACKAGES = sorted(
    {server.package for table in SERVERS.values() for server in table if server.package}
    | {"uvloop", "httptools", "werkzeug"}
)


class Pair(NamedTuple):
    """The two environments of one comparison, and what they said of themselves."""

    aserve: pathlib.Path
    peer: pathlib.Path
    aserve_facts: dict[str, Any]
    peer_facts: dict[str, Any]

    @property
    def is_pypy(self) -> bool:
        return _is_pypy(self.aserve_facts)

    @property
    def interpreter(self) -> str:
        """What aserve runs on, in one word."""
        return "pypy" if self.is_pypy else "cpython"

    @property
    def title(self) -> str:
        """The interpreter in words."""
        if self.is_pypy and not _is_pypy(self.peer_facts):
            return f"aserve on {_interpreter(self.aserve_facts)}, its peers on {_interpreter(self.peer_facts)}"
        return _interpreter(self.aserve_facts)

    @property
    def is_fair(self) -> bool:
        """Whether nobody's interpreter is the slower one by mistake."""
        if self.is_pypy and not _is_pypy(self.peer_facts):
            return bool(self.peer_facts["is_optimised"])  # peers that have no PyPy, on their best
        return bool(self.aserve_facts["build"] == self.peer_facts["build"])

    def facts(self, server: Server) -> dict[str, Any]:
        """Return what the environment of a server said of itself."""
        return self.aserve_facts if server.is_ours else self.peer_facts

    def is_pypy_for(self, server: Server) -> bool:
        """Return whether a server runs on PyPy."""
        return bool(server.package) and _is_pypy(self.facts(server))

    def version(self, server: Server) -> str | None:
        """Return the installed version of a server; None: it is not installed."""
        return self.facts(server)["packages"][server.package] if server.package else ""


def without_folders(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what may be kept of an environment: not where it is."""
    return {name: value for name, value in facts.items() if name != "site"}


def _is_pypy(facts: dict[str, Any]) -> bool:
    return bool(facts["implementation"] == "PyPy")


def _interpreter(facts: dict[str, Any]) -> str:
    how = "" if facts["is_optimised"] else " built without PGO"
    return f"{facts['implementation']} {facts['version']}{how}"


# By what --interpreter calls them: what follows the names of their environments. PyPy 3.11 has peers of CPython alone.
NEXT_PYPY = "pypy3.11"
INTERPRETERS = {"cpython": "", "pypy": "-pypy", NEXT_PYPY: f"-{NEXT_PYPY}"}


def kind_of(interpreter: str) -> str:
    """Return the interpreter that sets and targets know: one PyPy is as the other."""
    return "pypy" if interpreter == NEXT_PYPY else interpreter


def is_made(interpreter: str) -> bool:
    """Return whether make has found an interpreter, and made aserve's environment for it."""
    return any(venv.exists() for venv in _venvs(interpreter))


def _venvs(interpreter: str) -> list[pathlib.Path]:
    return [ROOT / f"{name}{INTERPRETERS[interpreter]}" for name in (".venv-bench", ".venv")]


def find_pair(
    interpreter: str, aserve: str | None, peers: str | None, has_pypy_peers: bool = True, needs_peers: bool = True
) -> Pair:
    """
    Return the environments to compare in: `interpreter` is one of INTERPRETERS, or a python with all in it.

    `aserve` and `peers` name others, `peers` as setup_peers.sh does: that of PyPy stands beside it,
    with `-pypy` after its name. Without has_pypy_peers the peers of PyPy are those of CPython; without
    needs_peers they are looked for beside aserve unless `peers` is given.

    Raises:
        BenchmarkError: one is not there, or aserve is not installed in its own.
    """
    if interpreter in INTERPRETERS:
        made = _venvs(interpreter)
        ours = pathlib.Path(aserve) if aserve else next((venv for venv in made if venv.exists()), made[1])
        peer = pathlib.Path(peers or ROOT / ".venv-peers")
        if interpreter == "pypy" and has_pypy_peers and not peer.is_file():
            peer = peer.with_name(peer.name + INTERPRETERS["pypy"])
        peer = peer if needs_peers or peers else ours
    else:
        ours, peer = pathlib.Path(aserve or interpreter), pathlib.Path(peers or interpreter)
    ours, peer = _python_of(ours), _python_of(peer)
    pair = Pair(ours, peer, _probe(ours), _probe(peer))
    if pair.aserve_facts["packages"][OURS] is None:
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


def table_for(bench: str, pair: Pair) -> list[Server]:
    """Return the servers of a command that an interpreter has."""
    return [server for server in SERVERS[bench] if (server.runs_on_pypy if pair.is_pypy else server.runs_on_cpython)]


def choose(
    pair: Pair, only: Sequence[str] = (), extra: Sequence[Server] = (), with_logs: bool = False, bench: str = "serve"
) -> list[Server]:
    """
    Return the servers to run, in the table's order; with_logs adds those with their access log on. NAME+log and NAME+bad in
    `only` are a server with its log, and with bad clients.

    Raises:
        BenchmarkError: a name is not in the table, or is not for this interpreter.
    """
    table = table_for(bench, pair) + list(extra)
    for name in only:
        if name.partition("+")[0] not in {server.name for server in table}:
            names = ", ".join(server.name for server in table)
            raise BenchmarkError(f"there is no server {name!r} for {pair.title}; there are {names}")
    chosen = []
    for server in table:
        if server in extra or (server.name in only if only else server.is_default):
            chosen.append(server)
        for suffix in (LOGGED, BAD):
            is_logged_too = with_logs and suffix == LOGGED and server.log_flags and server in chosen
            if server.name + suffix in only or is_logged_too:
                chosen.append(server._replace(name=server.name + suffix))
    return chosen
