"""Given sockets, by their descriptor or by systemd's name, stay their giver's."""

import errno
import os
import socket
import sys

import pytest
from harness.asking import is_open
from harness.descriptors import none_stays_open

from aserve.connections import listeners as listeners_module
from aserve.core.errors import BindError


@pytest.fixture
def given(tmp_path):
    """Make a socket as somebody else would, of "tcp", "unix" and so on; all are closed in the end."""
    made = []

    def make(kind, is_listening=True):
        family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
        sock = socket.socket(family, socket.SOCK_DGRAM if kind == "dgram" else socket.SOCK_STREAM)
        made.append(sock)
        names = {"unix": str(tmp_path / "s"), "abstract": f"\0aserve-test-{tmp_path}"}
        sock.bind(("127.0.0.1", 0) if kind == "tcp" else names.get(kind, str(tmp_path / kind)))
        if is_listening:
            sock.listen()
        return sock

    yield make
    for sock in made:
        sock.close()


NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")


@pytest.mark.parametrize("is_listening", [True, False])
@pytest.mark.parametrize("kind", ["tcp", "unix", pytest.param("abstract", marks=NEEDS_LINUX)])
def test_a_descriptor_listens_where_it_is_bound(kind, is_listening, given, opened, tmp_path):
    """A listener is where its socket is bound, listening already or not, with the protocol of the scheme."""
    sock = given(kind, is_listening)
    os.set_inheritable(sock.fileno(), True)
    (listener,) = opened(f"uwsgi://fd:{sock.fileno()}")
    assert listener.address == (f"\0aserve-test-{tmp_path}" if kind == "abstract" else sock.getsockname())
    port = f"127.0.0.1:{listener.address[1]}"
    urls = {"tcp": port, "unix": f"unix:{tmp_path}/s", "abstract": f"unix:@aserve-test-{tmp_path}"}
    assert listener.url == f"uwsgi://{urls[kind]}"
    assert is_open(listener.address) and listener.socket.gettimeout() == 0
    assert not os.get_inheritable(sock.fileno()) and listener.is_given


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_descriptor_stays_its_givers(kind, given, opened):
    """When the listener ends, the socket still listens, has its queue, and may be taken once more."""
    sock = given(kind)
    for _ in range(2):
        (listener,) = opened(f"fd:{sock.fileno()}")
        assert is_open(sock.getsockname())
        assert listener.take_queued() == []
        sock.accept()[0].close()
    (listener,) = opened(f"fd:{sock.fileno()}")
    listener.close()
    assert is_open(sock.getsockname())


def test_a_descriptor_with_tls(given, opened):
    (listener,) = opened(f"https://fd:{given('tcp').fileno()}?certificate=/a")
    assert listener.bind.options == (("certificate", "/a"),) and listener.url.startswith("https://127.0.0.1:")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("nothing", "there is no such descriptor; the program that starts"),
        ("file", "it is not a socket"),
        ("dgram", "it is not a stream socket; a socket unit says ListenStream="),
        ("connection", "it is one connection; a socket unit says Accept=no"),
        ("unbound", "it is bound to no address"),
        ("unbound unix", "it is bound to no address"),
    ],
)
def test_descriptors_that_do_not_listen(kind, text, given, opened, tmp_path):
    """Each wrong descriptor is one line that tells its kind; nothing of it stays open."""
    with open(tmp_path / "f", "w") as file, socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        if kind == "connection":
            tcp.connect(given("tcp").getsockname())
        fds = {"nothing": 9999, "file": file.fileno(), "unbound unix": unix.fileno()}
        fd = given("dgram", False).fileno() if kind == "dgram" else fds.get(kind, tcp.fileno())
        with none_stays_open(), pytest.raises(BindError, match=text) as caught:
            opened(f"fd:{fd}")
        assert str(caught.value).startswith(f"cannot listen on fd:{fd}: ")


@pytest.mark.parametrize("name", ["dup", "listen"])
def test_what_else_may_go_wrong_with_a_descriptor(name, given, opened, monkeypatch):
    """The kernel's own words are passed on."""
    sock = given("tcp")

    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(listeners_module.os if name == "dup" else socket.socket, name, refuse)
    with pytest.raises(BindError, match="Too many open files"):
        opened(f"fd:{sock.fileno()}")


def test_what_else_may_go_wrong_with_its_copy(given, opened, monkeypatch):
    """The copy is closed again."""

    class Refusing(socket.socket):
        def __init__(self, *args, **kwargs):
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

    sock = given("tcp")
    monkeypatch.setattr(listeners_module, "Socket", Refusing)
    with none_stays_open(), pytest.raises(BindError, match="Cannot allocate memory"):
        opened(f"fd:{sock.fileno()}")


def test_sockets_of_systemd(given, opened, monkeypatch):
    """All of a name are listened on."""
    first, second, third = given("tcp"), given("unix"), given("tcp")
    passed = {"web": [first.fileno(), second.fileno()], "admin": [third.fileno()]}
    monkeypatch.setattr(listeners_module, "passed_sockets", lambda: passed)
    found = opened("systemd:web", "uwsgi://systemd:admin")
    assert [listener.address for listener in found] == [sock.getsockname() for sock in (first, second, third)]
    assert [listener.bind.protocol for listener in found] == ["http", "http", "uwsgi"]


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        ({"web": [3], "admin": [4]}, "of this name, only admin, web$"),
        ({}, "of this name, none at all; is there a socket"),
    ],
)
def test_sockets_that_systemd_has_not_passed(passed, text, opened, monkeypatch):
    monkeypatch.setattr(listeners_module, "passed_sockets", lambda: passed)
    with pytest.raises(BindError, match=text):
        opened("systemd:shop")


def test_sockets_that_systemd_has_passed_to_another(opened, monkeypatch):
    """As core/systemd.py explains it."""
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", "1")
    with pytest.raises(BindError, match="systemd:web: systemd passed its sockets to process 1, and this is"):
        opened("systemd:web")
