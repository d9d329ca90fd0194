"""The fields of proxies about their client: Forwarded, X-Forwarded-*, X-Real-IP.

Owns:     the names; removing the fields from every request, unless an extension keeps them; reading their claims, for listeners with a trusted
          proxy. Pure.
Thread:   `strip_forwarded` on the event loop, or in the lane's leader; `read_claims` in a worker.
Spec:     RFC 7239; section 7.4 is about X-Forwarded-*, fields without a specification.
Not here: the trusted peers (peers.py), applying a claim (trust.py).

A list is read from the right end. Each proxy appends to the list received, so the proxy connected to us wrote the last entry. The proxy named in
the last entry wrote the entry in front, which counts only if that proxy is one of ours; and so on. Anything further to the left may come from a
client.
"""

from __future__ import annotations

import logging
import re
from typing import Callable, TypeVar
from urllib.parse import unquote

from ..core.errors import RequestRefused
from ..core.exchange import IS_FORWARDED, Exchange
from ..core.log_once import LogOnce
from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern
from ..wsgi.environ import SCHEMES
from .peers import pack, unpack

logger = logging.getLogger("aserve")

# CGI names. Fields believed only by an app are removed as well: X-Forwarded-User of a proxy that knows the user, X-Forwarded-Ssl,
# X-Forwarded-Server and more.
_FORWARDED_FIELD = lazy_pattern(r"\0(HTTP_(?:X_FORWARDED[^\0]*|FORWARDED|X_REAL_IP))\0([^\0]*)")
FORWARDED, REAL_IP = "HTTP_FORWARDED", "HTTP_X_REAL_IP"
FOR, PROTO, HOST = "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST"
PORT, PREFIX = "HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_PREFIX"

DEFAULT_PORTS = {"http": "80", "https": "443"}

# RFC 7239 section 6: nodename and node-port. nginx sends "unix:" for a client on a unix socket.
_HIDDEN = lazy_pattern(r"unknown|_[A-Za-z0-9._-]+", re.IGNORECASE)
_NODE_PORT = lazy_pattern(r"([0-9]{1,5})|_[A-Za-z0-9._-]+")
_PORT = lazy_pattern(r"[1-9][0-9]{0,4}")
# RFC 3986 3.2.2, without characters foreign to all host names: uri-host [ ":" port ]
_HOST = lazy_pattern(r"([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_BAD_PERCENT = lazy_pattern(r"%(?![0-9A-Fa-f]{2})")
_PATH = lazy_pattern(r"(?:/[^/\x00-\x20\\\x7f][^\x00-\x1f\x7f\\]*)?")
# RFC 7239 section 4: forwarded-pair = token "=" ( token / quoted-string )
# Lenient: "for=192.0.2.1:80" and "for=[::1]" are understood without their quotes.
_PAIR = lazy_pattern(r"""([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:([!#$%&'*+.^_`|~0-9A-Za-z:\[\]-]+)|"((?:[^"\\]|\\.)*)")""")
_ESCAPED = lazy_pattern(r"\\(.)")

# A client may send a long field, for a proxy to append to: 60 KiB took 60 to 95 ms (2026-11-21, CPython 3.11). Guess: as long as the longest
# request line; room for a hundred proxies.
MAX_FORWARDED = 8190  # octets

T = TypeVar("T")


class Node(NamedTuple):
    """A client or proxy, as named in a field; the address is empty if the field hides the address."""

    address: str
    port: str


class Rules(NamedTuple):
    """The rules for claims of a proxy."""

    names: frozenset[str]  # CGI names of the fields set by the proxies
    hops: int  # number of proxies in front of us; 0: as many as `is_proxy` accepts
    is_proxy: Callable[[str], bool]  # whether an address is a proxy's


class Claims(NamedTuple):
    """The claims of the proxies; empty where there is no claim."""

    client: Node | None
    scheme: str
    host: str  # with the port, if any
    port: str
    prefix: str
    # The fields themselves, without entries in front of the proxies' own, maybe from a client.
    fields: tuple[tuple[str, str], ...]


def cgi_name(field: str) -> str:
    """Return the name of a field in the environ."""
    return "HTTP_" + field.upper().replace("-", "_")


def field_name(cgi: str) -> str:
    """Return the name of a field on the wire."""
    return cgi[len("HTTP_") :].replace("_", "-").title().replace("-Ip", "-IP")


# Removing the fields


def strip_forwarded(exchange: Exchange) -> None:
    """Move the fields from `exchange.vars` to `exchange.forwarded`."""
    # Measured with CPython 3.11 and a head of Chrome's: a third of the time of a look at every pair.
    vars = "\0" + exchange.vars
    kept: list[str] = []
    sent: dict[str, str] = {}
    start = nuls = looked = 0
    match = _FORWARDED_FIELD.search(vars)
    while match is not None:
        at = match.start()
        nuls += vars.count("\0", looked, at)
        looked = at
        if nuls % 2:  # a value that looks like a name
            match = _FORWARDED_FIELD.search(vars, at + 1)
            continue
        name, value = match.groups()
        sent[name] = f"{sent[name]}, {value}" if name in sent else value  # RFC 9110 5.3
        kept.append(vars[start:at])
        start = match.end()
        match = _FORWARDED_FIELD.search(vars, start)
    if sent:
        kept.append(vars[start:])
        exchange.vars = "".join(kept)[1:]
        exchange.forwarded = sent


def keep_forwarded(exchange: Exchange) -> None:
    """Copy the fields to `exchange.forwarded`, and leave them to the app."""
    vars = exchange.vars
    strip_forwarded(exchange)
    exchange.vars = vars


class StripForwarded:
    """`strip_forwarded` for a listener without trusted proxies; logs the first removed fields."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.line = LogOnce(logger, logging.INFO)

    def __call__(self, exchange: Exchange) -> None:
        """Move the fields from `exchange.vars` to `exchange.forwarded`; log the first move."""
        strip_forwarded(exchange)
        if exchange.forwarded is not None and not self.line.is_said:
            self.line.log(
                "%s: %s came; aserve removes all such fields; if a proxy of yours sets them: --trusted-proxies "
                "(said once)",
                self._where,
                ", ".join(map(field_name, exchange.forwarded))[:200],
            )


def marking(strip: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    """Return `strip`, extended: IS_FORWARDED stays in the environ. Only --reload needs that, for the page (features/fault_page.py)."""

    def strip_and_mark(exchange: Exchange) -> None:
        strip(exchange)
        if exchange.forwarded is not None:
            exchange.vars += f"\0{IS_FORWARDED}\0yes"

    return strip_and_mark


# Reading the claims


def read_claims(sent: dict[str, str], rules: Rules) -> Claims:
    """
    Return the proxies' claims in the fields named by the rules.

    Raises:
        RequestRefused: a field is malformed.
    """
    named = {name: value for name, value in sent.items() if name in rules.names}
    client, count = None, rules.hops or 1
    scheme = host = ""
    fields = {name: value for name, value in named.items() if name not in _READ}
    if FORWARDED in named:
        elements = _of_field(FORWARDED, parse_forwarded, named[FORWARDED])
        believed = _of_field(FORWARDED, _believe_elements, elements, rules)
        client, scheme, host = _of_field(FORWARDED, _merge_elements, believed)
        if believed:
            fields[FORWARDED] = ", ".join(element.text for element in believed)
            count = len(believed)
    if FOR in named:
        entries = _split(named[FOR])
        nodes = _of_field(FOR, _believe_nodes, entries, rules)
        if nodes:
            client, count = nodes[-1], len(nodes)
            fields[FOR] = ", ".join(entries[-count:])

    if _split(named.get(REAL_IP, "")):
        # Not a list: each proxy overwrites the field with the address of the proxy's own peer.
        fields[REAL_IP] = _split(named[REAL_IP])[-1]
        node = _of_field(REAL_IP, parse_node, fields[REAL_IP])
        client = node if client is None else client

    def pick(name: str, read: Callable[[str], str]) -> str:
        entries = _split(named.get(name, ""))[-count:]
        if not entries:
            return ""
        fields[name] = entries[0]
        return _of_field(name, read, entries[0])

    return Claims(
        client=client,
        scheme=pick(PROTO, read_scheme) or scheme,
        host=pick(HOST, read_host) or host,
        port=pick(PORT, read_port),
        prefix=pick(PREFIX, read_prefix),
        fields=tuple(fields.items()),
    )


_READ = frozenset((FORWARDED, REAL_IP, FOR, PROTO, HOST, PORT, PREFIX))


def _of_field(name: str, function: Callable[..., T], *arguments: object) -> T:
    """Call a function; turn a ValueError into a refusal with the name of the field."""
    try:
        return function(*arguments)
    except ValueError as fault:
        raise RequestRefused(400, f"{field_name(name)}, as a proxy has sent it, is malformed: {fault}") from None


def _split(value: str) -> list[str]:
    # RFC 9110 5.6.1.2: empty elements do not count.
    return [entry for entry in (part.strip(" \t") for part in value.split(",")) if entry]


def _believe_nodes(entries: list[str], rules: Rules) -> list[Node]:
    """Return the entries of X-Forwarded-For that count, from the right."""
    nodes: list[Node] = []
    for entry in reversed(entries):
        node = parse_node(entry.strip('"'))
        nodes.append(node)
        if not _goes_on(len(nodes), node, rules):
            break
    return nodes


def _goes_on(count: int, node: Node | None, rules: Rules) -> bool:
    """Whether one of our proxies wrote the entry before this one, too."""
    if rules.hops:
        return count < rules.hops
    return node is not None and rules.is_proxy(node.address)


def parse_node(text: str) -> Node:
    """
    Parse an address with or without a port; IPv6 needs brackets only before a port.

    Raises:
        ValueError: not an address.
    """
    host, port, has_port = text, "", False
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        has_port, port = bool(rest), rest[1:]
        if not bracket or ":" not in host or (has_port and rest[0] != ":"):
            raise ValueError(f"{text!a:.60} is no address")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if host == "unix" and not port:
            return Node("", "")
        has_port = True
    number = _NODE_PORT.fullmatch(port)
    if has_port and (number is None or int(number[1] or 0) > 65535):
        raise ValueError(f"{text!a:.60} has no port after its colon")
    if _HIDDEN.fullmatch(host):
        return Node("", "")
    packed = pack(host)
    if packed is None:
        raise ValueError(f"{text!a:.60} is no address")
    return Node(unpack(packed), (number[1] or "") if number is not None else "")


def read_scheme(text: str) -> str:
    """Return http or https, whichever a proxy means; ValueError: neither."""
    scheme = SCHEMES.get(text.lower())
    if scheme is None:
        raise ValueError(f"{text!a:.60} is neither http nor https")
    return scheme


def read_host(text: str) -> str:
    """Return a host, with the port if any; ValueError: not a host."""
    match = _HOST.fullmatch(text)
    if match is None or int(match[2] or 0) > 65535:
        raise ValueError(f"{text!a:.60} is no host")
    return text


def split_host(host: str) -> tuple[str, str]:
    """Return name and port of a host; a missing part is empty."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and not port.endswith("]") else (host, "")


def read_port(text: str) -> str:
    """Return a port; ValueError: not a port."""
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise ValueError(f"{text!a:.60} is no port")
    return text


def read_prefix(text: str) -> str:
    """Return the SCRIPT_NAME of a prefix; ValueError: not a path."""
    path = unquote(text, "latin-1").rstrip("/")
    # "//host" or "/\host" in front of a path would send browsers to another server.
    if not text.startswith("/") or _BAD_PERCENT.search(text) or not _PATH.fullmatch(path):
        raise ValueError(f"{text!a:.60} is no path")
    return path


# RFC 7239


class Element(NamedTuple):
    """One proxy's part of the field: forwarded-element."""

    text: str
    pairs: dict[str, str]  # by names in lower case

    @property
    def node(self) -> Node | None:
        """The client named by the proxy."""
        return parse_node(self.pairs["for"]) if "for" in self.pairs else None


def parse_forwarded(value: str) -> list[Element]:
    """
    Parse a whole field.

    Raises:
        ValueError: the field is malformed, or too long.

    Spec: RFC 7239 section 4.
    """
    if len(value) > MAX_FORWARDED:
        raise ValueError(f"longer than {MAX_FORWARDED} octets")
    elements: list[Element] = []
    position, end = 0, len(value)
    while position < end:
        position = _skip_space(value, position)
        start = position
        pairs: dict[str, str] = {}
        while True:
            match = _PAIR.match(value, position)
            if match is not None:
                name = match[1].lower()
                if name in pairs:
                    raise ValueError(f"{name!a} stands twice in one element")
                pairs[name] = match[2] if match[3] is None else _ESCAPED.sub(r"\1", match[3])
                position = match.end()
            stop = position
            position = _skip_space(value, position)  # Lenient: RFC 7239 has none around a ";"
            if value[position : position + 1] != ";":
                break
            position = _skip_space(value, position + 1)
        if position < end and value[position] != ",":
            raise ValueError(f"{value[position : position + 30]!a} is no pair such as for=192.0.2.1")
        if pairs:
            elements.append(Element(value[start:stop], pairs))
        position += 1
    return elements


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    return position


def _believe_elements(elements: list[Element], rules: Rules) -> list[Element]:
    """Return the elements that count, in order."""
    believed: list[Element] = []
    for element in reversed(elements):
        believed.append(element)
        if not _goes_on(len(believed), element.node, rules):
            break
    return believed[::-1]


def _merge_elements(believed: list[Element]) -> tuple[Node | None, str, str]:
    """Return client, scheme and host, each from the naming proxy farthest from us."""
    client, scheme, host = None, "", ""
    for element in reversed(believed):
        client = element.node or client
        pairs = element.pairs
        scheme = read_scheme(pairs["proto"]) if "proto" in pairs else scheme
        host = read_host(pairs["host"]) if "host" in pairs else host
    return client, scheme, host
