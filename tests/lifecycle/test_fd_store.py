"""Listeners kept by systemd: with a manager of the test's own, whose store is passed on to the next start."""

import fcntl
import os
import socket

import pytest

from aserve.connections.listeners import bind_listeners
from aserve.core import systemd
from aserve.core.errors import BindError
from aserve.core.systemd import Notifier
from aserve.features import Config
from aserve.lifecycle.fd_store import FdStore


class Service:
    """A service that starts again and again, as far as its listeners go."""

    def __init__(self, manager, monkeypatch):
        self.manager = manager
        self.names = []  # in the store, one for each of manager.fds
        self._monkeypatch = monkeypatch
        self._open, self._passed = [], []

    def start(self, *binds, room=9):
        """Start, with the store's descriptors; return the listening addresses, and the messages."""
        kept = list(zip(self.names, self.manager.fds))
        first = fcntl.fcntl(0, fcntl.F_DUPFD, 300)
        os.close(first)
        for number, (_, fd) in enumerate(kept):
            self._passed.append(os.dup2(fd, first + number))
        self._monkeypatch.setattr(systemd, "FIRST_FD", first)
        environ = {
            "NOTIFY_SOCKET": self.manager.address, "FDSTORE": str(room),
            "LISTEN_FDS": str(len(kept)), "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": ":".join(n for n, _ in kept),
        }  # fmt: skip
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)
        heard = len(self.manager.messages)
        store = FdStore.of_this_process()
        assert bool(store) == bool(room or kept)
        try:
            self._open = store.open(Config(bind=list(binds)))
        finally:
            told = self.manager.hear()[heard:]
            for message in told:
                name = message[1].partition("=")[2]
                if message[0] == "FDSTORE=1":
                    self.names += [name] * (len(self.manager.fds) - len(self.names))
        return [listener.address for listener in self._open], [message[0] for message in told]

    def stop(self):
        """End, as servers do."""
        for listener in self._open:
            assert listener.take_queued() == []
        for fd in self._passed:
            assert not os.get_inheritable(fd)
            os.close(fd)
        self._open, self._passed = [], []


@pytest.fixture
def service(manager, monkeypatch, caplog):
    caplog.set_level("INFO", "aserve")
    service = Service(manager, monkeypatch)
    yield service
    service.stop()


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "localhost:0", "unix:{}/s", "unix:@{}/s", "scgi://127.0.0.1:0"])
def test_a_restart_keeps_the_sockets(service, tmp_path, bind, caplog):
    """The sockets stay, and clients wait meanwhile; another protocol can be spoken on them."""
    bind = bind.format(tmp_path)
    places, told = service.start(bind)
    assert told == ["FDSTORE=1"]
    service.stop()
    with socket.socket(socket.AF_UNIX if "unix" in bind else socket.AF_INET) as client:
        client.connect(places[0])
        again, told = service.start("uwsgi://" + bind.rpartition("//")[2])
        assert sorted(again) == sorted(places) and told == []
        assert {listener.bind.protocol for listener in service._open} == {"uwsgi"}
        accepted = [listener.socket.accept()[0] for listener in service._open if listener.address == places[0]]
        assert len(accepted) == 1
        accepted[0].close()
    assert f"listening on sockets that systemd has kept: {service._open[0].url}" in caplog.text
    assert all(listener.is_given and listener.inode is None for listener in service._open)


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:{}/s"])
def test_a_bind_that_is_gone(service, tmp_path, bind, caplog):
    """Its socket ends, with its file, and systemd is told; the address is free for another."""
    (place,), _ = service.start(bind.format(tmp_path))
    service.stop()
    _, told = service.start("127.0.0.1:0" if "unix" in bind else f"0.0.0.0:{place[1]}")
    assert told == ["FDSTOREREMOVE=1", "FDSTORE=1"]
    assert f"as no bind names it any more: {place}" in caplog.text
    assert not (tmp_path / "s").exists()


def test_a_file_that_is_gone(service, tmp_path):
    """A unix socket whose file was removed, as with RuntimeDirectory=, can be reached no more: another is bound, and kept."""
    bind = f"unix:{tmp_path}/s"
    service.start(bind)
    service.stop()
    os.unlink(tmp_path / "s")
    _, told = service.start(bind)
    assert told == ["FDSTOREREMOVE=1", "FDSTORE=1"]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{tmp_path}/s")
        service._open[0].socket.accept()[0].close()


def test_what_there_is_no_room_for(service, tmp_path, caplog):
    """The log says so, and the listener ends with its process, as without a store."""
    _, told = service.start(f"unix:{tmp_path}/a", f"unix:{tmp_path}/b", room=1)
    assert told == ["FDSTORE=1"] and [listener.is_given for listener in service._open] == [True, False]
    assert f"systemd cannot keep unix:{tmp_path}/b over a restart: its store has room for 1 (File" in caplog.text
    service.stop()
    assert [os.path.exists(tmp_path / name) for name in "ab"] == [True, False]


def test_a_path_that_is_too_long(service, monkeypatch, caplog):
    monkeypatch.setattr("aserve.lifecycle.fd_store.MAX_NAME_LENGTH", 20)
    _, told = service.start("127.0.0.1:0")
    assert told == [] and "over a restart: its path is too long" in caplog.text


def test_sockets_of_a_unit(service):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        _, told = service.start(f"fd:{sock.fileno()}")
    assert told == []


def test_what_cannot_be_bound(service):
    """Nothing is stored, and kept ones still are."""
    (place,), _ = service.start("127.0.0.1:0")
    service.stop()
    with pytest.raises(BindError):
        service.start("127.0.0.1:0", f"127.0.0.1:{place[1]}")
    again, told = service.start("127.0.0.1:0")
    assert again == [place] and told == []


def test_without_a_store():
    store = FdStore(0, {}, Notifier(""))
    assert not store
    (listener,) = store.open(Config(bind="127.0.0.1:0"))
    assert not listener.is_given
    listener.close()


def test_kept_by_the_caller():
    """Descriptors of a bind's, bound already, take its place."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        (listener,) = bind_listeners(Config(bind="uwsgi://127.0.0.1:1"), lambda bind: [sock.fileno()])
        assert listener.address == sock.getsockname() and listener.is_given
        listener.close()


def test_not_asked_for(caplog):
    """A caller without the wish hears nothing: listeners are bound here for --user and --pid-file, too."""
    (listener,) = FdStore(0, {}, Notifier("")).open(Config(bind="127.0.0.1:0"))
    listener.socket.close()
    assert not listener.is_given and not caplog.records
