"""Addresses of binds: collisions within one configuration, and the remedy for an address refused by the kernel.

Owns:     looking up a bind's addresses, whether `[::]` takes IPv4 as well, the texts of the errors, stale unix sockets.
Thread:   event loop only, before serving.
Not here: the spec's grammar (settings/bind.py), opening sockets (listeners.py).
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.accounts import name_user
from ..core.errors import BindError
from ..settings import Bind, EngineSettings, parse_bind

_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
_MAPPED = "::ffff:"  # RFC 4291 2.5.5.2: as the kernel writes an IPv4 client of a socket of both families


def binds_beside(config: EngineSettings, binds: Iterable[Bind]) -> list[Bind]:
    """Return the addresses of a configuration beside these."""
    beside = [parse_bind(text) for text in config.places]
    for bind in binds:
        beside.remove(bind)
    return beside


def look_up(bind: Bind) -> list[tuple[Any, ...]]:
    """
    Return getaddrinfo's results for a bind's host, each once.

    Raises:
        BindError: the host is not found.
    """
    # As octets, an address needs no encoding for names (idna), whose tables take 2 ms to load.
    host = bind.host.encode() if is_address(bind.host) else bind.host or None
    try:
        found = socket.getaddrinfo(host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as exc:  # UnicodeError: an empty label, or a label too long
        why = exc.strerror if isinstance(exc, OSError) else "no host name"
        raise BindError(f"cannot listen on {bind}: the host {bind.host!r} was not found ({why})") from None
    return list(dict.fromkeys(found))


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_v6_only(host: str, bind: Bind, others: Iterable[Bind]) -> bool:
    """
    Whether a socket at this IPv6 address of a bind must leave IPv4 alone.

    `[::]` takes IPv4 clients by the kernel's default (net.ipv6.bindv6only), as with other servers, unless a bind has IPv4 addresses on that port.
    """
    if host != "::":
        return not host.startswith(_MAPPED)
    # With port 0 only addresses of the same bind get the same port.
    same_port = [bind, *(other for other in others if other.kind == "tcp" and other.port == bind.port != 0)]
    return any(family == socket.AF_INET for each in same_port for family, _ in _hosts(each))


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    return ipaddress.ip_address(unmapped(host.partition("%")[0])).is_loopback


def unmapped(host: str) -> str:
    """Return an address as text, an IPv4 one without the prefix of a socket of both families (::ffff:192.0.2.1)."""
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def remedy(exc: OSError, bind: Bind, others: Sequence[Bind]) -> str:
    """Return the fault and the remedy; `others`: the other binds of the configuration."""
    number: int | None = exc.errno
    if number == errno.EADDRINUSE:
        if any(_meet(bind, other) for other in others):
            return _TWICE
        which = f" ('ss -ltnp sport = :{bind.port}' tells which)" if bind.kind == "tcp" else ""
        return f"another program listens there{which}; stop it or choose another address"
    if number == errno.EACCES:
        return (
            "ports below 1024 are for root (with --user), CAP_NET_BIND_SERVICE, or a socket of systemd (`aserve docs systemd`); or choose a higher one, "
            f"such as {bind._replace(port=8000 + bind.port)}"
            if bind.kind == "tcp"
            else f"the {name_user(os.geteuid())} may not make the socket in the folder {os.path.dirname(bind.path)!r}"
        )
    if number == errno.EADDRNOTAVAIL:
        return "this machine has no such address; 0.0.0.0 or [::] mean all that it has"
    if number == errno.ENOENT:
        return f"the folder {os.path.dirname(bind.path)!r} does not exist"
    return exc.strerror or str(exc)


def remove_stale(bind: Bind, others: Sequence[Bind]) -> None:
    """
    Remove the socket file of a dead server; refuse to touch anything else.

    Raises:
        BindError: the path is another file, a live server's socket, or another user's.
    """
    try:
        found = os.stat(bind.path)
    except OSError:
        if os.path.islink(bind.path):
            raise BindError(
                f"cannot listen on {bind}: the path is a link to {os.readlink(bind.path)!r}, where nothing is; remove "
                "the link, or give the path of the socket itself"
            ) from None
        return  # no such file; or bind() will raise the error
    if not stat.S_ISSOCK(found.st_mode):
        raise BindError(
            f"cannot listen on {bind}: the file exists and is not a socket; remove it or choose another path"
        )
    why = "another program listens on this socket; stop it or choose another path"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            try:
                probe.connect(bind.path)
            except ConnectionRefusedError:
                os.unlink(bind.path)  # proven dead: no program listens
                return
        except PermissionError:  # to connect, or to remove the file
            me, owner = name_user(os.geteuid()), name_user(found.st_uid)
            why = f"the {me} may not replace this socket of the {owner}; stop its server, if there is one, and remove the file"
        except OSError:
            pass  # a full backlog: its server may be alive
    raise BindError(f"cannot listen on {bind}: {_TWICE if any(_meet(bind, other) for other in others) else why}")


_TWICE = "the settings name this address twice (--bind, --metrics, --stats, --agent-check); remove one, or change it"


def _meet(bind: Bind, other: Bind) -> bool:
    if bind.kind != other.kind:
        return False
    if bind.kind == "unix":
        return bind.path == other.path or os.path.realpath(bind.path) == os.path.realpath(other.path)
    if bind.kind != "tcp" or bind.port != other.port:
        return False
    mine, its = _hosts(bind), _hosts(other)
    return any(
        family == another and (host == name or _ANY[family] in (host, name))
        for family, host in mine
        for another, name in its
    )


def _hosts(bind: Bind) -> set[tuple[Any, str]]:
    try:
        return {(family, address[0]) for family, _, _, _, address in look_up(bind)}
    except BindError:
        return set()
