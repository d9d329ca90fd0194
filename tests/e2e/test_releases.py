"""A deploy by a symbolic link: imports and later reads follow the link's current target."""

import os
import signal
import subprocess
import sys

import pytest
from harness.client import fetch_once
from harness.front import Page
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until
from harness.workers import Workers

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.long_on_pypy]

IS_PYPY = sys.implementation.name == "pypy"

# Each file of a release tells the release's name; `kept` is imported by the configuration, too.
APP = """\
import os, kept, lib_of_release
with open("data") as file:
    VERSION = (NAME, file.read(), kept.NAME, lib_of_release.NAME, os.environ["CONF"])
def app(environ, start_response):
    start_response("200 OK", [])
    return [" ".join([*VERSION, str(os.getpid())]).encode()]
"""
CONF = "import kept\nraw_env = [f'CONF={NAME}']\n"


class Released(Workers):
    """Started by a shell, in the folder behind the link `current`."""

    command = ("sh", "-c", 'cd current && exec "$0" "$@"', sys.executable, "-m", "aserve")
    target = "shop:app"


class Unnamed(Released):
    """Started as by systemd: nothing tells the name by which the folder was entered."""

    command = ("sh", "-c", 'cd current && exec env -u PWD "$0" "$@"', *Released.command[3:])


def write_release(folder, name):
    (folder / "lib").mkdir(parents=True)
    for path, text in (("shop.py", APP), ("gunicorn.conf.py", CONF), ("kept.py", ""), ("lib/lib_of_release.py", "")):
        (folder / path).write_text(f"NAME = {name!r}\n{text}")
    (folder / "data").write_text(name)
    for path in folder.rglob("*"):  # as from an archive or rsync: Python's check by time is no help
        os.utime(path, (1e9, 1e9))
    for path in (folder, folder / "lib"):
        os.utime(path, (1e9, 1e9))


def lead_to(folder, name):
    (folder / "next").symlink_to(name)
    (folder / "next").rename(folder / "current")


def versions(process):
    """Return the releases behind an answer: of the app, its files and imports; then of the settings."""
    *code, setting, _ = fetch_once(process.address).body.decode().split()
    return set(code), setting


@pytest.fixture
def released(tmp_path):
    """Start a supervisor in `current`: released(*flags, **env) -> Workers."""
    running = []
    for name in ("one", "two", "six"):
        write_release(tmp_path / name, name)
    (tmp_path / "current").symlink_to("one")

    def start(*flags, kind=Released):
        running.append(kind(tmp_path, "one", "--gunicorn-conf", "gunicorn.conf.py", "--python-path", "lib", *flags))
        return running[-1]

    yield start
    for process in running:
        process.end()
    for process in running:
        assert not process.faults()


@pytest.mark.parametrize("flags", [(), ("--preload",)], ids=["each imports", "a mold imports"])
def test_a_link_that_leads_to_the_next_release(released, tmp_path, flags):
    """A reload, and without a mold whatever begins of itself, has all of the next release; touched files are the link's, too."""
    process = released("--workers", "1", "--touch-reload", "data", *flags)
    process.wait_for_log("worker 1 .* is ready")
    assert versions(process) == ({"one"}, "one")
    lead_to(tmp_path, "two")
    process.wait_for_log(f"{tmp_path}/current/data has changed: done in")
    assert versions(process) == ({"two"}, "two")
    assert process.stop() == 0


def test_what_begins_without_a_reload(released, tmp_path):
    """A crash's successor imports from where the link leads by then; settings are read by a reload."""
    process = released("--workers", "1")
    process.wait_for_log("worker 1 .* is ready")
    lead_to(tmp_path, "two")
    (pid,) = process.workers
    os.kill(pid, 9)
    wait_until(lambda: process.count("worker 1 .* is ready") == 2)
    assert versions(process) == ({"two"}, "one")
    assert process.stop() == 0


@pytest.mark.parametrize("becomes", ["removed", "replaced"])
def test_a_name_that_is_not_known(released, tmp_path, becomes):
    """Without PWD the meant folder is unknown: nothing is reloaded, the log says why, and workers go on."""
    process = released("--workers", "1", kind=Unnamed)
    process.wait_for_log("worker 1 .* is ready")
    (tmp_path / "one").rename(tmp_path / "old")
    if becomes == "replaced":
        (tmp_path / "six").rename(tmp_path / "one")
    process.signal(signal.SIGHUP)
    why = {
        "removed": r"cannot be entered any more \(No such file",
        "replaced": "is another folder now, and without PWD",
    }
    process.wait_for_log(f"SIGHUP: nothing was reloaded: {tmp_path}/one, where aserve was started, {why[becomes]}")
    assert versions(process) == ({"one"}, "one")
    (pid,) = process.workers
    os.kill(pid, 9)
    process.wait_for_log("until then workers import the old code")
    wait_until(lambda: process.count("worker 1 .* is ready") == 2)
    assert versions(process) == ({"one"}, "one")
    assert process.stop() == 0


@pytest.mark.skipif(IS_PYPY, reason="a shell's commands are the same")
def test_the_commands_of_the_page(tmp_path):
    """docs/upgrades.md: the link leads to the new release, and at no moment to none."""
    block = Page("upgrades").block("A release behind a link", "sh")
    *commands, last = block.replace("/srv/mysite", str(tmp_path)).splitlines()
    assert last == "systemctl reload mysite" and len(commands) == 3
    for name in ("2026-11-20", "2026-11-27"):
        (tmp_path / "releases" / name).mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/2026-11-20")
    subprocess.run(["sh", "-ec", "\n".join(commands)], check=True)
    assert os.readlink(tmp_path / "current") == "releases/2026-11-27" and not (tmp_path / "next").is_symlink()
