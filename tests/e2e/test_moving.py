"""Configurations of uWSGI and gunicorn, in the manner of real ones, served unchanged (tests/compat/moving/uwsgi and gunicorn)."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from harness import sidecars
from harness.interpreter import NEEDS_LINUX, ONCE
from harness.process import ServerProcess
from harness.waiting import wait_until

MOVING = pathlib.Path(__file__).parents[1] / "compat/moving"
pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]

VARIABLES = {
    "SHOP_WHO": "me", "SHOP_PORT": "0", "SHOP_MODULE": "wsgi", "SHOP_PROCESSES": "2",
    "SHOP_UID": str(os.getuid()), "SHOP_GID": str(os.getgid()),
}  # fmt: skip
# File: whether the file says where to listen (else a port of the test's), and the app's findings.
UWSGI = {
    "flask.ini": (True, {}),
    "django.ini": (True, {"SHOP_SETTINGS": "shop.settings.production"}),
    "docker.ini": (False, {}),
    "comments.ini": (False, {}),
    "placeholders.ini": (True, {"SHOP_NAME": "shop", "SHOP_BY": "me", "SHOP_VERSION": "1.2"}),
    "conditions.ini": (True, {"SHOP_KIND": "of-me", "SHOP_LETTER_a": "a", "SHOP_LETTER_b": "b"}),
    "sections.ini:development": (False, {"SHOP_MODE": "development"}),
    "flags.ini": (True, {}),
    "typos.ini": (False, {}),
    "hobby.ini": (False, {}),
    "mount.ini": (True, {}),
    "gevent.ini": (False, {}),
    "routes.ini": (False, {}),
    "logs.ini": (True, {}),
    "healthchecks.ini": (False, {}),
    "includes.ini": (True, {"SHOP_FROM": "base_of_includes"}),
    "folder.ini": (False, {}),
    "fronts.ini": (True, {}),
    "environment.ini": (False, {}),
    "lists.ini": (True, {}),
    "single.ini": (False, {}),
    "shop.xml": (True, {"SHOP_FORM": "xml", "SHOP_FILE": "shop"}),
}
GUNICORN = {
    "docker.py": ("wsgi", {}),
    "cores.py": ("wsgi:app", {}),
    "example.py": ("app:app", {"SHOP_SECRET_KEY": "something", "SHOP_SPAM": "eggs"}),
    "greenlets.py": ("wsgi:app", {}),
    "logs.py": (None, {}),
    "limits.py": (None, {}),
    "preload.py": (None, {"SHOP_MODE": "preloaded", "SHOP_WORKER": "forked and initialized True"}),
    "unix.py": (None, {}),
    "asgi.py": (None, {}),
}
# On PyPy, with its slower starts, a file of each kind: the reading code is the same.
if sys.implementation.name == "pypy":
    UWSGI = {name: UWSGI[name] for name in ("placeholders.ini", "docker.ini")}
    GUNICORN = {name: GUNICORN[name] for name in ("preload.py",)}


@pytest.fixture
def serve(tmp_path):
    """Start aserve in a folder with the files and their apps: serve(*arguments, own_bind) -> ServerProcess."""
    folder = tmp_path / "srv"
    shutil.copytree(MOVING / "site", folder)
    for path in [*(MOVING / "uwsgi").iterdir(), *(MOVING / "gunicorn").glob("*.py")]:
        shutil.copy(path, folder)
    shutil.copy(MOVING / "site" / "wsgi.py", folder)
    (folder / "version.txt").write_text("1.2\n")
    running = []

    def start(*arguments, has_own_bind):
        running.append(ServerProcess(list(arguments), folder, VARIABLES, ["env"] if has_own_bind else ()))
        return running[-1]

    yield start
    for process in running:
        process.end()
        assert process.faults() == ""


def ask(raw_client, process):
    """Return the app's findings, over the protocol of the first bind."""
    client = raw_client(_address_of(process))
    if not process.url.startswith(("uwsgi", "scgi")):
        return client.fetch().json()
    pairs = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REQUEST_URI": "/", "SERVER_PROTOCOL": "HTTP/1.1"}
    client.send(sidecars.encode(process.url.partition(":")[0], pairs))
    return json.loads(client.recv_to_end().partition(b"\r\n\r\n")[2])


def _address_of(process):
    is_path = isinstance(process.address, str)
    return os.path.join(process.folder, process.address) if is_path else process.address


def stop(process):
    """Stop the process; check its exit status and log."""
    process.signal()
    assert process.wait(20) == 0, process.log


# One for each manner of writing such files; the rest are read by the same code.
BRIEF = ("placeholders.ini", "conditions.ini", "docker.ini", "mount.ini", "shop.xml", "example.py", "preload.py")


def brief(names):
    """Return rows of names, some of them in the brief run."""
    return [pytest.param(name, marks=() if name in BRIEF else pytest.mark.long) for name in names]


@ONCE
@pytest.mark.parametrize("name", brief(UWSGI))
def test_each_file_of_uwsgi_is_served(serve, raw_client, name):
    """`aserve FILE` serves the file unchanged; no key stops the start."""
    has_own_bind, variables = UWSGI[name]
    process = serve(name, has_own_bind=has_own_bind)
    told = ask(raw_client, process)
    assert told["variables"] == {**VARIABLES, **variables} and told["folder"] == "srv"
    stop(process)


@ONCE
@pytest.mark.parametrize("name", brief(GUNICORN))
def test_each_file_of_gunicorn_is_served(serve, raw_client, name):
    """The file is served unchanged, with the app of the command line or its own."""
    app, variables = GUNICORN[name]
    process = serve("--gunicorn-conf", name, *([app] if app else []), has_own_bind=name == "unix.py")
    told = ask(raw_client, process)
    assert told["variables"] == {**VARIABLES, **variables} and told["folder"] == "srv"
    stop(process)


def test_the_option_of_the_app(serve, raw_client, tmp_path):
    """uwsgi.opt has the file's options."""
    process = serve("--uwsgi-ini", "fronts.ini", "app:app", "--uwsgi-module", "on", has_own_bind=True)
    assert {"buffer-size", "protocol", "lazy-apps", "enable-threads"} <= set(ask(raw_client, process)["options"])
    stop(process)


def test_hooks_of_gunicorn_keep_their_order(serve, raw_client, tmp_path):
    """gunicorn's hooks are called in gunicorn's order; a reload executes the file anew."""
    process = serve("--gunicorn-conf", "hooks.py", has_own_bind=False)
    assert ask(raw_client, process)["folder"] == "srv"
    told = tmp_path / "srv" / "hooks.txt"
    path = tmp_path / "srv" / "hooks.py"
    path.write_text(path.read_text().replace('"on_reload"', '"on_reload of new code"'))
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done in")
    stop(process)
    lines = told.read_text().splitlines()
    start = ["on_starting 1", "when_ready", "post_fork 1 of True", "post_worker_init"]
    assert lines[:6] == [*start, "on_reload of new code", "post_fork 1 of True"]
    assert sorted(lines[6:-1]) == ["child_exit 1"] * 2 + ["post_worker_init"] + ["worker_exit"] * 2
    assert lines[-1] == "on_exit"


# A supervisor must survive a configuration's and its hooks' handlers, a loop of its own, and hooks that would end it.
TAKING = """
import asyncio, signal
workers = 1

async def handle():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)

def take():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(signal.SIGCHLD)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(handle())
    loop.close()

def on_reload(server):
    take()

def child_exit(server, worker):
    take()
    raise SystemExit(3)

take()
"""


def test_signals_stay_the_supervisors(serve, raw_client, tmp_path):
    """After a reload, and after the hooks of its end, signals work as before: the server drains with status 0."""
    (tmp_path / "taking.py").write_text(TAKING)
    process = serve("--gunicorn-conf", f"{tmp_path}/taking.py", "app:app", has_own_bind=False)
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done in")
    process.wait_for_log(r"child_exit of gunicorn's configuration has raised:(?s:.)*SystemExit: 3")
    assert ask(raw_client, process)["folder"] == "srv"
    process.signal(signal.SIGHUP)
    wait_until(lambda: process.log.count("SIGHUP: done in") == 2, 30, lambda: process.log)
    stop(process)
    assert "gunicorn's hook on_reload has set handlers for SIGTERM, SIGHUP, " in process.log


def test_an_ini_file_is_read_anew(serve, raw_client, tmp_path):
    """SIGHUP takes over the file's changes."""
    process = serve("--uwsgi-ini", "includes.ini", has_own_bind=True)
    path = tmp_path / "srv" / "base_of_includes.ini"
    path.write_text(path.read_text() + "env = SHOP_NEW=1\n")
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done in")
    wait_until(lambda: ask(raw_client, process)["variables"].get("SHOP_NEW") == "1", 30, lambda: process.log)
    stop(process)


def test_a_log_format_has_the_values_of_uwsgi(tmp_path, raw_client):
    """Recorded from uWSGI 2.0.31: seconds have six places, a size has the head, times are of the beginning, and no client names a user, or a value
    not set by the app.
    """
    (tmp_path / "app.py").write_text(
        "import time\n\ndef application(environ, start_response):\n    time.sleep(1.2)\n"
        "    start_response('200 OK', [('X-A', '1'), ('Content-Length', '2')])\n    return [b'ok']\n"
    )
    names = [
        "size",
        "hsize",
        "rsize",
        "user",
        "request_id",
        "h",
        "modifier1",
        "secs",
        "micros",
        "tmicros",
        "time",
        "epoch",
    ]
    lines = " ".join(f"%({name})" for name in names)
    (tmp_path / "app.ini").write_text(f"[uwsgi]\nmodule = app\nreq-logger = file:lines\nlog-format = 100% {lines}s\n")
    process = ServerProcess(["app.ini"], tmp_path, {})
    fields = "Authorization: Basic dTpw", "X-Request-ID: forged"
    try:
        assert raw_client(process.address).fetch("/", *fields).body == b"ok"
        stop(process)
    finally:
        process.end()
    _, *plain, secs, micros, tmicros, begun, ended = (tmp_path / "lines").read_text().split()
    assert plain == ["48", "46", "2", "-", "-", "-", "0"]
    assert abs(round(float(secs) * 1e6) - int(micros)) <= 1 and len(secs.partition(".")[2]) == 6
    assert int(begun) == int(tmicros) // 1_000_000 < int(ended[:-1]) and ended[-1] == "s"


def test_what_uwsgi_reads_is_served(tmp_path, raw_client):
    """A value with a colon and a blank, the output of a command, a character behind a port, and a machine perhaps without syslog."""
    (tmp_path / "app.py").write_text(
        "import os\n\ndef application(environ, start_response):\n    start_response('200 OK', [])\n    return [os.environ['A'].encode()]\n"
    )
    lines = [
        "module: app",
        "logformat : X: %(method)",
        "env: A=@(exec://echo two)",
        "socket: 127.0.0.1:0;",
        "log-syslog: true",
    ]
    (tmp_path / "app.yaml").write_text("\n".join(["uwsgi:", *(f"  {line}" for line in lines), ""]))
    process = ServerProcess(["app.yaml"], tmp_path, {})
    try:
        assert raw_client(process.address).fetch().body == b"two"
        stop(process)
    finally:
        process.end()


def test_a_mistake_names_file_and_line(serve, tmp_path):
    (tmp_path / "wrong.ini").write_text("[uwsgi]\nprocesses = abc\n")
    done = subprocess.run(
        [sys.executable, "-Im", "aserve", "wrong.ini"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "aserve: error: wrong.ini:2: processes = abc: 'abc' is not a whole number\n"
