"""One item of --trusted-proxies.

Owns:     Peer, and its parser.
Thread:   any; a Peer never changes.
Spec:     RFC 4632 (CIDR); unix(7), SO_PEERCRED.
Not here: the comparison with an address (proxies/peers.py).
"""

from __future__ import annotations

import ipaddress
import socket
import sys

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern

# PyPy's socket module lacks the name; this is the number on Linux's usual architectures.
SO_PEERCRED: int | None = getattr(socket, "SO_PEERCRED", 17 if sys.platform == "linux" else None)

ACCOUNT_NAME = r"[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,255}\$?"  # or a number
ACCOUNT = lazy_pattern(rf"(uid|gid)=({ACCOUNT_NAME})")
_ALL_V4_IN_V6 = ipaddress.ip_network("::ffff:0:0/96")


class Peer(NamedTuple):
    """One item of --trusted-proxies; `str()` is the text."""

    kind: str  # "any", "network", "unix", "uid" or "gid"
    value: str = ""  # the network, or the account

    def __str__(self) -> str:
        if self.kind in ("uid", "gid"):
            return f"unix:{self.kind}={self.value}"
        return {"any": "*", "unix": "unix"}.get(self.kind, self.value)


def parse_peer(text: str) -> Peer:
    """
    Parse one item: an address, a network, `unix`, `unix:uid=33`, `unix:gid=www-data`, or `*`.

    Raises:
        ValueError: not an item; the text says why.
    """
    if text == "*":
        return Peer("any")
    if text == "unix":
        return Peer("unix")
    if text.startswith("unix:"):
        account = ACCOUNT.fullmatch(text, len("unix:"))
        if account is None:
            raise ValueError(f"{text!r} is not like 'unix:uid=33' or 'unix:gid=www-data'")
        if SO_PEERCRED is None:
            raise ValueError(f"{text!r}: this platform does not tell the user of a peer; give 'unix'")
        return Peer(account[1], account[2])
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is neither an address nor a network such as 10.0.0.0/8") from None
    if not network.prefixlen or network == _ALL_V4_IN_V6:
        raise ValueError(f"{text!r} would make every client a proxy; if every peer is one, write '*'")
    if "/" in text and ipaddress.ip_address(text.partition("/")[0]) != network.network_address:
        raise ValueError(f"{text!r} has bits behind its prefix; '{network}' has none")
    return Peer("network", str(network) if "/" in text else str(network.network_address))
