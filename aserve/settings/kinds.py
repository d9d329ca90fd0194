"""The kinds of values in settings: parsing, and showing.

Thread:   any; pure.
Not here: the kind of each setting (table.py), the grammars of binds and peers (bind.py, peer.py).

A long list: each kind can be read alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Callable, TypeVar
from urllib.parse import quote

from ..core.named_tuple import NamedTuple
from ..core.near_names import near_names
from ..core.patterns import lazy_pattern
from .bind import OPTION_SAFE, parse_bind
from .peer import ACCOUNT_NAME, parse_peer
from .secrecy import show_place, show_variable

Parsed = TypeVar("Parsed")


class Kind(NamedTuple):
    """
    One kind of value: its accepted texts in words, its parser, its display.

    `parse` takes text (a flag, a variable) or a native value (TOML, a keyword), is idempotent, and raises ValueError with the fault.
    """

    metavar: str
    accepts: str
    parse: Callable[[object], object]
    show: Callable[[Any], str] = str


def optional(parse: Callable[[object], Parsed]) -> Callable[[object], Parsed | None]:
    """Return a parser of the same kind, or of no value: None, or an empty text."""
    return lambda value: None if value is None or value == "" else parse(value)


def matching(pattern: Any, fault: str) -> Callable[[object], str]:
    """Return a parser of texts that match a pattern from the begin on; `fault`: said of others."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not pattern.match(value):
            raise ValueError(f"{value!r} {fault}")
        return value

    return parse


def show_text(text: str | None) -> str:
    return text or "none"


def show_texts(texts: Iterable[str]) -> str:
    """Show several texts."""
    return ", ".join(texts) or "none"


def _in_range(value: Any, low: Any, high: Any, show: Callable[[Any], str] = str) -> Any:
    if not low <= value <= high:
        raise ValueError(f"{show(value)} is too {'small' if value < low else 'large'}")
    return value


def count(low: int, high: int) -> Kind:
    """Return the kind of whole numbers in these bounds."""

    def parse(value: object) -> int:
        if isinstance(value, str) and re.match(r"-?[0-9]{1,18}\Z", value):
            value = int(value)
        if type(value) is not int:  # a bool is not a number here
            raise ValueError(f"{value!r} is not a whole number")
        return int(_in_range(value, low, high))

    return Kind("N", f"a whole number from {low} to {high}", parse)


def count_or_auto(low: int, high: int) -> Kind:
    """Return the kind of whole numbers in these bounds, or the word "auto"; without a value: None."""
    counted = count(low, high)

    def parse(value: object) -> object:
        return value if value is None or value == "auto" else counted.parse(value)

    return Kind("N|auto", f"{counted.accepts}, or auto", parse, lambda value: "none" if value is None else str(value))


SIZE = lazy_pattern(r"([0-9]{1,18}) ?(?:([KMGT])(?:I?B)?|B)?\Z")
SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
KIB, MIB, GIB, TIB = (1 << SHIFTS[unit] for unit in "KMGT")


def show_bytes(count: int) -> str:
    """Return a number of octets in the shortest exact form of the kind `size`."""
    for unit in "TGMK":
        if count and count % (1 << SHIFTS[unit]) == 0:
            return f"{count >> SHIFTS[unit]}{unit}iB"
    return str(count)


def size(low: int, high: int) -> Kind:
    """Return the kind of numbers of octets in these bounds."""

    def parse(value: object) -> int:
        match = SIZE.match(value.upper()) if isinstance(value, str) else None
        if match:
            value = int(match[1]) << SHIFTS[match[2] or ""]
        if type(value) is not int:
            raise ValueError(f"{value!r} is not a size")
        return int(_in_range(value, low, high, show_bytes))

    bounds = f"from {show_bytes(low)} to {show_bytes(high)}"
    return Kind("SIZE", f"octets, or a size such as 512k, 64M or 1GiB, {bounds}", parse, show_bytes)


DURATION = lazy_pattern(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|)\Z")
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
DAY_SECONDS = 86400.0
MONTH_SECONDS = 30 * DAY_SECONDS  # for settings of many days
YEAR_SECONDS = 365 * 86400.0  # RFC 9111 gives no limit; the earlier RFC, 2616 14.21, said a year
# Of the name of a field, as a regular expression: RFC 9110 sections 5.1 and 5.6.2.
NAME_CHARACTER = "[!#$%&'*+.^_`|~0-9A-Za-z-]"


def duration(low: float, high: float = DAY_SECONDS) -> Kind:
    """Return the kind of times in these bounds, by default of a day at most."""

    def parse(value: object) -> float:
        match = DURATION.match(value) if isinstance(value, str) else None
        if match:
            value = float(match[1]) * UNIT_SECONDS[match[2]]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise ValueError(f"{value!r} is not a number of seconds")
        return float(_in_range(value, low, high))

    accepts = f"seconds, or a time such as 500ms, 30s or 2m, from {low:g} s to {high:.0f} s"
    return Kind("SECONDS", accepts, parse, lambda value: f"{value:g} s")


def choice(*names: str) -> Kind:

    def parse(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in names:
            raise ValueError(f"{value!r} is none of these")
        return value.lower()

    return Kind("|".join(names), ", ".join(names), parse)


def _parse_switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in ("on", "off"):
        raise ValueError(f"{value!r} is neither on nor off")
    return value.lower() == "on"


def _parse_binds(value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, (str, Mapping)) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, (str, Mapping)) for item in items):
        raise ValueError(f"{value!r} is neither text nor a list of texts")
    if not items:
        raise ValueError("there is nothing to listen on")
    texts = [item if isinstance(item, str) else _bind_of_table(item) for item in items]
    return tuple(parse_bind(part.strip()).spec for text in texts for part in text.split(","))


def _bind_of_table(table: Mapping[str, object]) -> str:
    """Return the bind spec of a table of a TOML file: the address, and options."""
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


def texts_of(value: object, split: Callable[[str], list[str]]) -> list[str]:
    """Return the parts of a text, or the texts of a list, without the empty ones."""
    texts = split(value) if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise ValueError("it is neither text nor a list of texts")  # without the value, which may hold a secret
    return [text.strip() for text in texts if text.strip()]


def checked_texts(value: object, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return the lines of a text, or the texts of a list, each accepted by `parse`."""
    texts = tuple(texts_of(value, str.splitlines))
    for text in texts:
        parse(text)
    return texts


def parse_list(value: object) -> list[str]:
    """Return the parts of a text between commas, or of the texts of a list."""
    texts = texts_of(value, lambda text: [text])
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


# Fields of proxies about their client, obeyed by aserve; other fields are only passed on.
CLIENT_FIELDS = (
    "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "forwarded",
    "x-real-ip",
)  # fmt: skip
FORWARDED_FIELD = lazy_pattern(r"x-forwarded(-[a-z0-9]+)+")
TYPING_ERROR = 0.93  # difflib's ratio for one letter of "x-forwarded-proto"


def _parse_client_fields(value: object) -> tuple[str, ...]:
    fields = tuple(text.lower() for text in parse_list(value))
    for field in fields:
        if field in CLIENT_FIELDS:
            continue
        near = near_names(field, CLIENT_FIELDS, 1, TYPING_ERROR)
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
    # RFC 9110 10.2.4 and 5.5; the value must not end the field line.
    if not isinstance(value, str) or not re.match(r"[ -~]{0,200}\Z", value):
        raise ValueError(f"{value!r} cannot be sent in a field")
    return value.strip()


@optional
def _parse_field_name(value: object) -> str:
    if not isinstance(value, str) or not re.match(rf"{NAME_CHARACTER}{{1,100}}\Z", value):
        raise ValueError(f"{value!r} is not the name of a field")
    if value.lower() in OWN_FIELDS:
        raise ValueError(f"{value!r} has a meaning of its own")
    return value


def _parse_mode(value: object) -> int:
    if isinstance(value, str) and re.match(r"(0o?)?[0-7]{3}\Z", value):
        value = int(value[-3:], 8)
    if type(value) is not int or not 0 <= value <= 0o777:
        raise ValueError(f"{value!r} is not the mode of a file")
    return value


@optional
def _parse_account(value: object) -> str:
    text = str(value) if type(value) is int else value
    if not isinstance(text, str) or not re.fullmatch(ACCOUNT_NAME, text):
        raise ValueError(f"{value!r} is neither a name nor a number")
    return text


def _parse_sni(value: object) -> tuple[str, ...]:
    texts = tuple(texts_of(value, re.compile(r"[,\n]").split))
    names = [split_sni(text)[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice")
    return texts


def split_sni(text: str) -> tuple[str, str, str | None]:
    """
    Return server name (in TLS's form), certificate and key (or None) of NAME=CERTIFICATE[:KEY].

    Raises:
        ValueError: the text has another form.
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


# RFC 9112 3.2: the characters of a request's Host field and target, sent unchanged.
PLACE = lazy_pattern(r"(([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?)?/[!-~]*\Z")


def _parse_env(value: object) -> tuple[str, ...]:
    pairs = tuple(texts_of(value, str.splitlines))
    for pair in pairs:
        if not re.match(r"[^=\0]+=[^\0]*\Z", pair):
            raise ValueError(f"{show_variable(pair)!r} is not of the form NAME=VALUE")
    return pairs


def _parse_places(value: object) -> tuple[str, ...]:
    places = tuple(texts_of(value, str.split))
    for place in places:
        if not PLACE.match(place):
            raise ValueError(f"{show_place(place)!r} is neither a path nor a host and a path")
    return places


def parse_path(value: object) -> str | None:
    """Return a path unchanged; None: there is none."""
    if value is None or value == "":
        return None
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or "\0" in path:
        raise ValueError(f"{value!r} is not a path")
    return path


def _parse_file(value: object) -> str | None:
    if isinstance(value, str) and ("\n" in value or "-----BEGIN" in value):
        raise ValueError("it is the content of a file, and not its path")  # perhaps a key: do not show it
    return parse_path(value)


@optional
def _parse_listening(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    bind = parse_bind(value)
    if bind.is_given or bind.is_proxied or bind.protocol != "http":
        raise ValueError(
            f"{value!r}: an address without a protocol; metrics are sent over plain HTTP, and stats over bare TCP"
        )
    return bind.spec


def _parse_stats(value: object) -> str | None:
    spec = _parse_listening(value)
    return f"{HTTP}{spec}" if spec and str(value).startswith(HTTP) else spec


BINDS = Kind(
    "ADDRESS",
    "host:port, [v6]:port, :port, unix:/path, unix:@name, fd:3, systemd:name; before it https://, uwsgi://, scgi:// or proxy+http://",
    _parse_binds,
    ", ".join,
)
LISTENING = Kind("ADDRESS", "host:port, [v6]:port, :port, unix:/path, unix:@name", _parse_listening, show_text)
HTTP = "http://"  # before the address of statistics
STATS = Kind(
    "ADDRESS", f"{LISTENING.accepts}; before it http://, for clients that ask by HTTP", _parse_stats, show_text
)
PEERS = Kind(
    "PEER",
    "addresses, networks such as 10.0.0.0/8, unix, unix:uid=33, unix:gid=www-data, or * for every peer",
    lambda value: tuple(str(parse_peer(text)) for text in parse_list(value)),
    show_texts,
)
FIELDS = Kind(
    "FIELD",
    f"{', '.join(CLIENT_FIELDS)}, and other names that begin with x-forwarded-",
    _parse_client_fields,
    show_texts,
)
# Fields of one connection, aserve's own: RFC 9110 section 7.6.1, PEP 3333 "Other HTTP Features".
HOP_BY_HOP_FIELDS = (
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade",
)  # fmt: skip
# With fields of aserve's in each head, and fields of framing: RFC 9110 and 9112.
OWN_FIELDS = (*HOP_BY_HOP_FIELDS, "content-length", "date", "server")
FIELD_NAME = Kind(
    "NAME", "the name of a field, such as X-Queue-Wait, that is none of HTTP's own", _parse_field_name, show_text
)
# RFC 8941 3.3.4, a token. A quoted string could hold more characters, but a host's name needs none.
_TOKEN = lazy_pattern(r"[A-Za-z*][!#$%&'*+\-.^_`|~:/0-9A-Za-z]{0,99}\Z")
PROXY_NAME = Kind(
    "NAME",
    "a name such as web1 or web1.example",
    optional(matching(_TOKEN, "does not begin with a letter, or has characters beyond letters, digits and .-_:/")),
    show_text,
)
MODE = Kind("MODE", "three octal digits, such as 660", _parse_mode, lambda mode: f"{mode:03o}")
UMASK = Kind(
    "MASK", "three octal digits, such as 027", optional(_parse_mode), lambda m: "unchanged" if m is None else f"{m:03o}"
)
ACCOUNTS = Kind("NAME", "a name or a number", _parse_account, lambda name: name or "unchanged")
GROUPS = Kind(
    "NAME",
    "names or numbers of groups; in a variable one to a line",
    lambda value: tuple(str(_parse_account(text)) for text in texts_of(value, str.splitlines)),
    show_texts,
)
# A flag of this kind has no value: the flag means on.
SWITCH = Kind("", "on or off; in a TOML file, true or false", _parse_switch, lambda is_on: "on" if is_on else "off")
PLACES = Kind(
    "PATH",
    "paths such as /cart?id=1, octets beyond ASCII escaped (%C3%A9), or with a host before them: shop.example/cart",
    _parse_places,
    show_texts,
)
ENV = Kind("NAME=VALUE", "names and values; in a variable one to a line", _parse_env, show_texts)
PATHS = Kind("PATH", "paths", lambda value: checked_texts(value, parse_path), show_texts)
MODULES = Kind(
    "MODULE",
    "names of modules, and paths of files; in a variable one to a line",
    lambda value: checked_texts(value, parse_path),
    show_texts,
)
# RFC 3986 2.3: unreserved characters, free of escaping; and no segment of dots only, as clients resolve such segments (6.2.2.3).
HEALTH_PATH = lazy_pattern(r"(/(?!\.{1,2}(/|\Z))[A-Za-z0-9._~-]+)+\Z")
URL_PATH = Kind(
    "PATH",
    "a path such as /-/health, of letters, digits and -._~, without a slash at the end",
    optional(matching(HEALTH_PATH, "is not such a path")),
    show_text,
)
FILE = Kind("PATH", "a path", _parse_file, show_text)
SNI_NAME = lazy_pattern(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\Z")
SNI = Kind(
    "NAME=CERTIFICATE:KEY",
    "the name of a host or *.DOMAIN, and paths without colons; without :KEY the certificate's file holds it too",
    _parse_sni,
    show_texts,
)
_CIPHERS = lazy_pattern(r"[A-Za-z0-9_+:!@=.-]+\Z")
CIPHERS = Kind("LIST", "a cipher list of OpenSSL", matching(_CIPHERS, "is not a list of ciphers"))
SERVER_NAME = Kind("TEXT", "up to 200 printable ASCII characters", _parse_server_name)
PROGRESS = duration(0.1)  # a deadline of 0 would refuse every client
