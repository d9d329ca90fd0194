"""uwsgi: one packet, then the body, on each connection.

Owns:     from a uwsgi packet to an exchange; the served modifiers.
Thread:   event loop only; the lane's leader has a Uwsgi of its own for `read_packet`.
Spec:     uwsgi-docs Protocol.rst.
Not here: the grammar (cparsers/uwsgi.c), the body (one_request.py), calling RPC
          functions (rpc/registry.py).

A packet may ask for a request, a ping or a call, and for nothing else: UWSGI_FILE, UWSGI_SETENV and the like are only entries of environ.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Callable

from .._cparsers import ffi, lib
from ..core.errors import RequestRefused
from ..core.exchange import UWSGI as FORM
from ..core.exchange import Exchange, RpcCall
from .base import ExchangeFactory, Limits, WireProtocol, refusal
from .one_request import FRONT_VARS, OneRequest

WSGI: int = lib.UWSGI_WSGI
WSGI_MOUNT: int = lib.UWSGI_WSGI_MOUNT
REQUESTS = (WSGI, WSGI_MOUNT)
PING: int = lib.UWSGI_PING
RPC: int = lib.UWSGI_RPC
RPC_BY_PATH = 2  # modifier2: the data are vars, PATH_INFO names function and arguments
MAX_RPC_ITEMS = 255  # uWSGI's own limit: the name and 254 arguments

# uWSGI's meanings of refused modifiers, for the log line.
MEANINGS = {
    1: "reserved", 5: "PSGI (Perl)", 6: "Lua", 7: "Rack (Ruby)", 8: "JVM", 9: "CGI", 10: "management", 14: "PHP",
    15: "Mono", 17: "spooler", 18: "symbol call", 22: "code evaluation", 23: "XSLT", 24: "V8", 25: "Go", 26: "GridFS",
    27: "fast function call", 28: "Rados", 31: "message string", 32: "message array", 33: "marshalled message",
    48: "snmp", 72: "an HTTP response", 73: "raw HTTP", 97: "reload", 98: "reload", 101: "echo", 109: "legion",
    110: "signal", 111: "cache", 123: "core router", 173: "RPC", 200: "persistent connection", 224: "subscription",
    255: "generic response",
}  # fmt: skip


class UwsgiScratch:
    """The common C memory of all connections of one event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        vars_cap = limits.max_head_bytes + 1
        self._vars = ffi.new("char[]", vars_cap)
        self.vars = ffi.buffer(self._vars, vars_cap)
        self.packet = packet = ffi.new("uwsgi_packet *")
        packet.vars = self._vars
        packet.vars_cap = vars_cap
        packet.max_packet_len = limits.max_head_bytes
        packet.max_vars = limits.max_fields + FRONT_VARS
        self.results_view = ffi.buffer(packet)
        self.results_offset = ffi.offsetof("uwsgi_packet", "content_length")
        self.unpack_results = struct.Struct("@QIIIII").unpack_from
        self.items = ffi.new("aserve_span[]", MAX_RPC_ITEMS)


class Uwsgi(OneRequest):
    """One connection's packet: a WireProtocol."""

    __slots__ = ("_scratch",)

    def __init__(self, scratch: UwsgiScratch) -> None:
        super().__init__(scratch.limits, FORM)
        self._scratch = scratch

    def _receive_head(self, data: bytes) -> list[Exchange]:
        scratch = self._scratch
        consumed = lib.uwsgi_parse_packet(data, len(data), scratch.packet)
        if consumed == lib.ASERVE_INCOMPLETE:
            self.unparsed = data
            return []
        if consumed < 0:
            self._phase, why = OneRequest._receive_nothing, refusal(consumed)
            is_request = data[0] in REQUESTS or (data[0] == RPC and data[3] == RPC_BY_PATH)
            # A limit is the client's fault, for a response; other faults get none.
            return [self.new_refusal(why) if why.status == 431 and is_request else self._new_silent_refusal(why)]
        length, vars_len, _, modifier1, _, own_count = scratch.unpack_results(
            scratch.results_view, scratch.results_offset
        )
        vars = scratch.vars[:vars_len].decode("latin-1")
        exchange = self.read_packet(vars, own_count, 0, modifier1, data, 0, consumed)
        if exchange.is_for_loop or exchange.rpc is not None:
            self._phase = OneRequest._receive_nothing
            return [exchange]
        return self._begin_request(exchange, length, data[consumed:])

    def read_packet(
        self, vars: str, own_count: int, _: int, modifier1: int, octets: Any, start: int, size: int
    ) -> Exchange:
        """Return the exchange of a packet: a request, perhaps with a body, a call, a ping; or a refusal. An ExchangeFactory."""
        if modifier1 in REQUESTS:
            if not vars:
                return self._new_silent_refusal(RequestRefused(400, "the packet has no vars"))
            exchange = self.new_exchange(vars, own_count)
            exchange.is_mounted = modifier1 == WSGI_MOUNT
            return exchange
        if modifier1 == RPC:
            return self._read_call(vars, own_count, octets[start : start + size])
        if modifier1 == PING:
            exchange = self.new_exchange(vars, own_count)
            exchange.is_for_loop = True
            exchange.ping = encode_ping
            return exchange
        what = MEANINGS.get(modifier1, "unknown")
        served = "only requests (0, 30), ping (100) and RPC (173) are"
        return self._new_silent_refusal(RequestRefused(501, f"modifier1 {modifier1} ({what}) is not served; {served}"))

    def _read_call(self, vars: str, own_count: int, packet: bytes) -> Exchange:
        """Return the call of an RPC packet: function name and arguments, as an array or by path."""
        exchange = self.new_exchange(vars, own_count)
        modifier2, data = packet[3], packet[4:]
        if modifier2 == RPC_BY_PATH:
            parts = iter(vars.split("\0"))
            values = dict(zip(parts, parts))
            path = values.get("PATH_INFO", "").strip("/")
            items = [part.encode("latin-1") for part in path.split("/")] if path else []
            exchange.rpc = RpcCall(modifier2, items, values.get("HTTP_ACCEPT", ""), exchange.is_head)
            return exchange
        spans = self._scratch.items
        count = lib.uwsgi_parse_array(data, len(data), spans, MAX_RPC_ITEMS)
        if count < 0:
            return self._new_silent_refusal(refusal(count))
        exchange.rpc = RpcCall(modifier2, [data[s.off : s.off + s.len] for s in spans[0:count]], "")
        return exchange

    def _new_silent_refusal(self, why: RequestRefused) -> Exchange:
        """Return a refusal with a log line and a close without an octet, as in uWSGI: such a peer does not read HTTP."""
        refused = self.new_refusal(why)
        refused.is_silent = True
        return refused


def encode_ping(warning: str) -> bytes:
    """Return the reply to a ping; an empty warning means healthy."""
    text = warning.encode("latin-1", "replace")
    return struct.pack("<BHB", PING, len(text), 1) + text


def new_factory(limits: Limits) -> Callable[[], WireProtocol]:
    return functools.partial(Uwsgi, UwsgiScratch(limits))


def new_exchange_factory(limits: Limits) -> ExchangeFactory:
    """Return a function that makes the exchange of a parsed packet, with scratch memory of its own, as another thread calls the function."""
    return Uwsgi(UwsgiScratch(limits)).read_packet
