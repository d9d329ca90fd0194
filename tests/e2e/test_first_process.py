"""As process 1 of a container, aserve leaves no zombies, and the app's own children keep their statuses."""

import os
import signal

import pytest
from harness.client import fetch_once
from harness.interpreter import can_unshare, first_on_pypy
from harness.waiting import wait_until
from harness.workers import Workers, children_of

pytestmark = [
    pytest.mark.any_parser,
    pytest.mark.skipif(not can_unshare(), reason="needs the right to make a namespace of processes"),
]

# /leave: leaves processes to process 1. /run: the status of a process of the app's own, asked late. Other paths: the number of zombies.
APP = """\
import glob, subprocess, time

def is_zombie(path):
    try:
        return open(path).read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False

def answer(path):
    if path == "/leave":
        for _ in range(5):
            subprocess.run(["sh", "-c", "(sleep 0.01 &)"], check=True)
        return 0
    if path == "/run":
        process = subprocess.Popen(["sh", "-c", "exit 7"])
        while not is_zombie(f"/proc/{process.pid}/stat"):
            time.sleep(0.005)
        subprocess.run(["sh", "-c", "(exit 3) & exit 0"], check=True)
        return process.wait()
    return sum(map(is_zombie, glob.glob("/proc/[0-9]*/stat")))

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"%d" % answer(environ["PATH_INFO"])]
"""


class Contained(Workers):
    """A server that is process 1 of a namespace."""

    command = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *Workers.command)


def ask(process, path):
    return fetch_once(process.address, path).body


@pytest.mark.parametrize("flags", first_on_pypy([[], ["--workers", "1"], ["--threads", "0"]]))
def test_zombies_are_reaped(start_workers, flags):
    """Orphans end without a trace, the app gets its children's statuses, and SIGTERM drains."""
    process = start_workers(*flags, app=APP, kind=Contained)
    assert ask(process, "/leave") == b"0"
    wait_until(lambda: ask(process, "/zombies") == b"0")
    assert ask(process, "/run") == b"7"
    (first,) = process.workers
    os.kill(first, signal.SIGTERM)
    assert process.wait() == 0


def test_process_1_ends_with_its_server(start_workers):
    """The kernel's out-of-memory killer takes the server: the container ends, with the status of a shell."""
    process = start_workers(app=APP, kind=Contained)
    (first,) = process.workers
    (server,) = children_of(first)
    os.kill(server, signal.SIGKILL)
    assert process.wait() == 128 + signal.SIGKILL
