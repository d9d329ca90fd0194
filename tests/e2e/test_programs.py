"""Programs written for gunicorn, with aserve underneath: by one changed import, or by `aserve python`. gunicorn is not installed."""

import os
import re
import signal
import subprocess
import sys

import pytest
from harness.client import RawClient, fetch_once
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.one_way]

SHOP = """\
import json, os, sys

WORD = "one"

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    facts = {"word": WORD, "pid": os.getpid(), "argv": sys.argv, "threads": environ["wsgi.multithread"], "gunicorn": "gunicorn" in sys.modules}
    return [json.dumps(facts).encode()]

application = app
"""
STANDALONE = """\
import sys
from gunicorn.app.base import BaseApplication
import shop

class StandaloneApplication(BaseApplication):
    def __init__(self, app, options=None):
        self.options = options or {}
        self.application = app
        super().__init__()

    def load_config(self):
        config = {key: value for key, value in self.options.items() if key in self.cfg.settings and value is not None}
        for key, value in config.items():
            self.cfg.set(key.lower(), value)

    def load(self):
        return self.application

def when_ready(server):
    server.log.info("hook: ready, %s workers", server.cfg.workers)

def post_fork(server, worker):
    worker.log.info("hook: forked with %s threads", worker.cfg.threads)

if __name__ == "__main__":
    options = {"bind": "127.0.0.1:0", "workers": 2, "threads": 2, "timeout": 60, "when_ready": when_ready, "post_fork": post_fork}
    StandaloneApplication(shop.app, options).run()
    sys.exit("not reached")
"""
NAMED = """\
from gunicorn.app.wsgiapp import WSGIApplication

class Named(WSGIApplication):
    def __init__(self, app_uri, options=None):
        self.options = options or {}
        self.app_uri = app_uri
        super().__init__()

    def load_config(self):
        for key, value in self.options.items():
            self.cfg.set(key, value)

if __name__ == "__main__":
    Named("shop:app", {"bind": "127.0.0.1:0", "workers": 1}).run()
"""
FRAMEWORK = """\
import argparse, sys
from gunicorn.app.base import Application
import shop

class FrameworkApplication(Application):
    def init(self, parser, opts, args):
        return {"bind": f"127.0.0.1:{PORT}", "workers": 2}

    def load(self):
        return shop.app

PORT = sys.argv.pop(1)
FrameworkApplication().run()
"""
COMMAND = """\
import gunicorn.app.wsgiapp
gunicorn.app.wsgiapp.run()
"""
PROGRAMS = {"std.py": STANDALONE, "named.py": NAMED, "framework.py": FRAMEWORK, "command.py": COMMAND}
ARGUMENTS = {"framework.py": ["0", "--threads", "3"], "command.py": ["-b", "127.0.0.1:0", "shop"]}
RELOADED, UPGRADED = (rf"{name}: done in [\d.]+ s" for name in ("SIGHUP", "SIGUSR2"))


class Python(ServerProcess):
    """`python std.py`, with one changed import."""

    command = (sys.executable,)


@pytest.fixture(params=["changed import", "aserve python"])
def start(request, tmp_path):
    """Start a program in either way: start(name, *flags) -> ServerProcess; flags of aserve's only in the second way."""
    running = []
    is_ours = request.param == "changed import"
    (tmp_path / "shop.py").write_text(SHOP)
    for name, source in PROGRAMS.items():
        changed = re.sub(r"\bgunicorn\.app", "aserve.compat.gunicorn.app", source) if is_ours else source
        (tmp_path / name).write_text(changed)

    def start(name, *flags):
        words = [name, *ARGUMENTS.get(name, [])]
        kind, words = (Python, words) if is_ours else (ServerProcess, [*flags, "python", *words])
        running.append(kind(words, tmp_path, {"PYTHONDONTWRITEBYTECODE": "1"}, ["env"]))
        return running[-1]

    start.is_ours = is_ours
    yield start
    provoked = tuple(pattern for marker in request.node.iter_markers("provokes") for pattern in marker.args)
    for process in running:
        process.end()
        assert process.faults(provoked) == ""


def ask(process):
    """Return the app's answer."""
    return fetch_once(process.address).json()


def change(folder, name, old, new):
    """Put longer text into a file: its bytecode is known by size and second of writing."""
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new) + "# changed\n")


def stop(process):
    """Stop the process; check its exit status and log."""
    process.signal()
    assert process.wait(30) == 0, process.log
    assert "not reached" not in process.log


@pytest.mark.parametrize("name", [*PROGRAMS])
def test_each_program_serves_by_its_settings(start, name):
    """Each program serves its app with its own settings and hooks, and ends with status 0."""
    process = start(name)
    facts = ask(process)
    assert facts["word"] == "one" and facts["pid"] != process.pid
    assert facts["argv"][0] == name and facts["gunicorn"] is not start.is_ours
    if name == "std.py":
        assert facts["threads"] is True
        process.wait_for_log("hook: ready, 2 workers")
        wait_until(lambda: process.log.count("hook: forked with 2 threads") == 2, explain=lambda: process.log)
    stop(process)


@pytest.mark.long_on_pypy
def test_a_reload_loads_new_code(start, tmp_path):
    """SIGHUP calls `load` anew in new workers: its imports are new code."""
    process = start("named.py")
    before = ask(process)
    change(tmp_path, "shop.py", 'WORD = "one"', 'WORD = "two"')
    process.signal(signal.SIGHUP)
    process.wait_for_log(RELOADED, 60)
    after = ask(process)
    assert (before["word"], after["word"]) == ("one", "two") and before["pid"] != after["pid"]
    stop(process)


@pytest.mark.long_on_pypy
@pytest.mark.provokes("RuntimeError: not yet")
def test_an_upgrade_runs_the_program_anew(start, tmp_path):
    """SIGUSR2 runs the whole program anew in the same process, on the same listeners; a failing program changes nothing."""
    process = start("std.py")
    change(tmp_path, "shop.py", 'WORD = "one"', 'raise RuntimeError("not yet")')
    process.signal(signal.SIGUSR2)
    process.wait_for_log("SIGUSR2: nothing was upgraded: ", 60)
    assert ask(process)["word"] == "one"
    change(tmp_path, "shop.py", 'raise RuntimeError("not yet")', 'WORD = "two"')
    process.signal(signal.SIGUSR2)
    process.wait_for_log(UPGRADED, 60)
    assert ask(process)["word"] == "two" and process.process.poll() is None
    stop(process)


def test_flags_win_over_the_programs_settings(start):
    """Flags before the word python win over the program's own settings."""
    if start.is_ours:
        pytest.skip("there is no command to give flags to")
    process = start("std.py", "--workers", "1", "--server-name", "shop")
    client = RawClient(process.address)
    assert ("Server", "shop") in client.fetch("/").fields
    client.close()
    process.wait_for_log("hook: forked")
    stop(process)
    assert process.log.count("hook: forked") == 1


def test_gunicorn_as_a_module(tmp_path):
    """`aserve python -m gunicorn` is the command gunicorn, by aserve."""
    (tmp_path / "shop.py").write_text(SHOP)
    process = ServerProcess(["python", "-m", "gunicorn", "-b", "127.0.0.1:0", "-w", "2", "shop"], tmp_path, {}, ["env"])
    try:
        assert ask(process)["word"] == "one"
        stop(process)
    finally:
        process.end()


def test_what_is_wrong(tmp_path):
    """A mistake in a program's settings is one line with its name, and status 2, in both ways."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "std.py").write_text(STANDALONE.replace('"workers": 2', '"workers": "many"'))
    done = _run("-m", "aserve", "python", "std.py", cwd=tmp_path)
    assert done == (2, "aserve: error: std.py: workers = many: 'many' is not a number\n")
    done = _run("-m", "aserve", "std.py", cwd=tmp_path)
    assert done[0] == 2 and done[1].startswith(
        "aserve: error: std.py sets gunicorn up by itself: aserve python std.py runs it so"
    )


def _run(*words, cwd):

    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr
