"""systemd's variables in, messages out."""

import os
import socket
import sys
import time

import pytest
from harness.manager import Manager
from harness.refusals import error_of

from aserve.core import systemd
from aserve.core.systemd import Notifier, passed_sockets, state_folder, store_size, stored_sockets, watchdog_seconds

PID = 4711
US, OTHER = str(PID), str(PID + 1)


@pytest.fixture(autouse=True)
def number(monkeypatch):
    """This process has the number in the tables."""
    monkeypatch.setattr(os, "getpid", lambda: PID)


# Sockets


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, {}),
        ({"LISTEN_PID": US}, {}),
        ({"LISTEN_PID": US, "LISTEN_FDS": "0"}, {}),
        ({"LISTEN_PID": US, "LISTEN_FDS": "2"}, {"unknown": [3, 4]}),
        ({"LISTEN_PID": US, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web"}, {"web": [3]}),
        ({"LISTEN_PID": US, "LISTEN_FDS": "3", "LISTEN_FDNAMES": "web:admin:web"}, {"web": [3, 5], "admin": [4]}),
        ({"LISTEN_PID": US, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "aserve-stored-x:web"}, {"web": [4]}),
    ],
)
def test_passed_sockets_have_names(environ, found):
    """sd_listen_fds(3): the descriptors from 3 on, by their names; several may have one name."""
    assert passed_sockets(environ) == found


@pytest.mark.parametrize(("pid", "found"), [(US, {"aserve-stored-x": [3, 5]}), (OTHER, {})], ids=["ours", "another's"])
def test_stored_sockets_are_known_by_name(pid, found):
    names = "aserve-stored-x:web:aserve-stored-x"
    assert stored_sockets({"LISTEN_PID": pid, "LISTEN_FDS": "3", "LISTEN_FDNAMES": names}) == found


@pytest.mark.parametrize(("environ", "size"), [({}, 0), ({"FDSTORE": "7"}, 7), ({"FDSTORE": "many"}, 0)])
def test_the_size_of_the_store(environ, size):
    assert store_size(environ) == size


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"LISTEN_PID": OTHER, "LISTEN_FDS": "1"}, f"to process {OTHER}, and this is {US}; a script"),
        ({"LISTEN_FDS": "1"}, "LISTEN_PID is ''"),
        ({"LISTEN_PID": US, "LISTEN_FDS": "many"}, "LISTEN_FDS is 'many'"),
        ({"LISTEN_PID": US, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web"}, "has 1 names, and LISTEN_FDS says 2"),
    ],
    ids=["another process", "no process", "no number", "too few names"],  # reasons have pids, which differ in each run
)
def test_what_was_passed_to_nobody(environ, reason):
    """A shell in between, or contradicting variables, are told."""
    assert reason in error_of(passed_sockets, environ)


# The watchdog


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "2500000"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": US}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": OTHER}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_watchdog_seconds_are_for_this_process(environ, seconds):
    assert watchdog_seconds(environ) == seconds


# Messages


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (lambda notifier: notifier.ready("serving"), ["READY=1", "STATUS=serving"]),
        (lambda notifier: notifier.ready("one\ntwo", main_pid=7), ["READY=1", "MAINPID=7", "STATUS=one two"]),
        (lambda notifier: notifier.stopping("draining"), ["STOPPING=1", "STATUS=draining"]),
        (lambda notifier: notifier.status("degraded: 1 of 4"), ["STATUS=degraded: 1 of 4"]),
        (lambda notifier: notifier.alive(), ["WATCHDOG=1"]),
        (lambda notifier: notifier.forget("web"), ["FDSTOREREMOVE=1", "FDNAME=web"]),
    ],
)
def test_messages_are_one_datagram_each(manager, tell, message):
    """Each message is one datagram of sd_notify(3)'s fields."""
    tell(Notifier.from_environ(manager.environ))
    assert manager.hear() == [message]


def test_reloading_has_the_time(manager):
    """Type=notify-reload wants the time of its own clock, in microseconds."""
    before = time.monotonic_ns() // 1000
    Notifier(manager.address).reloading("loading")
    [[first, usec, status]] = manager.hear()
    assert (first, status) == ("RELOADING=1", "STATUS=loading")
    assert before <= int(usec.replace("MONOTONIC_USEC=", "")) <= time.monotonic_ns() // 1000


def test_a_descriptor_is_stored(manager, tmp_path):
    """FDSTORE carries the descriptor itself."""
    with open(tmp_path / "file", "w+") as file:
        Notifier(manager.address).store("web", [file.fileno()])
    assert manager.hear() == [["FDSTORE=1", "FDNAME=web"]]
    [fd] = manager.fds
    assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "file"))


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_an_abstract_address(tmp_path):
    """NOTIFY_SOCKET=@name is a name behind a NUL."""
    manager = Manager(f"@aserve-test-{tmp_path}")
    try:
        Notifier(manager.address).alive()
        assert manager.hear() == [["WATCHDOG=1"]]
    finally:
        manager.close()


def test_no_manager_means_no_socket(monkeypatch):
    monkeypatch.setattr(socket, "socket", None)
    notifier = Notifier.from_environ({})
    assert notifier.ready("serving") and not notifier.is_heard


def test_a_manager_that_is_gone(tmp_path, caplog):
    """Lost messages are told once, and do no harm."""
    notifier = Notifier(str(tmp_path / "gone"))
    assert not notifier.ready("serving")
    notifier.alive()
    [record] = caplog.records
    assert f"cannot send READY=1 to systemd: {tmp_path}/gone: No such file" in record.getMessage() and notifier.is_heard


def test_a_manager_that_does_not_listen(manager, caplog):
    """A full socket does not hold us up: the rest is lost, and can be told again."""
    notifier = Notifier(manager.address)
    for _ in range(2000):
        notifier.alive()
    for tell in (notifier.ready, notifier.reloading, notifier.status):
        assert not tell("serving")
    assert len(caplog.records) == 1 and len(manager.hear()) < 2000
    for tell in (notifier.ready, notifier.reloading, notifier.status):
        assert tell("serving")


@pytest.mark.parametrize(
    ("said", "folder"),
    [
        ({}, None),
        ({"STATE_DIRECTORY": "/var/lib/a"}, "/var/lib/a"),
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a"),
    ],
)
def test_the_first_state_folder_is_ours(said, folder):
    assert state_folder(said) == folder


def test_folders_of_a_run(tmp_path, monkeypatch):
    """The first folder of RuntimeDirectory=; or the user's login folder, if this user's."""
    assert (
        systemd.runtime_folder({"RUNTIME_DIRECTORY": "/run/a:/run/b"}) == "/run/a"
        and systemd.runtime_folder({}) is None
    )
    there = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert systemd.users_folder(there) == str(tmp_path)
    assert systemd.users_folder({}) is systemd.users_folder({"XDG_RUNTIME_DIR": "/no/such"}) is None
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert systemd.users_folder(there) is None
