"""The peers that are the operator's proxies: the items of --trusted-proxies.

Owns:     Peers: whether an address, or the peer of a unix socket, is listed.
Thread:   any; a Peers never changes.
Spec:     RFC 4632 (CIDR); unix(7), SO_PEERCRED.
Not here: the grammar of an item (settings/peer.py), the claims that count (forwarded.py), the callers (trust.py,
          connections/accepting/greeting.py).
"""

from __future__ import annotations

import functools
import grp
import ipaddress
import pwd
import socket
import struct
from collections.abc import Iterable
from typing import Any, Callable

from ..core.named_tuple import NamedTuple
from ..settings.peer import SO_PEERCRED, parse_peer

_CREDENTIALS = struct.Struct("iII")  # process, user, group

# How many addresses are cached. Guess: more than any operator has proxies.
KNOWN_MAX = 1024

_V4_IN_V6 = bytes(10) + b"\xff\xff"


class Credentials(NamedTuple):
    """The process, user and group of the peer of a unix socket."""

    uid: int
    gid: int


class Peers:
    """
    All items of --trusted-proxies.

    Raises:
        LookupError: an account does not exist; the text names the account.
    """

    def __init__(self, items: Iterable[str]) -> None:
        peers = [parse_peer(item) for item in items]
        kinds = {peer.kind for peer in peers}
        self._is_any = "any" in kinds
        self._is_any_unix = self._is_any or "unix" in kinds
        self._uids = {_id_of(peer.value, _uid_of) for peer in peers if peer.kind == "uid"}
        self._gids = {_id_of(peer.value, _gid_of) for peer in peers if peer.kind == "gid"}
        # Of each family, the first address and the mask as numbers.
        self._networks: dict[int, list[tuple[int, int]]] = {4: [], 16: []}
        for peer in peers:
            if peer.kind == "network":
                network = ipaddress.ip_network(peer.value)
                first, mask = int(network.network_address), int(network.netmask)
                packed = network.network_address.packed
                if packed.startswith(_V4_IN_V6) and mask >> 32 == (1 << 96) - 1:
                    packed, first, mask = packed[12:], first & 0xFFFFFFFF, mask & 0xFFFFFFFF
                self._networks[len(packed)].append((first, mask))
        # Measured with CPython 3.11: 0.1 us for a cached address, 1.2 us for another.
        self.has_address: Callable[[str], bool] = functools.lru_cache(KNOWN_MAX)(self._has_address)

    @property
    def needs_credentials(self) -> bool:
        """Whether credentials decide if the peer of a unix socket is a proxy."""
        return not self._is_any_unix and bool(self._uids or self._gids)

    @property
    def has_every_unix(self) -> bool:
        """Whether every peer of a unix socket is a proxy."""
        return self._is_any_unix

    def has_peer(self, address: str) -> bool:
        """Whether a peer at this address is a proxy."""
        return self._is_any or self.has_address(address)

    def has_unix_peer(self, credentials: Credentials | None) -> bool:
        """Whether the peer of a unix socket with these credentials is a proxy; None: not known."""
        if self._is_any_unix:
            return True
        return credentials is not None and (credentials.uid in self._uids or credentials.gid in self._gids)

    def _has_address(self, address: str) -> bool:
        # "*" does not count here: the word means peers that connect, not addresses named in fields.
        packed = pack(address.partition("%")[0])  # the kernel's own text may have a zone (RFC 4007)
        if packed is None:
            return False
        number = int.from_bytes(packed, "big")
        return any(number & mask == first for first, mask in self._networks[len(packed)])


def pack(address: str) -> bytes | None:
    """Return the octets of an address, 4 for IPv4 mapped to IPv6; None: not an address."""
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return None
    return packed[12:] if packed.startswith(_V4_IN_V6) else packed


def unpack(packed: bytes) -> str:
    """Return the usual text of an address."""
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def credentials_of(sock: Any) -> Credentials | None:
    """Return the credentials of a unix socket's peer at the time of connecting; None: unknown to the kernel."""
    if SO_PEERCRED is None:
        return None
    try:
        octets = sock.getsockopt(socket.SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return None
    _, uid, gid = _CREDENTIALS.unpack(octets)
    return Credentials(uid, gid)


def _id_of(name: str, look_up: Callable[[str], int]) -> int:
    return int(name) if name.isdigit() else look_up(name)


def _uid_of(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise LookupError(f"there is no user {name!r}") from None


def _gid_of(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise LookupError(f"there is no group {name!r}") from None
