"""Addresses named by binds: which of one configuration meet, and the words where the kernel refuses one."""

import errno
import os
import socket
import tempfile

import pytest

from aserve.connections import addresses
from aserve.connections.addresses import binds_beside, is_loopback, is_v6_only, look_up, remedy, remove_stale, unmapped
from aserve.core.errors import BindError
from aserve.features import Config
from aserve.settings import parse_bind

BOTH = [
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("0.0.0.0", 8000)),
    (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::", 8000, 0, 0)),
]


@pytest.fixture
def both_families(monkeypatch):
    """An empty host means both families here, whatever this machine has."""
    ask = socket.getaddrinfo
    monkeypatch.setattr(
        addresses.socket, "getaddrinfo", lambda host, *args, **named: ask(host, *args, **named) if host else BOTH
    )


@pytest.mark.parametrize(
    ("host", "bind", "others", "expected"),
    [
        ("::", "[::]:8000", [], False),
        ("::", "[::]:8000", ["0.0.0.0:8000"], True),
        ("::", "[::]:8000", ["127.0.0.1:8000"], True),
        ("::", "[::]:8000", ["https://0.0.0.0:8000"], True),
        ("::", "[::]:8000", ["0.0.0.0:8001", "[::1]:8000", "unix:/run/s", "fd:3"], False),
        ("::", "[::]:8000", ["no-such-host.invalid:8000"], False),
        ("::", "[::]:0", ["0.0.0.0:0"], False),
        ("::", ":8000", [], True),
        ("::", ":0", [], True),
        ("::1", "[::1]:8000", [], True),
        ("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:8000", [], False),
    ],
    ids=str,
)
def test_whether_ipv4_is_left_alone(both_families, host, bind, others, expected):
    """All IPv6 addresses take IPv4 as well, unless the configuration has the port for IPv4 by itself."""
    assert is_v6_only(host, parse_bind(bind), [parse_bind(other) for other in others]) is expected


@pytest.mark.parametrize(
    ("bind", "asked"),
    [
        ("127.0.0.1:1", b"127.0.0.1"),
        ("[::1]:1", b"::1"),
        ("localhost:1", "localhost"),
        ("127.1:1", "127.1"),
        (":1", None),
    ],
)
def test_what_needs_no_encoding_is_not_encoded(monkeypatch, bind, asked):
    """Only a name needs the tables of idna, which take time and memory in each process."""
    hosts = []
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda host, *args, **named: hosts.append(host) or [])
    assert look_up(parse_bind(bind)) == [] and hosts == [asked]


@pytest.mark.parametrize("bind", ["a..b:1", "1..2:1", "no-such-host.invalid:1"])
def test_a_host_that_is_not_found(bind):
    """The error names the host, whatever its fault."""
    with pytest.raises(BindError, match=rf"cannot listen on {bind}: the host .* was not found \(.+\)"):
        look_up(parse_bind(bind))


def test_what_a_configuration_listens_on_besides():
    """A configuration listens on its other binds, and on addresses of own settings."""
    config = Config(bind=["[::]:1", ":2"], metrics="0.0.0.0:1", stats=":3", agent_check=":4")
    assert sorted(map(str, binds_beside(config, [parse_bind(":2")]))) == ["0.0.0.0:1", ":3", ":4", "[::]:1"]
    assert binds_beside(Config(bind=[":2"]), [parse_bind(":2")]) == []


@pytest.mark.parametrize(
    ("bind", "other", "is_own"),
    [
        ("127.0.0.1:8000", "127.0.0.1:8000", True),
        ("127.0.0.1:8000", "uwsgi://0.0.0.0:8000", True),
        (":8000", "127.0.0.1:8000", True),
        ("127.0.0.1:8000", "127.0.0.1:8001", False),
        ("127.0.0.1:8000", "127.0.0.2:8000", False),
        ("127.0.0.1:8000", "[::1]:8000", False),
        ("127.0.0.1:8000", "unix:/run/s", False),
        ("unix:@name", "unix:@name", True),
        ("unix:@name", "unix:@other", False),
        ("fd:3", "fd:3", False),
    ],
)
def test_an_address_in_use(both_families, bind, other, is_own):
    """The message tells whether the configuration is in its own way, or another program."""
    said = remedy(OSError(errno.EADDRINUSE, "in use"), parse_bind(bind), [parse_bind(other)])
    assert ("the settings name this address twice" in said) is is_own
    assert ("another program listens there" in said) is not is_own


def test_the_same_unix_socket_twice(tmp_path):
    """By any path the first socket is not taken for another program."""
    os.symlink("s", tmp_path / "link")
    with socket.socket(socket.AF_UNIX) as first:
        first.bind(str(tmp_path / "s"))
        first.listen()
        bind = parse_bind(f"unix:{tmp_path}/s")
        for other in (f"unix:{tmp_path}/s", f"unix:{tmp_path}/link"):
            with pytest.raises(BindError, match="the settings name this address twice"):
                remove_stale(bind, [parse_bind(other)])


@pytest.mark.parametrize("mode", [0o666, 0o600])
def test_a_socket_of_another_user(mode):
    """A dead server's socket that this user may not remove, or not connect to, is told with both users, and stays."""
    if os.geteuid():
        pytest.skip("needs root, to become another user")
    # Not in tmp_path: each pytest that starts closes the folder above to other users.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as dead:
        path = f"{folder}/s"
        dead.bind(path)
        os.chmod(path, mode)
        os.chmod(folder, 0o755)
        os.seteuid(54321)
        try:
            with pytest.raises(BindError, match="the user 54321 may not replace this socket of the user root; stop"):
                remove_stale(parse_bind(f"unix:{path}"), [])
        finally:
            os.seteuid(0)
        assert os.path.exists(path)


def test_a_link_that_leads_nowhere(tmp_path):
    """A dangling link is told as such, and stays."""
    os.symlink("gone", tmp_path / "link")
    with pytest.raises(BindError, match="the path is a link to 'gone', where nothing is; remove the link"):
        remove_stale(parse_bind(f"unix:{tmp_path}/link"), [])
    assert os.path.islink(tmp_path / "link")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.5.5.5", True), ("::1", True), ("::ffff:127.0.0.1", True), ("fe80::1%eth0", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_loopback_addresses_are_known(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("::ffff:192.0.2.1", "192.0.2.1"), ("192.0.2.1", "192.0.2.1"), ("::1", "::1"), ("::ffff:0:1", "::ffff:0:1"), ("", "")],
)  # fmt: skip
def test_ipv4_as_such(host, expected):
    """A client of IPv4 has the same address on each socket."""
    assert unmapped(host) == expected
