"""Bind specs: where to listen.

Owns:     Bind, and its parser.
Thread:   any; a Bind never changes.
Not here: opening sockets (connections/listeners.py), values of an https bind's options (table.py).
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from urllib.parse import quote, unquote

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern


class TLSSettings(NamedTuple):
    certificate: str
    key: str | None
    sni: tuple[str, ...]
    client_ca: str | None
    client_certificate: str
    tls_min: str
    ciphers: str


# Option names of a bind, the same as in the TOML file.
TLS_KEYS = tuple(name.replace("_", "-") for name in TLSSettings._fields)


class Bind(NamedTuple):
    """An address to listen at, and a protocol; `str()` is the spec without options."""

    kind: str  # "tcp" or "unix"; "fd" or "systemd": an inherited socket, maybe shared with other processes
    host: str = ""  # empty: all interfaces
    port: int = 0  # 0: the kernel picks one
    path: str = ""  # of a unix socket; "@name" is in Linux's abstract namespace
    name: str = ""  # of an inherited socket: the descriptor's number, or systemd's name
    protocol: str = "http"  # or "https", "uwsgi", "scgi"
    is_proxied: bool = False  # each connection begins with a header of the PROXY protocol
    options: tuple[tuple[str, str], ...] = ()  # of "https": settings of the TLS group for this bind alone

    @property
    def spec(self) -> str:
        """Return the whole spec, valid for `parse_bind`."""
        options = "&".join(f"{key}={quote(value, OPTION_SAFE)}" for key, value in self.options)
        return f"{self}?{options}" if options else str(self)

    @property
    def is_given(self) -> bool:
        """Whether the socket is inherited: another process has bound it."""
        return self.kind in GIVEN_KINDS

    @property
    def unix_address(self) -> str:
        """Return the address of a unix socket for bind() and connect()."""
        # unix(7): a NUL before the name is the abstract namespace, which has no files.
        return "\0" + self.path[1:] if self.is_abstract else self.path

    @property
    def is_abstract(self) -> bool:
        """Whether this is a unix socket without a file."""
        return self.path.startswith("@")

    def __str__(self) -> str:
        scheme = "" if self.protocol == "http" else f"{self.protocol}://"
        scheme = PROXIED + "http://" if self.is_proxied else scheme
        if self.is_given:
            return f"{scheme}{self.kind}:{self.name}"
        if self.kind == "unix":
            return f"{scheme}unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}{host}:{self.port}"


GIVEN_KINDS = ("fd", "systemd")
BIND_PROTOCOLS = ("http", "https", "uwsgi", "scgi")
OPTION_SAFE = "/:=*@+;"  # beside letters and digits: the unescaped characters of an option's value
PROXIED = "proxy+"  # before http: behind a balancer with the PROXY protocol
# sockaddr_un.sun_path holds 108 octets on Linux and 104 on macOS, the final NUL counted.
MAX_UNIX_PATH_BYTES = 107 if sys.platform == "linux" else 103
HOST = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}\Z")
DESCRIPTOR = lazy_pattern(r"[0-9]{1,9}\Z")
# systemd.socket(5), FileDescriptorName=; by default the unit's name.
SYSTEMD_NAME = lazy_pattern(r"[A-Za-z0-9_.@\\-]{1,255}\Z")
IPV6 = lazy_pattern(r"([0-9A-Fa-f:.]{2,45})(%[A-Za-z0-9_.-]{1,32})?\Z")  # with RFC 4007's zone


def parse_bind(text: str) -> Bind:
    """
    Parse one bind spec: [PROTOCOL://] and host:port, [v6]:port, :port, unix:/path, unix:@name, fd:N or systemd:NAME.

    fd://N and systemd://NAME are the last two with HTTP, as gunicorn writes the first. After https, options may follow:
    ?certificate=/path&key=/path, the keys of the TLS group, with %2C for a comma and the like.

    Raises:
        ValueError: not a bind spec; the text says why.
    """
    protocol, separator, place = text.rpartition("://")
    if not separator:
        return _parse_place(text)
    if protocol in GIVEN_KINDS:
        return _parse_place(f"{protocol}:{place}")
    is_proxied = protocol.startswith(PROXIED)
    if is_proxied and protocol != PROXIED + "http":
        raise ValueError(
            f"{text!r}: the PROXY protocol goes with plain HTTP only; '{PROXIED}http://{place}' would have both"
        )
    protocol = protocol[len(PROXIED) :] if is_proxied else protocol
    if protocol not in BIND_PROTOCOLS:
        raise ValueError(f"{text!r}: the protocol {protocol!r} is none of {', '.join(BIND_PROTOCOLS)}, {PROXIED}http")
    options: tuple[tuple[str, str], ...] = ()
    if protocol == "https":
        place, _, query = place.partition("?")
        options = tuple(_parse_option(option, text) for option in query.split("&") if option)
    place = place.rstrip("/") if place.count("/") == 1 else place
    return _parse_place(place)._replace(protocol=protocol, is_proxied=is_proxied, options=options)


def _parse_option(option: str, text: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if key not in TLS_KEYS:
        raise ValueError(f"{text!r}: {key!r} is none of the options {', '.join(TLS_KEYS)}")
    if not equals:
        raise ValueError(f"{text!r}: the option {key} has no value; write {key}=...")
    return key, unquote(value)


def _parse_place(text: str) -> Bind:
    if text.startswith("unix:"):
        return Bind("unix", path=_checked_unix_path(text[len("unix:") :]))
    kind, _, name = text.partition(":")
    if kind in GIVEN_KINDS:
        return Bind(kind, name=_checked_name(kind, name))
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        hint = f"127.0.0.1:{text}" if text.isdigit() else f"{text}:8000"
        raise ValueError(f"{text!r} has no port; {hint!r} would have one")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError(f"{text!r}: port {port!r} is not a number from 0 to 65535")
    return Bind("tcp", _checked_host(host, text), int(port))


def _checked_unix_path(path: str) -> str:
    if not path or "\0" in path:
        raise ValueError("'unix:' needs the path of a socket after it")
    if path.startswith("@"):
        if sys.platform != "linux":
            raise ValueError(f"'unix:{path}': only Linux has abstract sockets; give a path")
        if path == "@":
            raise ValueError("'unix:@' needs the name of an abstract socket after it")
    if len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
        raise ValueError(f"the socket path {path!r} is longer than {MAX_UNIX_PATH_BYTES} octets")
    return path


def _checked_name(kind: str, name: str) -> str:
    if kind == "fd":
        if not DESCRIPTOR.match(name):
            raise ValueError(f"'fd:{name}': {name!r} is not the number of a descriptor, as in 'fd:3'")
        return str(int(name))
    if not SYSTEMD_NAME.match(name):
        raise ValueError(
            f"'systemd:{name}': {name!r} is not the name of a socket; FileDescriptorName= of its unit says which, or it "
            "is the unit's name, as in 'systemd:shop.socket'"
        )
    return name


def _checked_host(host: str, text: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        match = IPV6.match(host[1:-1])
        try:
            socket.inet_pton(socket.AF_INET6, match[1] if match else "")
        except OSError:
            raise ValueError(f"{text!r}: {host[1:-1]!r} is not an IPv6 address") from None
        return host[1:-1]
    if ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address goes in brackets, as in '[::1]:8000'")
    if host and not HOST.match(host):
        raise ValueError(f"{text!r}: {host!r} is not a host name or address")
    return host


def with_reach(places: Iterable[tuple[str, tuple[str, int] | str]]) -> list[str]:
    """Return URLs of listening sockets for the log: 127.0.0.1 must not hide the reach of other machines; of both families one is shown."""
    shown: dict[str, str] = {}
    for url, address in places:
        is_all = address[0] in ("0.0.0.0", "::")
        key = url.replace("//[::1]", "//127.0.0.1") if is_all else url
        shown.setdefault(key, f"{url} (all interfaces)" if is_all else url)
    return [*shown.values()]
