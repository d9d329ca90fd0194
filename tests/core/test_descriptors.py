"""Open descriptors; test_forks.py and tests/processes have the effects."""

import os
import socket

import pytest
from harness.descriptors import closed_stdin

from aserve.core import descriptors
from aserve.core.descriptors import accept, close_all, is_open, list_open, sync_folder


def test_a_number_in_use_is_open():
    read, write = os.pipe()
    assert is_open(read) and is_open(write)
    close_all([read, write])
    assert not is_open(read) and not is_open(write)
    assert not is_open(99999)


@pytest.mark.parametrize("open_max", [None, -1, 1 << 20, 512], ids=["listed", "unlimited", "many", "few"])
def test_all_open_descriptors_are_listed(monkeypatch, open_max):
    """All are found, also without /proc; then also known ones beyond the tried numbers."""
    high = os.dup2(0, 1000)
    if open_max is not None:
        monkeypatch.setattr(descriptors, "FOLDERS", ("/no/such",))
        monkeypatch.setattr(descriptors.os, "sysconf", {"SC_OPEN_MAX": open_max}.get)
    found = list_open([high, 99999])
    os.close(high)
    assert found >= {0, 1, 2, high} and 99999 not in found


def test_connections_are_above_the_standard_descriptors():
    """The number of a standard descriptor closed by the app stays free, and the connection works."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        with closed_stdin():
            accepted, peer = accept(listening)
            assert not is_open(0)
        with accepted:
            assert accepted.fileno() > 2 and not accepted.get_inheritable() and peer == client.getsockname()
            accepted.sendall(b"x")
            assert client.recv(1) == b"x"


def test_a_synced_folder_leaves_no_descriptor(tmp_path, monkeypatch):
    """The folder itself is synced, and its descriptor is closed."""
    synced = []
    monkeypatch.setattr(descriptors.os, "fsync", lambda fd: synced.append((fd, os.fstat(fd).st_ino)))
    sync_folder(str(tmp_path))
    ((fd, number),) = synced
    assert number == tmp_path.stat().st_ino and not is_open(fd)
    with pytest.raises(NotADirectoryError):
        sync_folder(__file__)
