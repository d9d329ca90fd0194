"""--stats for tools of uWSGI: the real uwsgitop shows our workers on a terminal."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import termios

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until

pytestmark = pytest.mark.long_on_pypy

UWSGITOP = pathlib.Path(sys.executable).parent / "uwsgitop"
KINDS = [
    pytest.param(["--workers", "2"], marks=NEEDS_LINUX, id="workers"),
    pytest.param([], id="single", marks=pytest.mark.long),
]


def read_stats(address):
    """Return the text for a new connection."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(20)
        client.connect(address)
        received = b""
        while octets := client.recv(1 << 16):
            received += octets
    return json.loads(received)


@contextlib.contextmanager
def terminal(*command):
    """Run a command on a terminal of 40 lines; yield a reader of all output so far, and a writer of keys."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    )
    os.close(theirs)
    written = bytearray()

    def read():
        while select.select([ours], [], [], 0)[0]:
            try:
                octets = os.read(ours, 1 << 16)
            except OSError:  # Linux: the command has ended
                break
            if not octets:
                break
            written.extend(octets)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]", " ", written.decode("latin-1"))

    try:
        yield read, lambda keys: os.write(ours, keys), process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.any_parser
@pytest.mark.parametrize("flags", KINDS)
def test_uwsgitop_shows_each_worker(start_workers, raw_client, tmp_path, flags):
    """uwsgitop shows each worker by its pid, with its number of answers; over TCP, and over a unix socket."""
    process = start_workers(*flags, "--stats", "127.0.0.1:0")
    host, port = process.wait_for_log(r"stats, as uWSGI has them, on ([\d.]+):(\d+)").groups()
    client = raw_client(process)
    for _ in range(7):
        assert client.fetch("/").status == 200

    def told():
        stats = read_stats((host, int(port)))
        return stats if sum(worker["requests"] for worker in stats["workers"]) == 7 else None

    stats = wait_until(told)
    pids = process.wait_for_workers(2) if flags else [process.pid]
    wait_until(lambda: sorted(worker["pid"] for worker in read_stats((host, int(port)))["workers"]) == sorted(pids))
    assert stats["pid"] == process.pid
    with terminal(str(UWSGITOP), f"{host}:{port}") as (read, write, top):
        # A row: the worker, its share of requests, its pid, its requests, ..., its state.
        rows = [re.compile(rf" \d\s+[\d.]+\s+{pid}\s+\d[^\r\n]*\sidle\s") for pid in pids]
        wait_until(lambda: all(row.search(read()) for row in rows), 30, read)
        shown = read()
        assert "uwsgi-aserve-" in shown and "req: 7 " in shown and f"masterpid: {process.pid}" in shown
        write(b"q")
        assert wait_until(lambda: (read(), top.poll() is not None)[1], 20, read) and top.returncode == 0
    assert process.stop() == 0


@pytest.mark.any_parser
@pytest.mark.parametrize("flags", KINDS)
def test_a_unix_socket(start_workers, raw_client, tmp_path, flags):
    """Beside --metrics; a request at work keeps a core. The file is removed in the end."""
    path = tmp_path / "stats"
    process = start_workers(*flags, "--stats", f"unix:{path}", "--metrics", f"unix:{tmp_path}/m")
    client = raw_client(process)
    client.send(b"GET /wait%b HTTP/1.1\r\nHost: a\r\n\r\n" % bytes(tmp_path / "one"))

    def is_busy():
        workers = read_stats(str(path))["workers"]
        return [worker["status"] for worker in workers].count("busy") == 1 and sum(
            core["in_request"] for worker in workers for core in worker["cores"]
        ) == 1

    wait_until(is_busy)
    with terminal(str(UWSGITOP), str(path)) as (read, write, _):
        wait_until(lambda: "busy" in read(), 30, read)
    (tmp_path / "one.go").touch()
    assert client.recv_response().status == 200
    assert process.stop() == 0 and not path.exists()
