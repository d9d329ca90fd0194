"""An app's open resources, by names; and the shareable ones."""

import contextlib
import os
import re
import select
import socket
import sqlite3
import subprocess
import sys
import threading

import pytest

from aserve.processes.worker import opened as opened_module
from aserve.processes.worker.opened import Opened, find_opened, list_fds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that knows")


@pytest.fixture
def find(monkeypatch):
    """find() -> resources opened since the test began, without the threads of pytest and other tests."""
    before = list_fds()
    strangers = set(threading.enumerate()) - {threading.current_thread()}
    known = [thread for thread in threading.enumerate() if thread not in strangers]
    enumerate_ = threading.enumerate
    monkeypatch.setattr(threading, "enumerate", lambda: [t for t in enumerate_() if t not in strangers] or known)
    frames = sys._current_frames
    idents = set(frames()) - {threading.get_ident()}  # pytest-xdist has some unknown to threading
    monkeypatch.setattr(sys, "_current_frames", lambda: {i: f for i, f in frames().items() if i not in idents})
    tasks = set(os.listdir("/proc/self/task"))
    listdir = os.listdir
    monkeypatch.setattr(
        os, "listdir", lambda path: [n for n in listdir(path) if path != opened_module.TASK_FOLDER or n not in tasks]
    )
    return lambda *args: find_opened(before, *args)


def test_nothing_opened_is_nothing_found(find):
    """An app has opened nothing, or closed everything."""
    socket.socket().close()
    assert find() == Opened([], [], [])


@pytest.mark.parametrize(
    ("kind", "host", "shown"), [(socket.AF_INET, "127.0.0.1", r"127\.0\.0\.1"), (socket.AF_INET6, "::1", r"\[::1\]")]
)
def test_connections_are_told_by_address(find, kind, host, shown):
    with socket.socket(kind) as listener, socket.socket(kind) as client:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip("no such addresses here")
        listener.listen()
        client.connect(listener.getsockname())
        port = listener.getsockname()[1]
        first, second = find().unfit
    assert re.fullmatch(rf"a listening TCP socket, {shown}:{port} \(descriptor \d+\)", first)
    assert re.fullmatch(rf"a connection to {shown}:{port} \(descriptor \d+\)", second)


def test_other_descriptors_are_told_by_kind(find, tmp_path):
    """Unix sockets, pipes and epoll sets are nobody else's; files, and datagrams, several processes may write."""
    reading, writing = os.pipe()
    pair = socket.socketpair()
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind(str(tmp_path / "log"))
    statistics = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    statistics.connect(("127.0.0.1", 8125))
    with select.epoll() as epoll, open(tmp_path / "file", "w") as file, open("/dev/null"):
        found = find()
        fds = [reading, writing, pair[0].fileno(), pair[1].fileno(), epoll.fileno()]
        shared = [log.fileno(), statistics.fileno()]
    for one in (*pair, log, statistics):
        one.close()
    os.close(reading)
    os.close(writing)
    kinds = ["a pipe", "a pipe", "a unix socket", "a unix socket", "an eventpoll"]
    assert sorted(found.unfit) == sorted(f"{kind} (descriptor {fd})" for kind, fd in zip(kinds, fds))
    assert set(found.shared) == {
        f"a datagram socket, {tmp_path}/log (descriptor {shared[0]})",
        f"a datagram socket to 127.0.0.1:8125 (descriptor {shared[1]})",
        file.name,
    }


def test_an_sqlite_database(find, tmp_path):
    """Its connection cannot cross a fork, unlike an ordinary file; looking drops none of its locks."""
    database = sqlite3.connect(tmp_path / "site.db", isolation_level=None)
    with contextlib.closing(database), open(tmp_path / "log", "w") as log:
        database.execute("CREATE TABLE one (x)")
        database.execute("BEGIN IMMEDIATE")
        found = find()
        other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        ended = subprocess.run([sys.executable, "-c", other, tmp_path / "site.db"], stderr=subprocess.PIPE, check=False)
        assert log.name in found.shared and b"database is locked" in ended.stderr
    (shown,) = found.unfit
    assert re.fullmatch(rf"the SQLite database {tmp_path}/site.db \(descriptor \d+\)", shown)


def test_a_socket_that_nobody_knows(find, tmp_path):
    """Without /proc/net it is a socket, and refused as any other."""
    with socket.socket() as one:
        assert find(str(tmp_path)).unfit == [f"a socket (descriptor {one.fileno()})"]


def test_another_kind_is_told_unchanged(find, monkeypatch):
    monkeypatch.setattr(opened_module, "list_fds", lambda: {77: "anon:x"})
    assert find().unfit == ["anon:x (descriptor 77)"]


def test_a_number_that_is_used_again(tmp_path):
    """A new descriptor with an old number is found."""
    with socket.socket() as one:
        assert f"a socket (descriptor {one.fileno()})" in find_opened({one.fileno(): "/dev/null"}, str(tmp_path)).unfit


def test_without_proc_fstat_tells_kinds(find, monkeypatch, tmp_path):
    """Facts of fstat(2) are told all the same, without names; threads of libraries in C are unknown."""
    monkeypatch.setattr(opened_module, "FD_FOLDER", str(tmp_path))
    monkeypatch.setattr(opened_module, "TASK_FOLDER", str(tmp_path / "missing"))
    before = list_fds()
    reading, writing = os.pipe()
    with select.epoll() as epoll, open(tmp_path / "file", "w") as file, open(os.devnull), socket.socket() as one:
        found = find_opened(before)
        fds = [reading, writing, one.fileno()]
    os.close(reading)
    os.close(writing)
    named = [f"{kind} (descriptor {fd})" for kind, fd in zip(["a pipe", "a pipe", "a socket"], fds)]
    assert epoll.closed and file.closed
    assert sorted(re.sub(r"an epoll.*", "", text) for text in found.unfit) == sorted([*named, ""])
    assert [re.sub(r"\d+", "", text) for text in found.shared] == ["a file (descriptor )"]
    assert found.threads_in_c is None


def test_threads_are_told_by_name(find):
    """Threads are told by name; one known to _thread alone, by its place."""
    end, begun = threading.Event(), threading.Event()

    def wait():
        begun.set()
        end.wait(60)

    thread = threading.Thread(target=wait, name="ticker")
    thread.start()
    begun.wait(60)
    try:
        assert find().unfit == ["thread ticker"]
        found = threading.enumerate
        threading.enumerate = lambda: [one for one in found() if one is not thread]
        try:
            (name,) = find().unfit
        finally:
            threading.enumerate = found
        assert re.fullmatch(r"a thread at .*:\d+", name)
    finally:
        end.set()
        thread.join()


def test_threads_in_c(find, monkeypatch):
    """Threads without Python code are told by the kernel's name; one may have ended meanwhile."""
    listdir = os.listdir
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdin.write(b"\n")
        other.stdin.flush()
        assert (
            other.stdout.readline() == b"\n"
        )  # it runs: the kernel gives it its name a moment after `exec` has closed files
        tasks = [str(os.getpid()), str(other.pid), "999999999"]
        monkeypatch.setattr(os, "listdir", lambda path: tasks if path == opened_module.TASK_FOLDER else listdir(path))
        monkeypatch.setattr(opened_module, "TASK_FOLDER", "/proc")
        assert find().threads_in_c == ["?", "cat"]
