"""From bind specs to listening sockets: all or none, and one line for a fault."""

import errno
import grp
import os
import pathlib
import socket
import stat
import sys

import pytest
from harness.asking import is_open
from harness.front import free_port

from aserve.connections import listeners as listeners_module
from aserve.connections.listeners import UNSENT_BYTES, UnixRights, bind_listeners, limit_unsent, open_listeners
from aserve.core.errors import BindError
from aserve.settings import Bind, EngineSettings, parse_bind


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


# TCP


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no such option")
def test_what_the_kernel_takes_for_a_client_that_does_not_read(opened):
    """A connection inherits the limit; without a limit the kernel would take megabytes."""
    [listener] = opened("127.0.0.1:0")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.address)
        listener.socket.settimeout(30)
        accepted, _ = listener.socket.accept()
        with accepted:
            accepted.setblocking(False)
            with pytest.raises(BlockingIOError):
                for _ in range(1000):
                    taken = accepted.send(bytes(1 << 16))
            assert taken
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES
            limit_unsent(accepted, 0)
            assert accepted.send(bytes(1 << 16))
        limit_unsent(accepted, 0)  # closed: no harm


def test_other_sockets_have_no_such_limit():
    """A unix socket is left alone."""
    ends = socket.socketpair()
    for end in ends:
        limit_unsent(end, UNSENT_BYTES)
        end.close()


def test_tcp_opens_one_socket(opened):
    """One IPv4 address is one socket, non-blocking, on a port picked by the kernel."""
    (listener,) = opened("127.0.0.1:0")
    host, port = listener.address
    assert host == "127.0.0.1" and port > 0 and listener.socket.gettimeout() == 0
    assert listener.url == f"http://127.0.0.1:{port}"
    assert listener.server_name_and_port == ("127.0.0.1", str(port))
    assert is_open(listener.address)
    listener.close()
    assert not is_open((host, port))


@needs_ipv6
def test_tcp_v6_takes_no_ipv4_clients(opened):
    """An IPv6 address stands in brackets in a URL, and takes no IPv4 clients."""
    (listener,) = opened("[::1]:0")
    assert listener.url == f"http://[::1]:{listener.address[1]}"
    assert listener.address[0] == listener.server_name_and_port[0] == "::1"
    assert listener.socket.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
    assert is_open(listener.address)


@needs_ipv6
@pytest.mark.parametrize("count", [1, 2])
def test_all_interfaces_of_v6(opened, count):
    """[::] takes IPv4 clients by the kernel's default; a bind of IPv4 beside, in either order, has IPv4 alone."""
    (free,) = opened("0.0.0.0:0")
    port = free.address[1]
    free.close()
    binds = [f"[::]:{port}", f"127.0.0.1:{port}"][:count]
    v6, *v4 = opened(*binds)
    default = pathlib.Path("/proc/sys/net/ipv6/bindv6only").read_text() == "0\n" if sys.platform == "linux" else True
    assert v6.socket.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == (count == 2 or not default)
    assert is_open(("127.0.0.1", port)) is (count == 2 or default)
    assert is_open(("::1", port))
    for listener in (v6, *v4):
        listener.close()
    assert len(opened(*reversed(binds))) == count


@needs_ipv6
def test_all_interfaces_mean_both_families(opened):
    """No host means both families, on one port; the shown URLs work."""
    found = opened(":0")
    assert {listener.address[0] for listener in found} == {"0.0.0.0", "::"}
    assert len({listener.address[1] for listener in found}) == 1
    port = found[0].address[1]
    urls = {f"http://127.0.0.1:{port}", f"http://[::1]:{port}"}
    assert {listener.url for listener in found} == urls
    assert {listener.server_name_and_port for listener in found} == {(socket.gethostname(), str(port))}


@needs_ipv6
@pytest.mark.parametrize("scheme", ["uwsgi", "scgi", "proxy+http"])
def test_all_interfaces_of_what_is_for_programs(opened, scheme):
    """Such an address is not for a browser: the log must not look private."""
    found = opened(f"{scheme}://:0")
    port = found[0].address[1]
    assert {listener.url for listener in found} == {f"{scheme}://0.0.0.0:{port}", f"{scheme}://[::]:{port}"}


@pytest.mark.parametrize(
    ("binds", "count"),
    [
        (["uwsgi://0.0.0.0:0"], 1),
        (["scgi://0.0.0.0:0"], 1),
        (["uwsgi://0.0.0.0:0", "scgi://0.0.0.0:0", "uwsgi://127.0.0.1:0"], 2),
        (["uwsgi://127.0.0.1:0", "uwsgi://localhost:0"], 0),
        (["0.0.0.0:0", "https://0.0.0.0:0", "proxy+http://0.0.0.0:0"], 0),
    ],
    ids=str,
)
def test_who_is_believed_without_a_question(opened, caplog, binds, count):
    """uwsgi and SCGI beyond this machine: one warning, with each such listener and advice."""
    opened(*binds)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == (count > 0)
    for text in said:
        assert text.count("://0.0.0.0:") == count and "127.0.0.1 or a unix socket" in text and "REMOTE_USER" in text


def test_who_may_connect_to_a_unix_socket(opened, caplog, tmp_path):
    """A unix socket's file rights decide: no warning."""
    opened(f"uwsgi://unix:{tmp_path}/s")
    assert caplog.records == []


def test_a_name_listens_on_its_addresses(opened):
    assert all(listener.address[0] in ("127.0.0.1", "::1") for listener in opened("localhost:0"))


def test_several_specs_open_several_sockets(opened):
    assert len(opened("127.0.0.1:0", "127.0.0.1:0")) == 2


def test_a_port_in_use(opened):
    """The message tells the fault, how to find the program in the way, and the remedy."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BindError) as caught:
            bind_listeners(EngineSettings(bind=f"127.0.0.1:{port}"))
    text = str(caught.value)
    assert text.startswith(f"cannot listen on 127.0.0.1:{port}: another program listens there")
    assert f"sport = :{port}" in text and "--bind" in text and "\n" not in text


def test_the_same_address_twice(opened):
    """A repeated spec is in the way of the first, and is told so: BindError, not an OSError later."""
    port = free_port()
    with pytest.raises(BindError, match="the settings name this address twice"):
        opened(f"127.0.0.1:{port}", f"127.0.0.1:{port}")
    assert not is_open(("127.0.0.1", port))


def test_all_or_none(opened, tmp_path):
    """When the last spec cannot be bound, the rest is closed again, and the files are gone."""
    path = tmp_path / "s"
    (first,) = opened("127.0.0.1:0")
    port = first.address[1]
    first.close()
    with pytest.raises(BindError):
        opened(f"127.0.0.1:{port}", f"unix:{path}", f"unix:{tmp_path}/no/such")
    assert not is_open(("127.0.0.1", port)) and not path.exists()


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("no-such-host.invalid:80", "the host 'no-such-host.invalid' was not found"),
        ("a..b:80", "the host 'a..b' was not found"),
        ("x" * 70 + ".example:80", "was not found"),
        ("192.0.2.1:0", "this machine has no such address"),
    ],
)
def test_hosts_that_are_not_there(spec, text, opened):
    """An unknown or foreign host is one line."""
    with pytest.raises(BindError, match=text) as caught:
        opened(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "spec", "text"),
    [
        (errno.EACCES, "127.0.0.1:80", "ports below 1024 are for root"),
        (errno.EADDRINUSE, "127.0.0.1:80", "another program listens there"),
        (errno.EPERM, "127.0.0.1:80", os.strerror(errno.EPERM)),
        (errno.EACCES, "unix:/x/s", "the user root may not make the socket in the folder '/x'"),
        (errno.EADDRINUSE, "unix:/x/s", "another program listens there; stop it"),
        (errno.ENOENT, "unix:/x/s", "the folder '/x' does not exist"),
    ],
)
def test_what_bind_may_say(number, spec, text, opened, monkeypatch):
    """Any answer of the kernel to bind() comes with a remedy, or at least in the kernel's words."""

    class Refusing(socket.socket):
        def bind(self, address):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(listeners_module.socket, "socket", Refusing)
    with pytest.raises(BindError, match=text):
        opened(spec)


def test_families_that_are_not_there(opened, monkeypatch):
    """A family unknown to the kernel is left out; without any there is nothing to listen on."""

    class Familiar(socket.socket):
        refused = ()

        def __init__(self, family=socket.AF_INET, *args, **kwargs):
            if family in self.refused:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported")
            super().__init__(family, *args, **kwargs)

    monkeypatch.setattr(listeners_module.socket, "socket", Familiar)
    Familiar.refused = (socket.AF_INET6,)
    assert [listener.address[0] for listener in opened(":0")] == ["0.0.0.0"]
    Familiar.refused = (socket.AF_INET6, socket.AF_INET)
    with pytest.raises(BindError, match="no such address family"):
        opened(":0")


def test_a_name_with_an_address_that_is_not_here(opened, monkeypatch):
    """The second address of a name may be missing on this machine; the first may not."""
    here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    away = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))
    for order, count in (([here, away], 1), ([away, here], None)):
        monkeypatch.setattr(listeners_module.socket, "getaddrinfo", lambda *_, o=order, **__: o)
        if count:
            assert len(opened("both.example:0")) == count
        else:
            with pytest.raises(BindError, match="no such address"):
                opened("both.example:0")


def test_the_second_address_in_use(opened, monkeypatch):
    """When a later address of one spec is taken, the earlier ones are closed again."""
    with socket.socket() as other:
        port = free_port()
        other.bind(("127.0.0.2", port))
        other.listen()
        both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
        monkeypatch.setattr(listeners_module.socket, "getaddrinfo", lambda *_, **__: both)
        with pytest.raises(BindError, match="another program"):
            opened(f"both.example:{port}")
        assert not is_open(("127.0.0.1", port))


# Unix sockets


def test_a_unix_socket_is_a_file(opened, tmp_path):
    """A unix socket is a file; the server name is fit for a URL."""
    path = str(tmp_path / "s")
    (listener,) = opened(f"unix:{path}")
    assert listener.address == path and listener.url == f"unix:{path}"
    assert listener.server_name_and_port == ("localhost", "80")
    assert is_open(path)
    listener.close()
    assert not os.path.exists(path)


def test_unix_with_tls(opened, tmp_path):
    """The options of a bind are not part of the name; the port is https's."""
    (listener,) = opened(f"https://unix:{tmp_path}/s?key=k")
    assert listener.url == f"https://unix:{tmp_path}/s" and listener.server_name_and_port == ("localhost", "443")
    listener.close()


def test_a_stale_file_is_replaced(opened, tmp_path):
    """The file of a killed server is in nobody's way."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
        dead.listen()
    assert os.path.exists(path)
    opened(f"unix:{path}")
    assert is_open(path)


def test_a_live_one_is_refused(opened, tmp_path):
    """A served socket is not taken from the server, not even before the first accept."""
    path = str(tmp_path / "s")
    opened(f"unix:{path}")
    with pytest.raises(BindError, match="another program listens on this socket"):
        opened(f"unix:{path}")
    assert is_open(path)


def test_a_live_one_with_a_full_backlog_is_refused(opened, tmp_path):
    """A server too busy to accept is alive."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(path)
        busy.listen(0)
        clients = []
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            clients.append(client)
            if client.connect_ex(path):
                break
        with pytest.raises(BindError, match="another program listens"):
            opened(f"unix:{path}")
        for client in clients:
            client.close()
    assert os.path.exists(path)


@pytest.mark.parametrize("make", [pathlib.Path.touch, pathlib.Path.mkdir])
def test_what_is_no_socket_is_not_touched(make, opened, tmp_path):
    """A file or folder of the name is somebody's, and stays."""
    path = tmp_path / "s"
    make(path)
    with pytest.raises(BindError, match="the file exists and is not a socket"):
        opened(f"unix:{path}")
    assert path.exists()


def test_a_folder_that_is_not_there(opened, tmp_path):
    """The message names the folder."""
    with pytest.raises(BindError, match=f"the folder '{tmp_path}/no' does not exist"):
        opened(f"unix:{tmp_path}/no/s")


def test_a_successors_file_is_left_alone(opened, tmp_path):
    """A server with a late end does not remove the socket of the successor."""
    path = str(tmp_path / "s")
    (old,) = opened(f"unix:{path}")
    os.unlink(path)
    (new,) = opened(f"unix:{path}")
    old.close()
    assert is_open(path)
    new.close()
    assert not os.path.exists(path)


def test_a_file_that_is_gone_already(opened, tmp_path):
    """Somebody else may have removed the file."""
    path = str(tmp_path / "s")
    (listener,) = opened(f"unix:{path}")
    os.unlink(path)
    listener.close()


def test_a_file_that_may_not_be_removed(opened, tmp_path, monkeypatch):
    """A server without rights still closes."""

    def refuse(path):
        raise PermissionError(errno.EACCES, "no")

    path = str(tmp_path / "s")
    (listener,) = opened(f"unix:{path}")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        listener.close()
    assert listener.socket.fileno() == -1
    assert not is_open(path)


def test_a_bind_may_be_built_by_hand(opened):
    """A Bind with an empty host is all interfaces."""
    found = open_listeners([Bind("tcp", "127.0.0.1", 0)])
    assert found[0].bind == Bind("tcp", "127.0.0.1", 0)
    found[0].close()


def mode_of(path):
    status = os.stat(path)
    return stat.S_IMODE(status.st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o777])
def test_the_mode_lets_all_users_connect(opened, tmp_path, umask):
    """All users may connect, whatever the umask, unless the rights say otherwise: a front server is another user. Without a mode the umask decides."""
    before = os.umask(umask)
    try:
        opened(f"unix:{tmp_path}/s")
        (narrow,) = open_listeners([parse_bind(f"unix:{tmp_path}/n")], UnixRights(0o660))
        (masked,) = open_listeners([parse_bind(f"unix:{tmp_path}/m")], UnixRights(None))
    finally:
        os.umask(before)
    assert [mode_of(tmp_path / name) for name in "snm"] == [0o666, 0o660, 0o777 & ~umask]
    narrow.close()
    masked.close()


def test_the_rights_are_set_before_anybody_can_connect(tmp_path, monkeypatch):
    """While the file has the first mode, nobody listens."""
    path = str(tmp_path / "s")
    chmod = os.chmod

    def watch(file, mode):
        assert not is_open(path)
        chmod(file, mode)

    monkeypatch.setattr(os, "chmod", watch)
    (listener,) = open_listeners([parse_bind(f"unix:{path}")])
    assert is_open(path)
    listener.close()


@pytest.mark.parametrize("owner", [str(os.getuid()), None])
def test_the_owner_may_be_number_or_name(tmp_path, owner):
    """Owner and group may be given by number or name; the process's own need no rights."""
    rights = UnixRights(0o600, owner, grp.getgrgid(os.getgid()).gr_name)
    (listener,) = open_listeners([parse_bind(f"unix:{tmp_path}/s")], rights)
    status = os.stat(tmp_path / "s")
    assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())
    listener.close()


@pytest.mark.parametrize(
    ("rights", "text"),
    [
        (UnixRights(owner="no-such-user"), "no such user: 'no-such-user'; see --unix-owner"),
        (UnixRights(group="no-such-group"), "no such group: 'no-such-group'"),
    ],
)
def test_an_owner_that_is_not_there(rights, text, tmp_path):
    """An unknown name is one line, and no file is left behind."""
    with pytest.raises(BindError, match=text):
        open_listeners([parse_bind(f"unix:{tmp_path}/s")], rights)
    assert os.listdir(tmp_path) == []


def test_an_owner_who_may_not_be_set(tmp_path, monkeypatch):
    """Only root may give a file away: the message says so, and no file is left behind."""

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(BindError, match="only root may give a socket to another user"):
        open_listeners([parse_bind(f"unix:{tmp_path}/s")], UnixRights(owner="0"))
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_an_abstract_socket_has_no_file(opened, tmp_path, monkeypatch):
    """An abstract socket has no file: nothing to be stale, to set rights of, or to remove."""
    monkeypatch.chdir(tmp_path)
    name = f"aserve-test-{os.getpid()}"
    (listener,) = opened(f"uwsgi://unix:@{name}")
    assert listener.address == f"\0{name}" and listener.url == f"uwsgi://unix:@{name}"
    assert listener.server_name_and_port == ("localhost", "80") and os.listdir(tmp_path) == []
    assert is_open(listener.address)
    with pytest.raises(BindError, match="another program listens there"):
        opened(f"unix:@{name}")
    listener.close()
    assert not is_open(f"\0{name}")


@pytest.mark.parametrize("spec", ["127.0.0.1:0", "unix:{}/s"])
def test_queued_clients_are_handed_out(opened, tmp_path, spec):
    """Clients queued by the kernel at a listener's end are handed out, with their octets."""
    (listener,) = opened(spec.format(tmp_path))
    clients = []
    for number in range(3):
        clients.append(socket.socket(socket.AF_UNIX if "unix" in spec else socket.AF_INET))
        clients[-1].connect(listener.address)
        clients[-1].send(b"%d" % number)
    address = listener.address
    queued = listener.take_queued()
    assert [sock.recv(9) for sock in queued] == [b"0", b"1", b"2"]
    assert not is_open(address) and os.listdir(tmp_path) == []
    for sock in clients + queued:
        sock.close()


def test_take_queued_where_a_listener_cannot_be_shut_down(opened, tmp_path, monkeypatch):
    """Elsewhere than on Linux the rest is done all the same."""
    monkeypatch.setattr(listeners_module.socket, "SHUT_RD", 99)
    (listener,) = opened(f"unix:{tmp_path}/s")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.address)
        (queued,) = listener.take_queued()
        queued.close()
