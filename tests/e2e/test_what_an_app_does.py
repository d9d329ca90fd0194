"""An app's acts on its process: the table in docs/processes.md, row by row, in one process, with a worker, and with a mold."""

import os
import pathlib
import re
import signal

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until

from .test_finalizers import APP as FINALIZING
from .test_finalizers import FORMS, ask

PAGE = pathlib.Path(__file__).parents[2] / "docs/processes.md"
APP = """
import asyncio, atexit, io, logging, logging.config, os, signal, sys

IMPORTED

def view():
    VIEW

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/view":
        view()
    if path == "/raise":
        1 / 0
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""
STREAM = """
class Stream:
    def write(self, text): pass
sys.stdout, sys.stderr = Stream(), io.StringIO()
"""
# An act at the import, and in a view.
DONE = {
    "handles SIGTERM, from its import on": (
        'signal.signal(signal.SIGTERM, lambda *_: [os.write(2, b"the app\'s handler\\n"), sys.exit(9)])',
        "",
    ),
    "ignores or blocks SIGTERM, from its import on": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})",
        "",
    ),
    "calls `signal.signal` in a view": ("", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    "calls `sys.exit` in a view": ("", "sys.exit(3)"),
    "sets an interval timer, with a handler": (
        "signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)",
        "",
    ),
    "closes standard descriptors": ("os.close(0); os.close(1)", "os.close(2); sys.taken = open('taken', 'w')"),
    "replaces `sys.stdout` and `sys.stderr`": (STREAM, ""),
    "changes the folder by `os.chdir`": ("os.chdir('/')", ""),
    "silences `logging`": ("", "logging.disable(logging.CRITICAL); logging.getLogger('aserve').setLevel(100)"),
    "disables existing loggers": ("", "logging.config.dictConfig({'version': 1})"),
    "sets a `LogRecord` factory that raises": ("", "logging.setLogRecordFactory(lambda *_, **__: 1 / 0)"),
    "empties `sys.path`": ("sys.path[:] = []", ""),
    "registers an `atexit` function": ("atexit.register(lambda: os.write(2, b'at exit\\n'))", ""),
    "runs an event loop in a view": ("", "asyncio.run(asyncio.sleep(0)); asyncio.set_event_loop(None)"),
    "has finalizers that call `start_response` or `write`": ("", ""),
}
MODES = {"alone": (), "workers": ("--workers", "1"), "preload": ("--workers", "1", "--preload")}

pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]


def test_the_table_has_these_rows():
    """Each row of the page is a test, and each test a row."""
    section = PAGE.read_text().partition("## What your app may do to the process\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ((?!your app).*?) \| (?:obeyed|undone|a line) \|", section, re.MULTILINE) == [*DONE]


class Doing:
    """A server whose app has acted, and the looks at it."""

    def __init__(self, start_process, raw_client, folder, does, mode):
        imported, view = DONE[does]
        (folder / "own.py").write_text(APP.replace("IMPORTED", imported).replace("VIEW", view or "pass"))
        self.folder, self._raw_client, self._has_workers = folder, raw_client, mode != "alone"
        app = FINALIZING if "finalizers" in does else "own:app"
        self.server = start_process(app, *MODES[mode], "--access-log", "-", "--access-log-copy", "log")

    def ask(self, path="/", status=200):
        reply = self._raw_client(self.server).fetch(path)
        assert reply.status == status
        return reply.body.decode()

    def end(self):
        """A signal to the serving process replaces or ends it; the whole ends clean."""
        if self._has_workers:
            pid = self.ask()
            os.kill(int(pid), signal.SIGTERM)
            wait_until(lambda: self.ask() != pid, explain=lambda: self.server.log)
            self.server.wait_for_log(rf"\(pid {pid}\) has ended: it exited with status 0")
        self.server.signal()
        assert self.server.wait(60) == 0, self.server.log
        assert "killed by" not in self.server.log


def look_handles(doing):
    """The handler runs before the server's act."""
    assert "SIGTERM: the app's own handler, own.<lambda>, runs before the server's" in doing.server.log
    doing.end()
    log = doing.server.log
    assert log.index("the app's handler\n") < min(log.find(what) % len(log) for what in ("draining", "has ended"))


def look_fails(doing):
    doing.ask("/view", 500)
    doing.server.wait_for_log(r"raised (ValueError|SystemExit) at GET /view\n  Traceback")
    doing.end()


def look_logs(doing):
    """Both logs go on in their places, and nowhere else."""
    doing.ask("/view")
    doing.ask("/raise", 500)
    doing.server.wait_for_log("raised ZeroDivisionError at GET /raise\n  Traceback")
    doing.end()
    assert b'"GET /raise HTTP/1.1" 500' in doing.server.process.stdout.read()
    assert not (doing.folder / "taken").exists() or not (doing.folder / "taken").read_text()


def look_silent(doing):
    doing.ask("/view")
    doing.ask("/raise", 500)
    doing.server.wait_for_log("raised ZeroDivisionError at GET /raise\n")
    assert "Traceback" not in doing.server.log
    doing.end()


def look_reopens(doing):
    (doing.folder / "log").rename(doing.folder / "old")
    doing.server.signal(signal.SIGUSR1)
    doing.server.wait_for_log("was reopened")
    doing.ask("/raise", 500)
    doing.end()
    assert "GET /raise" in (doing.folder / "log").read_text()


def look_exits(doing):
    doing.end()
    assert "at exit\n" in doing.server.log


def look_finalizes(doing):
    for form in FORMS:
        ask(doing.server.address, form)
    doing.server.signal()
    assert doing.server.wait(60) == 0


def look_serves(doing):
    doing.ask("/view")
    doing.end()


LOOKS = {
    "handles SIGTERM, from its import on": look_handles,
    "calls `signal.signal` in a view": look_fails,
    "calls `sys.exit` in a view": look_fails,
    "closes standard descriptors": look_logs,
    "replaces `sys.stdout` and `sys.stderr`": look_logs,
    "changes the folder by `os.chdir`": look_reopens,
    "silences `logging`": look_silent,
    "disables existing loggers": look_logs,
    "sets a `LogRecord` factory that raises": look_logs,
    "empties `sys.path`": look_reopens,
    "registers an `atexit` function": look_exits,
    "has finalizers that call `start_response` or `write`": look_finalizes,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("does", DONE)
def test_what_becomes_of_it(start_process, raw_client, tmp_path, does, mode):
    """The page tells the outcome, and the serving process ends clean."""
    LOOKS.get(does, look_serves)(Doing(start_process, raw_client, tmp_path, does, mode))
