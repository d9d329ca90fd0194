"""`cheaper`: more workers start while all are busy, on aserve as on uWSGI, with the same file; and the effect of a reload on their number."""

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from harness.client import RawClient
from harness.front import free_port
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

PATIENCE_SECONDS = 60.0
APP = """\
import os, time, uwsgi

assert uwsgi.numproc == 3  # of all that there may be

def application(environ, start_response):
    with open("begun", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while not os.path.exists("go"):
        time.sleep(0.05)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]
"""
INI = """\
[uwsgi]
http-socket = 127.0.0.1:{port}
module = shop
master = true
processes = 3
cheaper = 1
"""


@pytest.fixture
def folder(tmp_path):
    """The folder of the app, with a file for a port: folder.write(port)."""
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def workers_under_load(folder, address, explain):
    """Send requests that end on demand, until three workers have one; return the number at first, and in the end."""
    clients: list[RawClient] = []

    def begun():
        return (folder / "begun").read_text().split() if (folder / "begun").exists() else []

    def one_more():
        if len(clients) < 60:
            clients.append(RawClient(address))
            clients[-1].send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return len(begun()) >= 3

    wait_until(lambda: one_more() or begun(), PATIENCE_SECONDS, explain)
    first = len(set(begun()))
    wait_until(one_more, PATIENCE_SECONDS, explain)
    last = len(set(begun()))
    (folder / "go").touch()
    for client in clients:
        assert client.recv_to_end().endswith(b"done")
        client.close()
    return first, last


@pytest.mark.one_way
@pytest.mark.long_on_pypy
def test_aserve_adds_workers_while_all_are_busy(folder):
    """One worker serves at first, and three while requests wait; no request is lost."""
    (folder / "site.ini").write_text(INI.format(port=0))
    process = ServerProcess(["--uwsgi-ini", "site.ini"], folder, {}, ["env"])
    try:
        assert workers_under_load(folder, process.address, lambda: process.log) == (1, 3)
        assert "the only worker is busy: the number of workers is 2 now; it was 1" in process.log
        assert "all 2 workers are busy: the number of workers is 3 now; it was 2" in process.log
        process.signal()
        assert process.wait(40) == 0 and process.faults() == ""
    finally:
        process.end()


@pytest.mark.one_way
@pytest.mark.long_on_pypy
def test_a_reload_changes_both_numbers(tmp_path):
    """A reload changes both numbers, and keeps the present number of workers; a number set by hand stays for a while."""
    (tmp_path / "app.py").write_text(
        "def app(environ, start_response):\n    start_response('200 OK', [])\n    return []\n"
    )
    settings = tmp_path / "aserve.toml"
    settings.write_text("app = 'app:app'\nworkers = 1\nmax-workers = 4\n")
    process = ServerProcess(["--config", "aserve.toml"], tmp_path, {})
    try:
        for number in (2, 3):
            process.signal(signal.SIGTTIN)
            process.wait_for_log(f"SIGTTIN: the number of workers is {number} now")
        for count, (workers, most) in enumerate([(2, 4), (5, 6)], 1):
            settings.write_text(f"app = 'app:app'\nworkers = {workers}\nmax-workers = {most}\n")
            process.signal(signal.SIGHUP)
            wait_until(lambda: process.log.count("SIGHUP: done") == count, PATIENCE_SECONDS, lambda: process.log)  # noqa: B023
        assert process.log.count("the number of workers is") == 3
        assert "--workers 5: the number of workers is 5 now; it was 3" in process.log
        process.signal()
        assert process.wait(40) == 0 and process.faults() == ""
    finally:
        process.end()


def test_uwsgi_adds_workers_as_well(folder):
    command = shutil.which("uwsgi", path=os.path.dirname(sys.executable))
    if command is None or sys.implementation.name != "cpython":
        pytest.skip("uWSGI is not installed")
    port = free_port()
    (folder / "site.ini").write_text(INI.format(port=port))
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([command, "--ini", "site.ini", "--die-on-term"], cwd=folder, stdout=log, stderr=log)
    try:
        wait_until(lambda: listens(port), PATIENCE_SECONDS, (folder / "log").read_text)
        assert workers_under_load(folder, ("127.0.0.1", port), (folder / "log").read_text) == (1, 3)
    finally:
        process.terminate()
        process.wait(20)


def listens(port):
    """Whether there is a server."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
