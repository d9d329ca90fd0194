"""Who is a proxy: addresses, networks, and the other ends of unix sockets."""

import grp
import os
import pwd
import socket

import pytest

from aserve.proxies import peers as peers_module
from aserve.proxies.peers import Credentials, Peers, credentials_of, pack, unpack


@pytest.mark.parametrize(
    ("items", "inside", "outside"),
    [
        (["10.0.0.0/8"], ["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"], ["11.0.0.0", "9.255.255.255", "::a01:203"]),
        (["192.0.2.7"], ["192.0.2.7"], ["192.0.2.6", "192.0.2.8", "", "x", "192.0.2.7:80", "192.0.2.07"]),
        (["2001:db8::/32"], ["2001:db8::", "2001:DB8:ffff::1"], ["2001:db9::", "10.0.0.1"]),
        (["fe80::/10"], ["fe80::1%eth0", "fe80::1"], ["fec0::1"]),
        (["::ffff:192.0.2.0/120"], ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.3.7"]),
        (["::ffff:192.0.2.7"], ["192.0.2.7"], ["192.0.2.8"]),
        (["10.0.0.1", "10.0.0.3", "::1"], ["10.0.0.1", "10.0.0.3", "::1"], ["10.0.0.2", "::2"]),
        (["unix"], [], ["10.0.0.1", ""]),
    ],
)
def test_addresses_are_inside_a_network_or_not(items, inside, outside):
    """An address of IPv4 is also found where IPv6 wraps it."""
    peers = Peers(items)
    for _ in range(2):  # the second time from memory
        assert [peers.has_address(address) for address in inside] == [True] * len(inside)
        assert [peers.has_address(address) for address in outside] == [False] * len(outside)
    assert all(map(peers.has_peer, inside)) and not any(map(peers.has_peer, outside))


def test_whoever_connects_is_meant_by_a_star():
    """A star means nobody named by a peer."""
    peers = Peers(["*"])
    assert peers.has_peer("203.0.113.7") and peers.has_every_unix and peers.has_unix_peer(None)
    assert not peers.has_address("203.0.113.7")


@pytest.mark.parametrize(
    ("items", "everybody", "needs", "uid_33", "gid_33"),
    [
        ([], False, False, False, False),
        (["10.0.0.1"], False, False, False, False),
        (["unix"], True, False, True, True),
        (["unix:uid=33"], False, True, True, False),
        (["unix:gid=33"], False, True, False, True),
        (["unix:uid=33", "unix:gid=33"], False, True, True, True),
        (["unix:uid=33", "unix"], True, False, True, True),
    ],
)
def test_unix_peers_are_everybody_or_an_account(items, everybody, needs, uid_33, gid_33):
    """Everybody at the other end of a unix socket, or who has an account's numbers."""
    peers = Peers(items)
    assert (peers.has_every_unix, peers.needs_credentials) == (everybody, needs)
    assert peers.has_unix_peer(Credentials(33, 1)) is uid_33
    assert peers.has_unix_peer(Credentials(1, 33)) is gid_33
    assert peers.has_unix_peer(Credentials(1, 1)) is everybody
    assert peers.has_unix_peer(None) is everybody


def test_accounts_have_names():
    """A user or group may be given by its name, which must exist."""
    uid, gid = os.getuid(), os.getgid()
    peers = Peers([f"unix:uid={pwd.getpwuid(uid).pw_name}"])
    assert peers.has_unix_peer(Credentials(uid, gid + 1)) and not peers.has_unix_peer(Credentials(uid + 1, gid))
    assert Peers([f"unix:gid={grp.getgrgid(gid).gr_name}"]).has_unix_peer(Credentials(uid + 1, gid))
    for kind, what in (("uid", "user"), ("gid", "group")):
        with pytest.raises(LookupError) as caught:
            Peers([f"unix:{kind}=no-such-account"])
        assert caught.value.args == (f"there is no {what} 'no-such-account'",)


@pytest.mark.skipif(peers_module.SO_PEERCRED is None, reason="only Linux tells who is at the other end")
def test_credentials_come_from_the_kernel():
    """The kernel tells who is at the other end of a unix socket, and of no other."""
    ends = socket.socketpair()
    assert credentials_of(ends[0]) == (os.geteuid(), os.getegid())
    for end in ends:
        end.close()
    assert credentials_of(ends[0]) is None


def test_a_platform_that_does_not_tell(monkeypatch):
    """Where the kernel does not tell, nobody is known."""
    monkeypatch.setattr(peers_module, "SO_PEERCRED", None)
    assert credentials_of(None) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.01", None),
        ("192.0.2", None),
        ("192.0.2.1 ", None),
        ("0x7f.0.0.1", None),
        ("::1%lo", None),
        ("\xe9", None),
        ("\0", None),
    ],
)
def test_pack_gives_an_address_one_text(text, shown):
    """An address has one text, and octets; what is none has neither."""
    packed = pack(text)
    assert (None if packed is None else unpack(packed)) == shown
