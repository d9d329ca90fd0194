"""Every setting, once.

Owns:     the table of settings (the fields of `Config`), how each is read from
          text, and the pure parser of bind specs.  Command-line flags, ASERVE_*
          variables, TOML keys, `--help` and docs/settings.md are made from it.
Thread:   any; a Config never changes.
Not here: argv itself (cli.py), opening sockets (listeners.py), choosing the
          event loop (server.py).
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple
from urllib.parse import quote, unquote

from .peers import ACCOUNT_NAME, parse_peer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VERSION = "0.1.0.dev0"
NEAR = 0.75  # difflib's ratio; at its own 0.6 every ASERVE_ name is near every other
COMMAND_NAMES = ("app", "config")  # not settings of a server: the command reads them itself


class ConfigError(ValueError):
    """A setting is wrong; `str()` is one line that says whose, what, and what is accepted."""


# Bind specs


class TLSSettings(NamedTuple):
    """What the group TLS says for one bind."""

    certificate: str
    key: str | None
    sni: tuple[str, ...]
    client_ca: str | None
    client_certificate: str
    tls_min: str
    ciphers: str


# As options of a bind they are called as in the TOML file.
TLS_KEYS = tuple(name.replace("_", "-") for name in TLSSettings._fields)


class Bind(NamedTuple):
    """Where to listen, and for which protocol; `str()` gives the spec back, but for its options."""

    kind: str  # "tcp" or "unix"
    host: str = ""  # empty: all interfaces
    port: int = 0  # 0: the kernel picks one
    path: str = ""  # of a unix socket; "@name" is in Linux's abstract namespace
    protocol: str = "http"  # or "https", "uwsgi", "scgi"
    is_proxied: bool = False  # each connection begins with a header of the PROXY protocol
    options: tuple[tuple[str, str], ...] = ()  # of "https": settings of the TLS group, this bind's own

    @property
    def spec(self) -> str:
        """The whole spec, as `parse_bind` reads it."""
        options = "&".join(f"{key}={quote(value, OPTION_SAFE)}" for key, value in self.options)
        return f"{self}?{options}" if options else str(self)

    @property
    def unix_address(self) -> str:
        """What bind() and connect() want for a unix socket."""
        # unix(7): a NUL before the name is the abstract namespace, which has no files.
        return "\0" + self.path[1:] if self.is_abstract else self.path

    @property
    def is_abstract(self) -> bool:
        """Whether it is a unix socket without a file."""
        return self.path.startswith("@")

    def __str__(self) -> str:
        scheme = "" if self.protocol == "http" else f"{self.protocol}://"
        scheme = PROXIED + "http://" if self.is_proxied else scheme
        if self.kind == "unix":
            return f"{scheme}unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}{host}:{self.port}"


BIND_PROTOCOLS = ("http", "https", "uwsgi", "scgi")
OPTION_SAFE = "/:=*@+;"  # beside letters and digits, what an option's value says as it is
PROXIED = "proxy+"  # before http: behind a balancer that speaks the PROXY protocol
# sockaddr_un.sun_path holds 108 octets on Linux and 104 on macOS, the final NUL counted.
MAX_UNIX_PATH_BYTES = 107 if sys.platform == "linux" else 103
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}\Z")
IPV6 = re.compile(r"([0-9A-Fa-f:.]{2,45})(%[A-Za-z0-9_.-]{1,32})?\Z")  # with RFC 4007's zone


def parse_bind(text: str) -> Bind:
    """
    Parse one bind spec: [PROTOCOL://] and host:port, [v6]:port, :port, unix:/path or unix:@name.

    Behind https, options may follow: ?certificate=/path&key=/path, the keys of the TLS group,
    with %2C for a comma and the like.

    Raises:
        ValueError: not a bind spec; the text says why.
    """
    protocol, separator, place = text.rpartition("://")
    if not separator:
        return _parse_place(text)
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
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        hint = f":{text}" if text.isdigit() else f"{text}:8000"
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


# Kinds of value


class Kind(NamedTuple):
    """
    One sort of value: what it accepts in words, how it is read, how it is shown.

    `parse` takes text (a flag, a variable) or a native value (TOML, a keyword),
    is idempotent, and raises ValueError saying what was wrong.
    """

    metavar: str
    accepts: str
    parse: Callable[[object], object]
    show: Callable[[Any], str] = str


def _in_range(value: Any, low: Any, high: Any, show: Callable[[Any], str] = str) -> Any:
    if not low <= value <= high:
        raise ValueError(f"{show(value)} is too {'small' if value < low else 'large'}")
    return value


def _count(low: int, high: int) -> Kind:
    def parse(value: object) -> int:
        if isinstance(value, str) and re.match(r"[0-9]{1,18}\Z", value):
            value = int(value)
        if type(value) is not int:  # a bool is not a number here
            raise ValueError(f"{value!r} is not a whole number")
        return int(_in_range(value, low, high))

    return Kind("N", f"a whole number from {low} to {high}", parse)


SIZE = re.compile(r"([0-9]{1,18}) ?([KMGT]?)(I?B)?\Z")
SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
KIB, MIB, GIB, TIB = (1 << SHIFTS[unit] for unit in "KMGT")


def show_bytes(count: int) -> str:
    """Return a number of octets in the shortest exact form that is read back."""
    for unit in "TGMK":
        if count and count % (1 << SHIFTS[unit]) == 0:
            return f"{count >> SHIFTS[unit]}{unit}iB"
    return str(count)


def _size(low: int, high: int) -> Kind:
    def parse(value: object) -> int:
        match = SIZE.match(value.upper()) if isinstance(value, str) else None
        if match:
            value = int(match[1]) << SHIFTS[match[2]]
        if type(value) is not int:
            raise ValueError(f"{value!r} is not a size")
        return int(_in_range(value, low, high, show_bytes))

    bounds = f"from {show_bytes(low)} to {show_bytes(high)}"
    return Kind("SIZE", f"octets, or a size such as 512k, 64M or 1GiB, {bounds}", parse, show_bytes)


DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|)\Z")
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
DAY_SECONDS = 86400.0


def _duration(low: float) -> Kind:
    def parse(value: object) -> float:
        match = DURATION.match(value) if isinstance(value, str) else None
        if match:
            value = float(match[1]) * UNIT_SECONDS[match[2]]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise ValueError(f"{value!r} is not a number of seconds")
        return float(_in_range(value, low, DAY_SECONDS))

    accepts = f"seconds, or a time such as 500ms, 30s or 2m, from {low:g} s to {DAY_SECONDS:g} s"
    return Kind("SECONDS", accepts, parse, lambda value: f"{value:g} s")


def _choice(*names: str) -> Kind:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in names:
            raise ValueError(f"{value!r} is none of these")
        return value.lower()

    return Kind("|".join(names), ", ".join(names), parse)


def _parse_binds(value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, (str, Mapping)) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, (str, Mapping)) for item in items):
        raise ValueError(f"{value!r} is neither text nor a list of texts")
    if not items:
        raise ValueError("there is nothing to listen on")
    texts = [item if isinstance(item, str) else _bind_of_table(item) for item in items]
    return tuple(parse_bind(part.strip()).spec for text in texts for part in text.split(","))


def _bind_of_table(table: Mapping[str, object]) -> str:
    """Return the spec that a table of a TOML file stands for: its address, and options."""
    address, pairs = table.get("address"), []
    for key, value in table.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if not isinstance(item, str):
                raise ValueError(f"{key} of a bind: {value!r} is not text")
            if key != "address":
                pairs.append(f"{key}={quote(item, OPTION_SAFE)}")
    if not isinstance(address, str) or "," in address:
        raise ValueError('a table of a bind needs an address, as in {address = "https://:8443"}')
    return f"{address}?{'&'.join(pairs)}" if pairs else address


def _parse_routes(value: object) -> tuple[str, ...]:
    # Only what a list of them looks like; what one says is for routes.py to read.
    return tuple(_texts_of(value, str.splitlines))


def _texts_of(value: object, split: Callable[[str], list[str]]) -> list[str]:
    """Return the parts of a text, or a list's texts; none that is empty."""
    texts = split(value) if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{value!r} is neither text nor a list of texts")
    return [text.strip() for text in texts if text.strip()]


def _parse_list(value: object) -> list[str]:
    texts = _texts_of(value, lambda text: [text])
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _parse_peers(value: object) -> tuple[str, ...]:
    return tuple(str(parse_peer(text)) for text in _parse_list(value))


# The fields by which proxies tell of their client, and which aserve itself obeys; others only pass.
CLIENT_FIELDS = (
    "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "forwarded",
    "x-real-ip",
)  # fmt: skip
FORWARDED_FIELD = re.compile(r"x-forwarded(-[a-z0-9]+)+")
TYPING_ERROR = 0.93  # difflib's ratio for one letter of "x-forwarded-proto"


def _parse_client_fields(value: object) -> tuple[str, ...]:
    fields = tuple(text.lower() for text in _parse_list(value))
    for field in fields:
        if field in CLIENT_FIELDS:
            continue
        near = difflib.get_close_matches(field, CLIENT_FIELDS, 1, TYPING_ERROR)
        if near:
            raise ValueError(f"{field!r} is nearly {near[0]}")
        if not FORWARDED_FIELD.fullmatch(field):
            raise ValueError(f"{field!r} is none of these")
    for field in ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip"):
        if field in fields and "forwarded" in fields:
            raise ValueError(
                f"'forwarded' and {field!r} would both tell of the client; name those that your proxies set"
            )
    return fields


def _parse_server_name(value: object) -> str:
    # RFC 9110 10.2.4 and 5.5; nothing in it may end the field line.
    if not isinstance(value, str) or not re.match(r"[ -~]{0,200}\Z", value):
        raise ValueError(f"{value!r} cannot be sent in a field")
    return value.strip()


def _parse_mode(value: object) -> int:
    if isinstance(value, str) and re.match(r"(0o?)?[0-7]{3}\Z", value):
        value = int(value[-3:], 8)
    if type(value) is not int or not 0 <= value <= 0o777:
        raise ValueError(f"{value!r} is not the mode of a file")
    return value


def _parse_account(value: object) -> str | None:
    if value is None or value == "":
        return None
    text = str(value) if type(value) is int else value
    if not isinstance(text, str) or not re.fullmatch(ACCOUNT_NAME, text):
        raise ValueError(f"{value!r} is neither a name nor a number")
    return text


def _parse_sni(value: object) -> tuple[str, ...]:
    texts = tuple(_texts_of(value, re.compile(r"[,\n]").split))
    names = [split_sni(text)[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice")
    return texts


def split_sni(text: str) -> tuple[str, str, str | None]:
    """
    Return server name (as TLS has it), certificate and key (or None) of NAME=CERTIFICATE[:KEY].

    Raises:
        ValueError: it is not of that form.
    """
    name, _, files = text.partition("=")
    certificate, colon, key = files.partition(":")
    if not certificate or ":" in key or (colon and not key):
        raise ValueError(f"{text!r} is not of the form NAME=CERTIFICATE:KEY")
    try:
        ascii_name = name.strip().encode("idna").decode("ascii").lower()
    except UnicodeError:
        ascii_name = ""
    if not SNI_NAME.match(ascii_name):
        raise ValueError(f"{name!r} is not the name of a host, such as example.com or *.example.com")
    return ascii_name, certificate, key or None


def _parse_ciphers(value: object) -> str:
    if not isinstance(value, str) or not re.match(r"[A-Za-z0-9_+:!@=.-]+\Z", value):
        raise ValueError(f"{value!r} is not a list of ciphers")
    return value


def _parse_log_path(value: object) -> str | None:
    if value is None or value == "":
        return None
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or "\0" in path:
        raise ValueError(f"{value!r} is not a path")
    return path


BINDS = Kind(
    "ADDRESS",
    "host:port, [v6]:port, :port, unix:/path, unix:@name; before it https://, uwsgi://, scgi:// or proxy+http://",
    _parse_binds,
    ", ".join,
)
PEERS = Kind(
    "PEER",
    "addresses, networks such as 10.0.0.0/8, unix, unix:uid=33, unix:gid=www-data, or * for whoever connects",
    _parse_peers,
    lambda peers: ", ".join(peers) or "none",
)
FIELDS = Kind(
    "FIELD",
    f"{', '.join(CLIENT_FIELDS)}, and other names that begin with x-forwarded-",
    _parse_client_fields,
    lambda fields: ", ".join(fields) or "none",
)
ROUTES = Kind(
    "ROUTE",
    "'[PATTERN] ACTION FUNCTION:ARGUMENT ...'; on the command line also PATTERN and the rest as two arguments; "
    "in a variable one to a line",
    _parse_routes,
    lambda routes: ", ".join(routes) or "none",
)
MODE = Kind("MODE", "three octal digits, such as 660", _parse_mode, lambda mode: f"{mode:03o}")
ACCOUNTS = Kind("NAME", "a name or a number", _parse_account, lambda name: name or "unchanged")
LOG_PATH = Kind("PATH", "a path, - for standard output", _parse_log_path, lambda v: v or "none")
FILE = Kind("PATH", "a path", _parse_log_path, lambda path: path or "none")
SNI_NAME = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\Z")
SNI = Kind(
    "NAME=CERTIFICATE:KEY",
    "the name of a host or *.DOMAIN, and paths without colons; without :KEY the certificate's file holds it too",
    _parse_sni,
    lambda texts: ", ".join(texts) or "none",
)
CIPHERS = Kind("LIST", "a cipher list of OpenSSL", _parse_ciphers)
SERVER_NAME = Kind("TEXT", "up to 200 printable ASCII characters", _parse_server_name)
PROGRESS = _duration(0.1)  # a deadline of 0 would refuse everybody


# The table

TLS = "TLS"  # the group whose settings a bind may have of its own


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    default: Any
    group: str
    flag: str
    kind: Kind
    help: str
    why: str

    @property
    def key(self) -> str:
        """The TOML key."""
        return self.flag[2:]

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "ASERVE_" + self.key.upper().replace("-", "_")

    @property
    def is_list(self) -> bool:
        """Whether it has several values: its flag may be repeated."""
        return isinstance(self.default, tuple)


def _row(default: object, group: str, flag: str, kind: Kind, help: str, why: str) -> Any:
    columns = {"group": group, "flag": flag, "kind": kind, "help": help, "why": why}
    return dataclasses.field(default=default, metadata=columns)


@dataclasses.dataclass(frozen=True)
class Config:
    """
    The settings of one server: the table itself, and immutable.

    Raises:
        ConfigError: a value is not accepted, or two contradict each other.
    """

    # fmt: off
    bind: Sequence[str] = _row(
        ("127.0.0.1:8000",), "Serving", "--bind", BINDS,
        "where to listen; repeatable, or separated by commas; https:// for TLS",
        "Loopback: nothing is reachable from outside until you say so.",
    )
    threads: int = _row(
        32, "Serving", "--threads", _count(0, 4096),
        "worker threads that call the app; 0: it is called on the event loop's thread",
        "The most that Python's own ThreadPoolExecutor starts by default. They are started when "
        "the app keeps the others waiting, so those never needed cost nothing.",
    )
    extra_threads: int = _row(
        64, "Serving", "--extra-threads", _count(0, 4096),
        "threads beyond --threads, for streamed responses that outrun their readers (and go to --response-spool): each leaves its place "
        "to another request, and goes on in turn with the others; with 0, or --threads 1, it keeps its place",
        "Guess: twice as many as --threads are by default. Each holds what its generator holds, such as a connection to a database.",
    )
    loop: str = _row(
        "auto", "Serving", "--loop", _choice("auto", "uvloop", "asyncio"),
        "event loop; auto: uvloop where it is installed",
        "uvloop is the faster one on CPython; PyPy has none.",
    )
    http_parser: str = _row(
        "c", "Serving", "--http-parser", _choice("c", "httptools"),
        "parser of HTTP/1.1: aserve's own in C, or llhttp through httptools",
        "One call per request, stricter, and the same on CPython and PyPy.",
    )
    body: str = _row(
        "buffer", "Serving", "--body", _choice("buffer", "stream"),
        "buffer: call the app when the request body is complete; stream: when the head is",
        "A slow upload then holds no worker thread.",
    )
    lane: str = _row(
        "auto", "Serving", "--lane", _choice("auto", "off"),
        "let the workers read and answer plain requests by themselves, by the batch, where the platform can",
        "Less CPU time a request (benchmarks/README.md), and no difference else; off is for comparing.",
    )
    route: Sequence[str] = _row(
        (), "Serving", "--route", ROUTES,
        "requests that a registered RPC function answers; repeatable; see docs/rpc.md",
        "uWSGI's internal routing, as far as it calls RPC functions.",
    )
    uwsgi_module: str = _row(
        "auto", "Serving", "--uwsgi-module", _choice("auto", "on", "off"),
        "whether `import uwsgi` works in the app, which the command then has a module for; auto: with a uwsgi bind, or --route",
        "Apps take the import for a sign of uWSGI, and half of them have another way where it fails; see docs/rpc.md. "
        "A server in your own program leaves it to you.",
    )
    scgi_status: str = _row(
        "field", "Serving", "--scgi-status", _choice("field", "line"),
        "how SCGI responses begin: with the field `Status: 200 OK`, or with an HTTP status line",
        "RFC 3875 6.3.3: what a CGI script says, and every front server reads.",
    )
    unix_mode: int = _row(
        0o666, "Serving", "--unix-mode", MODE,
        "mode of the files of unix sockets: who may write to one may connect",
        "A front server runs as another user, and must connect. It is as open as a port on "
        "loopback: all of this machine's users reach it, so narrow it (660 with --unix-group, or "
        "a folder of its own) where they are not all to be trusted.",
    )
    unix_owner: str | None = _row(
        None, "Serving", "--unix-owner", ACCOUNTS,
        "user who owns the files of unix sockets",
        "The user that aserve runs as. Only root may give a file away.",
    )
    unix_group: str | None = _row(
        None, "Serving", "--unix-group", ACCOUNTS,
        "group of the files of unix sockets",
        "The group that aserve runs as. Only root may name a group that it is no member of.",
    )
    backlog: int = _row(
        2048, "Serving", "--backlog", _count(1, 65535),
        "connections that the kernel keeps waiting for accept",
        "What gunicorn asks for; the kernel lowers it to its own limit (net.core.somaxconn).",
    )
    server_name: str = _row(
        "aserve", "Serving", "--server-name", SERVER_NAME,
        "the Server field of responses; empty: none",
        "RFC 9110 10.2.4 warns of needlessly fine detail, so it carries no version.",
    )
    certificate: str | None = _row(
        None, TLS, "--certificate", FILE,
        "PEM file of the certificate of https binds: the server's own first, then those between it and its authority",
        "There is none that a client would believe. A change of the file is seen within two seconds, and SIGHUP "
        "loads it at once; connections go on.",
    )
    key: str | None = _row(
        None, TLS, "--key", FILE,
        "PEM file of the private key, without a passphrase; none: it is in the certificate's file",
        "Most tools write it to a file of its own; some put both into one.",
    )
    sni: Sequence[str] = _row(
        (), TLS, "--sni", SNI,
        "another certificate for clients that ask for this server name; repeatable, or separated by commas",
        "Whoever asks for another name, or for none, gets --certificate.",
    )
    client_ca: str | None = _row(
        None, TLS, "--client-ca", FILE,
        "PEM file of the authorities whose client certificates are believed",
        "Only yours: an authority of the public web would vouch for anybody.",
    )
    client_certificate: str = _row(
        "none", TLS, "--client-certificate", _choice("none", "optional", "required"),
        "whether clients are asked for a certificate; see SSL_CLIENT_VERIFY in docs/tls.md",
        "Browsers would bother their users with a question.",
    )
    tls_min: str = _row(
        "1.2", TLS, "--tls-min", _choice("1.2", "1.3"),
        "oldest version of TLS that is spoken",
        "RFC 8996 forbids the older ones; 1.2 is still needed by clients from before 2019.",
    )
    ciphers: str = _row(
        "ECDHE+AESGCM:ECDHE+CHACHA20", TLS, "--ciphers", CIPHERS,
        "cipher suites of TLS 1.2, in order of preference; those of 1.3 are always all on",
        "RFC 9325 4.2: only forward secrecy and AEAD, which every client of the last ten years has.",
    )
    trusted_proxies: Sequence[str] = _row(
        (), "Proxies", "--trusted-proxies", PEERS,
        "who may tell of the clients behind it, by a field or the PROXY protocol; repeatable; see docs/proxies.md",
        "Nothing that a client sends is believed: without this, such fields do not even reach the app.",
    )
    trusted_hops: int = _row(
        0, "Proxies", "--trusted-hops", _count(0, 100),
        "proxies that a request passes before it is here; 0: as many as their addresses in --trusted-proxies tell",
        "Addresses are exact. The number is for proxies whose addresses nobody knows beforehand.",
    )
    forwarded_fields: Sequence[str] = _row(
        ("x-forwarded-for", "x-forwarded-proto"), "Proxies", "--forwarded-fields", FIELDS,
        "the fields that your proxies set, and clients cannot; repeatable, or separated by commas",
        "What gunicorn's and uvicorn's users have their proxies set. A field that a proxy passes on "
        "as it got it is the client's word: name only what it overwrites or appends to.",
    )
    max_connections: int = _row(
        0, "Limits", "--max-connections", _count(0, 1_000_000),
        "most connections at once; who comes beyond it waits in the kernel's queue (--backlog); 0: as many as "
        "`ulimit -n` has room for",
        "Of its descriptors --spool-files, 64 and 4 for each of --threads, or half of them where that is less, are left "
        "to the app and its files: 576 of the usual 1024.",
    )
    max_body_bytes: int = _row(
        GIB, "Limits", "--max-body", _size(0, 1024 * TIB),
        "largest request body; beyond it: 413",
        "What waitress allows: room for an upload. What all of them may put on disk is --body-spool-total.",
    )
    body_memory_bytes: int = _row(
        512 * KIB, "Limits", "--body-memory", _size(0, TIB),
        "octets of a request body kept in memory; a larger one goes to a temporary file",
        "What waitress keeps: forms and JSON stay in memory, uploads do not.",
    )
    max_head_bytes: int = _row(
        64 * KIB, "Limits", "--max-head", _size(256, 16 * MIB),
        "largest request head; beyond it: 431",
        "Guess: many times the cookies and tokens that browsers send.",
    )
    max_request_line_bytes: int = _row(
        8190, "Limits", "--max-request-line", _size(64, 16 * MIB),
        "longest request line; beyond it: 414",
        "Apache's LimitRequestLine; RFC 9112 3 asks for at least 8000 octets.",
    )
    max_fields: int = _row(
        100, "Limits", "--max-fields", _count(1, 10_000),
        "most field lines in a request head; beyond it: 431",
        "Apache's LimitRequestFields, and gunicorn's.",
    )
    max_pipelined: int = _row(
        16, "Limits", "--max-pipelined", _count(1, 1024),
        "requests kept unanswered per connection before reading from it pauses",
        "Guess: browsers do not pipeline, and load generators send about this many.",
    )
    write_buffer_bytes: int = _row(
        256 * KIB, "Limits", "--write-buffer", _size(KIB, GIB),
        "octets of a response kept in memory for a client that reads slowly; more go to a temporary file",
        "Guess: most pages fit whole, so that their worker is free at once; 1,000 slow clients "
        "hold 256 MiB at most.",
    )
    response_spool_bytes: int = _row(
        GIB, "Limits", "--response-spool", _size(0, TIB),
        "octets of a streamed response kept in a temporary file before the app's thread waits for the client; "
        "0: none, it waits once --write-buffer is full",
        "nginx's proxy_max_temp_file_size: a download frees its thread, and an endless stream that nobody reads has an end.",
    )
    response_memory_bytes: int = _row(
        64 * MIB, "Limits", "--response-memory", _size(0, TIB),
        "octets of large bodies that wait in memory, for all clients together; beyond it, all but the first MiB of each goes to "
        "--response-spool, if it may",
        "Guess: a dozen downloads of 5 MB. From memory a body is sent without a worker; with --threads 0 there is no other way.",
    )
    body_spool_total_bytes: int = _row(
        0, "Limits", "--body-spool-total", _size(0, 1024 * TIB),
        "octets of temporary files for request bodies, for all clients together; beyond it: 503 with Retry-After; "
        "0: half of what is free in their folder (TMPDIR) at the start",
        "What clients send must not fill a disk that the app writes to, too. What is free is known to the system alone.",
    )
    response_spool_total_bytes: int = _row(
        0, "Limits", "--response-spool-total", _size(0, 1024 * TIB),
        "octets of temporary files for responses, for all clients together; beyond it the app's thread waits for its client; "
        "0: a quarter of what is free in their folder (TMPDIR) at the start",
        "Half of what request bodies have: a response that finds no room is only slower, a request is refused.",
    )
    spool_files: int = _row(
        0, "Limits", "--spool-files", _count(0, 1_000_000),
        "most temporary files at once, of request bodies and responses, and twice the files being sent; beyond it: 503 with "
        "Retry-After, or the app's thread waits for its client; 0: a quarter of `ulimit -n`",
        "Uploads and slow readers would else take the descriptors that the app needs for its files and connections.",
    )
    keep_alive_seconds: float = _row(
        75.0, "Time limits", "--keep-alive", PROGRESS,
        "how long a connection may be idle between requests",
        "nginx's keepalive_timeout; longer than the 60 s of common load balancers, so that they "
        "close first and never send a request into a closing connection.",
    )
    head_seconds: float = _row(
        30.0, "Time limits", "--head-timeout", PROGRESS,
        "how long a request head may take from its first octet; beyond it: 408",
        "Guess: a head is a packet or two; clients that drip one lose their connection.",
    )
    body_seconds: float = _row(
        60.0, "Time limits", "--body-timeout", PROGRESS,
        "how long a request body may make no progress; beyond it: 408",
        "nginx's client_body_timeout.",
    )
    write_seconds: float = _row(
        60.0, "Time limits", "--write-timeout", PROGRESS,
        "how long a client may read nothing of its response before it is cut off",
        "nginx's send_timeout.",
    )
    min_rate_bytes: int = _row(
        240, "Time limits", "--min-rate", _size(0, GIB),
        "octets a second that a request body must bring, and a reader of a response take, as the mean of each "
        "--body-timeout and --write-timeout; slower: 408, or cut off; 0: any",
        "Kestrel's rate, less than half of Apache's. A modem was ten times as fast; a client that drips is no client.",
    )
    request_seconds: float = _row(
        0.0, "Time limits", "--request-timeout", _duration(0.0),
        "how long the app may take for a request; beyond it: an exception in its thread, and 504; 0: any time; "
        "see docs/deadlines.md",
        "An exception between any two steps of an app can leave its locks taken and its work half "
        "done, and what a long request is only you know. 60 s suits many: nginx waits no longer.",
    )
    max_stuck: int = _row(
        32, "Time limits", "--max-stuck", _count(1, 4096),
        "worker threads that --request-timeout could not get out of the app, at which the process drains and ends",
        "As many as --threads are by default: what is stuck then holds as much as a whole pool.",
    )
    drain_seconds: float = _row(
        30.0, "Time limits", "--drain-timeout", _duration(0.0),
        "how long running requests may take to finish after SIGTERM",
        "gunicorn's graceful_timeout, and within the 90 s that systemd waits.",
    )
    drain_delay_seconds: float = _row(
        0.0, "Time limits", "--drain-delay", _duration(0.0),
        "how long to go on accepting after SIGTERM, while pings already say that it drains",
        "Without a load balancer that asks, there is nobody to wait for. With one: a little more than it takes to notice.",
    )
    access_log: str | None = _row(
        None, "Logs", "--access-log", LOG_PATH,
        "write a line for each request to a file, or to standard output with -",
        "Most servers stand behind a proxy that writes one already.",
    )
    log_level: str = _row(
        "info", "Logs", "--log-level", _choice("debug", "info", "warning", "error", "critical"),
        "least severe message to show on standard error",
        "Start, stop and errors; nothing per request.",
    )
    # fmt: on

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = _parse(setting, getattr(self, setting.name), setting.name)
            object.__setattr__(self, setting.name, value)
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.body == "stream" and self.threads == 0:
            raise ConfigError(
                "body 'stream' needs threads of 1 or more: on the event loop's thread "
                "the app would wait for octets that only this thread can receive"
            )
        if self.request_seconds and self.threads == 0:
            raise ConfigError(
                f"request-timeout ({self.request_seconds:g} s) needs threads of 1 or more: on the event loop's "
                "thread nobody could look at the clock while the app runs"
            )
        if self.max_request_line_bytes > self.max_head_bytes:
            raise ConfigError(
                f"max-request-line ({show_bytes(self.max_request_line_bytes)}) is larger than "
                f"max-head ({show_bytes(self.max_head_bytes)}), of which it is a part"
            )
        if not self.trusted_proxies:
            proxied = [bind for bind in self.bind if bind.startswith(PROXIED)]
            if proxied:
                raise ConfigError(
                    f"bind {proxied[0]!r}: nobody could connect there; name the balancers in trusted-proxies"
                )
            if self.trusted_hops:
                raise ConfigError(
                    f"trusted-hops ({self.trusted_hops}) counts proxies, but trusted-proxies names none; "
                    "name who connects to this server, or '*' for whoever does"
                )
        is_tls_bound = [self.tls_settings(bind) for bind in map(parse_bind, self.bind) if bind.protocol == "https"]
        if self.certificate is not None and not is_tls_bound:
            raise ConfigError("certificate is given, but no bind is for TLS; write https:// before its address")
        for setting, package in (("loop", "uvloop"), ("http-parser", "httptools")):
            chosen = getattr(self, setting.replace("-", "_"))
            if chosen == package and importlib.util.find_spec(package) is None:
                raise ConfigError(f"{setting} {package!r}: {_why_missing(package)}")

    def tls_settings(self, bind: Bind) -> TLSSettings:
        """
        Return what the group TLS says for an https bind, the bind's own options included.

        Raises:
            ConfigError: an option is not accepted, or two contradict each other.
        """
        rows = [setting for setting in SETTINGS if setting.group == TLS]
        values = {setting.name: getattr(self, setting.name) for setting in rows}
        own = {setting.name: [v for key, v in bind.options if key == setting.key] for setting in rows}
        if own["certificate"]:
            values["key"] = None  # that of all others cannot be its own
        for setting in rows:
            texts = own[setting.name]
            if texts:
                value = texts if setting.kind is SNI else texts[-1]
                values[setting.name] = _parse(setting, value, f"{setting.key} of the bind {bind}")
        if values["certificate"] is None:
            raise ConfigError(f"the bind {bind} has no certificate; give --certificate, and --key with it")
        if values["client_certificate"] != "none" and values["client_ca"] is None:
            raise ConfigError(
                f"the bind {bind} wants client certificates, but from nobody; name the authority with --client-ca"
            )
        if values["client_ca"] is not None and values["client_certificate"] == "none" and not own["client_certificate"]:
            raise ConfigError(
                f"the bind {bind} has a client-ca, but asks for no certificates; give --client-certificate required, "
                "or optional"
            )
        return TLSSettings(**values)

    @classmethod
    def from_sources(
        cls,
        argv: Mapping[str, object],
        environ: Mapping[str, str],
        toml: Mapping[str, object],
        toml_name: str = "the TOML file",
    ) -> Config:
        """
        Merge the sources: argv over environment over TOML over defaults.

        `argv` is keyed by setting name, `toml` by TOML key; `environ` is the whole
        environment.  A value that loses is checked all the same.

        Raises:
            ConfigError: an unknown name or a wrong value in any source.
        """
        _refuse_unknown(toml, [*(s.key for s in SETTINGS), *COMMAND_NAMES], "setting", toml_name)
        ours = [name for name in environ if name.startswith("ASERVE_")]
        known = [setting.variable for setting in SETTINGS]
        commands = [f"ASERVE_{name.upper()}" for name in COMMAND_NAMES]
        _refuse_unknown(ours, known + commands, "variable", "the environment")
        values: dict[str, Any] = {}
        for setting in SETTINGS:
            for source, name, where in (
                (toml, setting.key, f"{setting.key} in {toml_name}"),
                (environ, setting.variable, setting.variable),
                (argv, setting.name, setting.flag),
            ):
                if name in source:
                    values[setting.name] = _parse(setting, source[name], where)
        return cls(**values)


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(field.name, field.default, **field.metadata) for field in dataclasses.fields(Config)
)


def _parse(setting: Setting, value: object, where: str) -> object:
    try:
        return setting.kind.parse(value)
    except ValueError as fault:
        raise ConfigError(f"{where}: {fault}; accepted: {setting.kind.accepts}") from None


def _refuse_unknown(names: Iterable[str], known: list[str], what: str, where: str) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, NEAR)
            hint = f"did you mean {near[0]}?" if near else "see aserve --help"
            raise ConfigError(f"unknown {what} {name} in {where}; {hint}")


def _why_missing(package: str) -> str:
    if sys.implementation.name != "cpython":
        return f"the package {package} does not exist for {sys.implementation.name}; leave it out"
    return f"the package {package} is not installed; `pip install {package}` would do it"


# TOML


def read_toml(path: str) -> dict[str, object]:
    """
    Return the settings in a TOML file; of a pyproject.toml, those in [tool.aserve].

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except OSError as fault:
        raise ConfigError(f"cannot read the settings file {path}: {fault.strerror}") from None
    except ValueError as fault:  # not TOML, or not UTF-8
        raise ConfigError(f"{path} is not valid TOML: {fault}") from None
    if os.path.basename(path) == "pyproject.toml":
        for key in ("tool", "aserve"):
            settings = settings.get(key, {})
            if not isinstance(settings, dict):
                raise ConfigError(f"{key!r} in {path} is not a table; accepted: [tool.aserve]")
    return settings
