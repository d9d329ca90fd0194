"""uWSGI's hooks, imports and FIFO, in processes: before the app, at the begin of workers, by commands, and at the end."""

import subprocess

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]
APP = """
import json, os

def application(environ, start_response):
    start_response("200 OK", [])
    return [json.dumps([open("order").read().split(), os.environ["SITE"]]).encode()]

with open("order", "a") as file:
    file.write("app\\n")
"""
INI = """
[uwsgi]
module = app
master = true
processes = 2
env = SITE=shop
import = tasks
hook-asap = writen:order asap
hook-as-user = appendn:order user
exec-pre-app = echo pre >> order
hook-accepting1 = touch:ready
hook-as-user-atexit = exec:mv ready $SITE
master-fifo = commands
"""


@pytest.fixture
def folder(tmp_path):
    """A site."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "tasks.py").write_text("with open('order', 'a') as file: file.write('tasks\\n')\n")
    (tmp_path / "app.ini").write_text(INI)
    return tmp_path


def test_a_check_does_nothing_that_hooks_say(folder):
    """--check imports the app, and runs no command or hook of uWSGI's or gunicorn's settings."""
    kept = folder / "kept"
    kept.touch()
    moments = [
        f"{kind}-{when}-app = {act}"
        for kind, act in (("exec", "rm kept"), ("hook", "unlink:kept"))
        for when in ("pre", "post")
    ]
    (folder / "app.ini").write_text("\n".join([INI, *moments]))
    hooks = ("on_starting", "when_ready", "pre_fork", "post_fork", "post_worker_init", "worker_exit", "on_exit")
    called = [f"def {name}(*_): __import__('os').unlink('kept')" for name in hooks]
    (folder / "conf.py").write_text("\n".join(called))
    for words in (
        ["app.ini"],
        ["gunicorn", "-c", "conf.py", "app:application"],
        ["gunicorn", "-c", "conf.py", "--preload", "app:application"],
    ):
        done = subprocess.run(
            [*ServerProcess.command, "--check", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 and "All is well" in done.stdout, done.stderr
        assert kept.exists() and (folder / "order").read_text().split()[-1] == "app"
    assert not (folder / "commands").exists() and not (folder / "ready").exists()


def test_hooks_run_in_uwsgis_order(folder, raw_client):
    """Hooks run in uWSGI's order, and once for both workers; a reload by the FIFO runs them anew, and its `q` ends the server."""
    process = ServerProcess(["--uwsgi-ini", "app.ini"], folder, {})
    try:
        order, site = raw_client(process.address).fetch().json()
        assert order == ["asap", "user", "pre", "tasks", "app"] and site == "shop"
        wait_until((folder / "ready").exists, 30, lambda: process.log)
        (folder / "commands").write_text("r\n")
        process.wait_for_log("command r of .*commands")
        process.wait_for_log("SIGHUP: done in")
        order, _ = raw_client(process.address).fetch().json()
        assert order == ["asap", "user", "pre", "tasks", "app"] + ["pre", "tasks", "app"]
        (folder / "commands").write_text("q")
        assert process.wait() == 0 and process.faults() == ""
        assert (folder / "shop").exists() and not (folder / "ready").exists() and not (folder / "commands").exists()
    finally:
        process.end()


def test_a_hook_that_fails(folder):
    """A failing hook before the app ends the start; the message has the line, and not the command."""
    (folder / "app.ini").write_text("[uwsgi]\nmodule = app\nhook-pre-app = exec:false secret\n")
    with pytest.raises(
        AssertionError, match=r"app.ini:3: hook-pre-app: exec: the command has ended with status 1"
    ) as caught:
        ServerProcess(["--uwsgi-ini", "app.ini"], folder, {}).end()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("moment", "lines"),
    [
        ("post-fork", "chdir = /\nlazy-apps = true"),
        ("pre-app", ""),
        ("asap", "lazy-apps = true"),
        ("as-user", "master = false"),
    ],
)
def test_the_folder_that_a_hook_enters(tmp_path, raw_client, moment, lines):
    """The app is imported from there, and runs there, as recorded from uWSGI 2.0.31."""
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / "app.py").write_text(
        "import os\n\ndef application(environ, start_response):\n    start_response('200 OK', [])\n    return [os.getcwd().encode()]\n"
    )
    lines = f"[uwsgi]\nmodule = app\nmaster = true\n{lines}\nhook-{moment} = chdir:{tmp_path}/current\n"
    (tmp_path / "app.ini").write_text(lines)
    process = ServerProcess(["app.ini"], tmp_path, {})
    try:
        assert raw_client(process.address).fetch().body.decode() == f"{tmp_path}/current"
        assert "no effect" not in process.log
    finally:
        process.end()


def test_a_pattern_of_the_python_path(tmp_path, raw_client):
    """Modules are found in each folder, first in the last, and at the end in the folder of the start, as recorded from uWSGI 2.0.31."""
    (tmp_path / "both.py").write_text("place = 'start'\n")
    for name, module in (("a", "both"), ("a", "first"), ("b", "both"), ("b", "app")):
        (tmp_path / "src" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name / f"{module}.py").write_text(f"place = {name!r}\n")
    (tmp_path / "src" / "b" / "app.py").write_text(
        "import both, first\n\ndef application(environ, start_response):\n"
        "    start_response('200 OK', [])\n    return [(both.place + first.place).encode()]\n"
    )
    (tmp_path / "app.ini").write_text(f"[uwsgi]\nmodule = app\npythonpath = {tmp_path}/src/*\n")
    process = ServerProcess(["app.ini"], tmp_path, {})
    try:
        assert raw_client(process.address).fetch().body == b"ba"
    finally:
        process.end()


def test_reload_and_stop_by_a_pid_file(folder, raw_client):
    """`aserve uwsgi --reload PIDFILE` and `--stop PIDFILE` work as uWSGI's."""
    (folder / "app.ini").write_text(f"{INI}pidfile = pid\n")
    process = ServerProcess(["app.ini"], folder, {})
    try:
        assert raw_client(process.address).fetch().status == 200
        for flag in ("--reload", "--stop"):
            subprocess.run([*ServerProcess.command, "uwsgi", flag, "pid"], cwd=folder, timeout=60, check=True)
            if flag == "--reload":
                process.wait_for_log("SIGHUP: done in")
        assert process.wait() == 0 and process.faults() == ""
    finally:
        process.end()
