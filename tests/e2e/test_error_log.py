"""Messages on standard error, whose reader has stopped."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest

APPS = pathlib.Path(__file__).parent.parent / "harness/apps.py"


@pytest.mark.long_on_pypy
@pytest.mark.skipif(sys.platform != "linux", reason="a pipe is opened once more by /proc")
def test_a_reader_that_stops(tmp_path):
    """Each request has its answer, and SIGTERM ends the server; also with the access log on the same pipe."""
    ours, theirs = os.pipe()
    command = [sys.executable, "-Im", "aserve", f"{APPS}:raises", "--bind", f"unix:{tmp_path}/s", "--access-log", "-"]
    with open(ours, "rb") as reader, subprocess.Popen(command, stdout=theirs, stderr=theirs) as process:
        try:
            while b"serving on" not in reader.readline():
                pass
            fill(theirs)
            for _ in range(200):  # of more lines than wait in memory
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(f"{tmp_path}/s")
                    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    assert client.recv(99).startswith(b"HTTP/1.1 500 ")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            os.close(theirs)
        assert not re.search(rb"stopped$", reader.read())


def fill(fd):
    """Write until the pipe is full; blocking holders of the descriptor would wait."""
    own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(own, b"x" * 4095 + b"\n")
    except BlockingIOError:
        pass
    finally:
        os.close(own)
