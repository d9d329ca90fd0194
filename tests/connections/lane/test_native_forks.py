"""Children that the app forks where C serves: whatever forks, and whenever, they serve nothing."""

import os
import shutil
import signal
import socket
import subprocess

import pytest
from harness.halting import halt
from harness.waiting import PATIENCE_SECONDS

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

FORKING_APP = """
import contextvars, os
calls = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
server = os.getpid()
last = contextvars.ContextVar("last")

class Forking:
    def __del__(self):
        if os.getpid() == server:
            child = os.fork()
            if child:
                os.waitpid(child, 0)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    os.write(calls, f"{path} {'server' if os.getpid() == server else 'child'}\\n".encode())
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/context":
        last.set(Forking())
    if path == "/environ":
        environ["app.last"] = Forking()
    return [b"served"]
"""


@pytest.mark.provokes("which the app forked, ends")
@pytest.mark.parametrize("path", ["context", "environ"])
def test_a_child_of_a_finalizer(start_process, tmp_path, path):
    """A child born behind a response, in the middle of a batch: the batch's next request is its parent's."""
    (tmp_path / "forking_app.py").write_text(FORKING_APP)
    server = start_process(f"{tmp_path}/forking_app.py:app", "--threads", "1", "--native", "auto")
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(3)]
    for client in clients:
        exchange(client, "/first")
    halt(server.pid)
    for client, target in zip(clients, (f"/{path}", "/second", "/third")):
        send(client, target)
    server.process.send_signal(signal.SIGCONT)
    for client in clients:
        assert receive(client).endswith(b"served")
        client.close()
    said = (tmp_path / "calls").read_text().split("\n")[3:-1]
    assert sorted(said) == sorted([f"/{path} server", "/second server", "/third server"])


HOLDING_SENDMSG = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");

    if (message->msg_iovlen > 1 && message->msg_iov[1].iov_len == 20000 && access("held", F_OK) != 0) {
        close(open("held", O_WRONLY | O_CREAT, 0600));
        while (access("go", F_OK) != 0)
            usleep(1000);
    }
    return next(fd, message, flags);
}
"""

SENDING_APP = """
import os, signal, threading, time

def app(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    forking = threading.Thread(target=fork, args=(write,))
    forking.start()
    def pieces():
        yield b"x" * 20000
        forking.join()
        yield b"served"
    return pieces()

def fork(write):
    while not os.path.exists("held"):
        time.sleep(0.001)
    child = os.fork()
    if not child:
        signal.alarm(20)
        write(b"child")
        os._exit(3)
    with open("status", "w") as file:
        file.write(str(os.waitpid(child, 0)[1]))
    open("go", "w").close()
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.provokes("which the app forked, ends")
def test_a_child_born_while_a_piece_is_sent(start_process, tmp_path):
    """The sending thread is its parent's: the child's write() does not wait, and ends it, as ever."""
    (tmp_path / "sending_app.py").write_text(SENDING_APP)
    (tmp_path / "holding.c").write_text(HOLDING_SENDMSG)
    library = str(tmp_path / "holding.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, str(tmp_path / "holding.c"), "-ldl"], check=True)
    server = start_process(f"{tmp_path}/sending_app.py:app", "--threads", "1", "--native", "auto", LD_PRELOAD=library)
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        send(client, "/")
        receive(client, b"6\r\nserved\r\n0\r\n\r\n")
    assert os.waitstatus_to_exitcode(int((tmp_path / "status").read_text())) == 1


def send(client, target):
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


def receive(client, end=b"served"):
    octets = b""
    while not octets.endswith(end):
        piece = client.recv(1 << 16)
        assert piece, octets
        octets += piece
    return octets


def exchange(client, target):
    send(client, target)
    receive(client)
