"""Each place for a secret has a marked one here; no text or message of aserve has a mark.

Of settings: the values of --env, --attach, --cron, --mount, --warm-up, --route, --shared and the APP. Of requests: fields that authenticate, the
query and the body. Only the access log has queries, and the outputs under --show-queries, as docs/logging.md says. tests/settings/test_secrecy.py has
each form of each value. An upgrade must leave the settings to its new code: tests/processes/upgrade/test_inheritance.py has the place, and here
nothing of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import pytest
from harness.combining import long
from harness.interpreter import NEEDS_LINUX
from harness.process import run_command
from harness.waiting import wait_until
from harness.workers import Workers

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.long_on_pypy]

APP = '''\
"""An app whose factory is given a password."""
import os, time

SESSION = "id=hunter2-set"

def make(password):
    return app

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/wait":
        open("in", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.005)
    if path == "/fail":
        raise ValueError("on purpose")
    if path == "/none":
        return None
    start_response("200 OK", [("Set-Cookie", SESSION + "\\r\\n" * (path == "/field"))])
    return [b"hello"]
'''

# Each process writes its spans as JSON.
TRACED_APP = f"""{APP}
import aserve
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

@aserve.post_fork
def start_exporter():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open("spans", "a"))))
    trace.set_tracer_provider(provider)
"""

FIELDS = {
    "Authorization": "Bearer hunter2-authorization",
    "Proxy-Authorization": "Basic hunter2-proxy",
    "Cookie": "session=hunter2-cookie",
    "X-Api-Key": "hunter2-key",
}
QUERY = "?token=hunter2-query"
HEAD = "".join(f"{name}: {value}\r\n" for name, value in FIELDS.items())
# Each is refused before the app is called.
REFUSED = (
    f"GET /{QUERY} HTTP/1.1\r\nHost: a\r\n{HEAD}X: hunter2-x\0\r\n\r\n",
    f"GET /{QUERY} HTTP/1.1\r\nHost: a\r\n{HEAD}hunter2-line without a colon\r\n\r\n",
    f"GET /{QUERY} HTTP/1.1\r\nHost: a\r\n{HEAD}Transfer-Encoding: hunter2-coding\r\n\r\n",
    f"GET /{QUERY} HTTP/1.1\r\nHost: a\r\n{HEAD}Content-Length: hunter2-length\r\n\r\n",
    f"GET /{QUERY} HTTP/1.1\r\nHost: hunter2-user@a\r\n{HEAD}\r\n",
    f"GET http://hunter2-user:pw@a/ HTTP/1.1\r\nHost: a\r\n{HEAD}\r\n",
    f"GET /{QUERY} HTTP/1.1\r\n{HEAD}\r\n",
    f"GET /{QUERY}{'x' * 20_000} HTTP/1.1\r\nHost: a\r\n{HEAD}\r\n",
    f"GET /{QUERY} HTTP/1.1\r\nHost: a\r\n{HEAD}X: hunter2-long{'x' * 200_000}\r\n\r\n",
    f"GET /{QUERY} HUNTER/2\r\nHost: a\r\n{HEAD}\r\n",
    f"hunter2-first\1line\r\n{HEAD}\r\n",
)  # fmt: skip


def settings(app: pathlib.Path) -> list[str]:
    pairs = {
        "--env": "PASSWORD=hunter2-env",
        "--attach": "sh -c 'exec sleep 60 # hunter2-attach'",
        "--cron": "0 3 1 1 * sleep hunter2-cron",
        "--mount": f"/m={app}:make('hunter2-mount')",
        "--route": "^/rpc rpc function:hunter2-route",
        "--warm-up": "/?token=hunter2-warm",
    }
    return [*(word for pair in pairs.items() for word in pair), f"{app}:make('hunter2-app')"]


class Marked(Workers):
    """A server with secrets in its settings."""

    @property
    def target(self) -> str:
        """Nothing: the settings have the APP."""
        return "--preload"


@pytest.fixture
def start(tmp_path):
    """start(*flags, app=APP) -> Marked."""
    running = []

    def begin(*flags, app=APP):
        flags = ("--workers", "2", *flags, *settings(tmp_path / "site_app.py"))
        (tmp_path / "temporary").mkdir()
        env = {"HTTP_TOKEN": "hunter2-variable", "TMPDIR": str(tmp_path / "temporary")}
        running.append(Marked(tmp_path, app, *flags, **env))
        return running[0]

    yield begin
    for process in running:
        process.end()


def found_in(text: str) -> set[str]:
    """Return a text's marks, also quoted ones."""
    return {*re.findall(r"hunter2-\w*", text + urllib.parse.unquote(text))}


def exchange(address, octets: str) -> str:
    with socket.create_connection(address, 30) as client, contextlib.suppress(ConnectionError):
        client.sendall(octets.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b"")).decode("latin-1")
    return ""  # closed with more to come


def request_of(path: str) -> str:
    """Return a request with secrets in each place."""
    return (
        f"POST {path}{QUERY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{HEAD}Content-Length: 12\r\n\r\nhunter2-body"
    )


def run(*words: str, folder: pathlib.Path | None = None) -> str:
    """Run one of aserve's commands; return its output."""
    done = run_command(*words, cwd=folder)
    return done.stdout + done.stderr


def drawn_by_top(control: str) -> str:
    """Return the screen of `aserve top`, with all stacks; nothing where there can be no screen."""
    try:
        from aserve.features.control.top_screen import Top
    except ImportError:  # textual is not for each interpreter
        return ""

    async def draw() -> str:
        async with Top(control).run_test(size=(250, 60)) as pilot:

            async def screen_with(text: str) -> str:
                deadline, shown = time.monotonic() + 60, ""
                while text not in shown:
                    assert time.monotonic() < deadline, shown
                    await pilot.pause(0.05)
                    shown = "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
                return shown

            shown = await screen_with("workers ready")
            await pilot.press("a")
            return shown + await screen_with("aserve-worker-1")

    return asyncio.run(draw())


def descriptors_of(process: Marked) -> list[str]:
    """Return the open descriptors of each process of a server."""
    found = []
    for pid in (process.pid, *process.workers):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def test_a_server_shows_no_secret(start, tmp_path):
    """Neither log, status page, metrics, commands nor responses have a secret; they tell all the rest.

    The log is that of debug, with the events of the wire.
    """
    control, log = str(tmp_path / "control"), tmp_path / "access.log"
    process = start(
        "--control", control, "--metrics", "127.0.0.1:0", "--slow-request", "0.05", "--access-log", str(log), "--stats", "127.0.0.1:0",
        "--log-level", "debug",
    )  # fmt: skip
    process.wait_for_log(r"worker 2 \(pid \d+\) is ready")
    place = process.wait_for_log(r"metrics on http://([\d.]+):(\d+)/metrics")
    told = {}

    def look(when: str) -> None:
        for target in ("/", "/status", "/metrics", "/events"):
            with contextlib.closing(http.client.HTTPConnection(place[1], int(place[2]), timeout=30)) as connection:
                connection.request("GET", target)
                response = connection.getresponse()
                lines = iter(response.readline, b"")  # the stream has no end: its first event does
                octets = (
                    next(line for line in lines if line.startswith(b"data: "))
                    if target == "/events"
                    else response.read()
                )
                told[f"{target} {when}"] = octets.decode()
        for words in (("status",), ("status", "--json"), ("stacks",)):
            told[f"{' '.join(words)} {when}"] = run(*words, "--control", control)
        told[f"top {when}"] = drawn_by_top(control)

    for path in ("/", "/m", "/fail", "/none", "/field", "/rpc"):
        told[path] = exchange(process.address, request_of(path))
    for number, octets in enumerate(REFUSED):
        told[f"refused {number}"] = exchange(process.address, octets)
    with socket.create_connection(process.address, 30) as client:
        client.sendall(request_of("/wait").encode())
        wait_until((tmp_path / "in").exists)
        process.wait_for_log(r"/wait\?\.\.\. has taken")
        look("at work")
        (tmp_path / "go").touch()
        told["/wait"] = client.recv(65536).decode()
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done")
    process.signal(signal.SIGUSR2)
    process.wait_for_log("upgraded from")
    told["reload"] = run("reload", "--control", control)
    look("after an upgrade")
    told["descriptors"] = "\n".join(descriptors_of(process))
    assert process.stop() == 0
    told["log"] = process.log
    leaks = {where: found_in(text) for where, text in told.items() if found_in(text) - {"hunter2-set"}}
    assert leaks == {}, told[next(iter(leaks))]
    assert "aserve-pages" in told["descriptors"] and "inheritance" not in told["descriptors"]
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert "hunter2-set" not in process.log and "hunter2-set" not in told["/field"]
    # Request lines are there unchanged.
    assert found_in(log.read_text()) <= {"hunter2-query", "hunter2-user"}
    assert "200 OK" in told["/"] and "500" in told["/fail"] and "400" in told["refused 0"]
    assert "on purpose" in process.log and "POST /wait?..." in told["status at work"] + told["stacks at work"]
    assert "POST /wait?... on http://" in process.log  # of the wire
    assert (
        not told["top at work"] or told["top at work"].count("POST /wait?...") >= 3
    )  # a worker's, a slow one's, a stack's
    shown = told["/events at work"]
    assert all(word in shown for word in ("PASSWORD=...", "sh ...", "^/rpc rpc function ...", "make(...)", "/?..."))


@pytest.mark.parametrize("flags", [(), ("--show-queries",)], ids=["queries are hidden", "queries are shown"])
def test_spans_have_queries_only_if_asked(start, tmp_path, flags):
    """Spans, the wire's log and the status have queries under --show-queries, as its text says; nothing else in any case."""
    control = str(tmp_path / "control")
    process = start(*flags, "--tracing", "--log-level", "debug", "--control", control, app=TRACED_APP)
    for path in ("/", "/m", "/fail", "/none", "/field"):
        exchange(process.address, request_of(path))
    with socket.create_connection(process.address, 30) as client:
        client.sendall(request_of("/wait").encode())
        wait_until((tmp_path / "in").exists)
        status = wait_until(
            lambda: next((text for text in [run("status", "--control", control)] if "/wait" in text), "")
        )
        (tmp_path / "go").touch()
        client.recv(65536)
    assert process.stop() == 0
    spans = (tmp_path / "spans").read_text()
    assert spans.count('"url.path": "/m"') == 1 and "ValueError: on purpose" in spans
    shown = {"hunter2-query"} if flags else set()
    assert (found_in(spans), found_in(status)) == (shown, shown)
    assert found_in(process.log) == shown | ({"hunter2-warm"} if flags else set())
    explained = run("config", "--explain", "show-queries")
    assert all(
        word in explained for word in ("status, top and stacks", "slow requests", "error log", "spans of --tracing")
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--check",),
        ("config",),
        ("config", "--explain", "shared"),
        *(long((("config", "--explain", name),)) for name in ("env", "attach", "cron", "mount", "warm-up", "route")),
    ],
    ids=" ".join,
)
def test_no_command_shows_a_secret(tmp_path, words):
    (tmp_path / "site_app.py").write_text(APP)
    shared = ["--shared", "redis://me:hunter2-shared@127.0.0.1:1/0?password=hunter2-option", "--shared-prefix", "x"]
    told = run(*words, "--workers", "2", "--preload", *shared, *settings(tmp_path / "site_app.py"), folder=tmp_path)
    assert found_in(told) == set() and "..." in told, told


# The wrong setting or argument, and its part in the message.
WRONG = (
    (("--route", "^/a rpc function@host:1:hunter2-route"), "--route"),
    (("--route", "^/a rpcnext function:hunter2-route"), "--route"),
    (("--route", "a(b rpc function:hunter2-route"), "--route"),
    (("--route", "^/a hunter2-route"), "--route"),
    (("--route", "^/a rpc function:hunter2-route:${route}"), "--route"),
    (("site_app:make('hunter2-app'",), "site_app:make("),
    (("site_app:make(hunter2-app)",), "site_app:make("),
    (("site_app:make('hunter2-app', 'hunter2-app')",), "site_app:make("),
    (("site_app:make(a='hunter2-app', a='hunter2-app')",), "site_app:make("),
    (("site_app:make('hunter2-app').x",), "site_app:make("),
    (("site_app:none('hunter2-app')",), "site_app:none("),
    (("site_app:number('hunter2-app')",), "site_app:number"),
    (("site_app:give('hunter2-app')",), "site_app:give("),
    (("site_app:app", "--bind", "https://127.0.0.1:0", "--certificate", "-----BEGIN CERTIFICATE-----\nhunter2-key\n"), "certificate"),
    (("site_app:app", "--bind", "https://127.0.0.1:0", "--certificate", "a", "--key", "-----BEGIN PRIVATE KEY-----\nhunter2-key\n"), "key"),
)  # fmt: skip


# Runs the command with each list of words, in a process after the import; each output is in a file of its number.
FORKING = """\
import json, os, runpy, sys
import aserve.command.cli
sys.path.insert(0, "")
for number, words in enumerate(json.loads(sys.argv[1])):
    if os.fork() == 0:
        with open(f"{number}.told", "wb") as told:
            os.dup2(told.fileno(), 1)
            os.dup2(told.fileno(), 2)
        sys.argv[1:] = words
        runpy.run_module("aserve", run_name="__main__", alter_sys=True)
        sys.exit()
    os.wait()
"""


@pytest.fixture(scope="module")
def told_of_wrong(tmp_path_factory):
    """The command's words on each."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "site_app.py").write_text(f"{APP}number = 3\ndef give(word):\n    return 3\n")
    command = [sys.executable, "-Ic", FORKING, json.dumps([words for words, _ in WRONG])]
    subprocess.run(command, timeout=120, cwd=folder, check=True)
    return [(folder / f"{number}.told").read_text() for number in range(len(WRONG))]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_mistakes_message_shows_no_secret(told_of_wrong, number):
    (_, shown), told = WRONG[number], told_of_wrong[number]
    assert found_in(told) == set() and shown in told and "aserve: error:" in told, told
