"""uwsgi RPC: functions that other servers may call, and calls to theirs.

Owns:     the registry of functions; the replies to RPC packets; the clients,
          `call` (asyncio) and `call_blocking`.
Thread:   registry and replies: any, functions run in a worker; `call`: an
          event loop; `call_blocking`: any that may block.
Spec:     uwsgi-docs RPC.rst and Protocol.rst, modifier1 173; where those are
          silent, what uWSGI 2.0.30 does.
Not here: parsing packets (protocols/uwsgi.py), calls by routes (routes.py),
          `import uwsgi` (compat/uwsgi.py).

Nothing can be called until a function is registered, and then only that.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Generator
from typing import Callable

from ..errors import AserveError
from ..exchange import RpcCall
from ..forks import forked, leave_if_forked
from ..settings import Bind, parse_bind

logger = logging.getLogger("aserve.rpc")

Function = Callable[..., bytes]

RPC = 173  # modifier1
# modifier2 of a request: the form of the reply; any other than these two is answered in raw octets.
FRAMED, HTTP = 0, 2
LONG_RESULT = 5  # modifier2 of a reply: vars with CONTENT_LENGTH, then the result
MAX_NAME_BYTES = 255
MAX_ARGUMENTS = 254
MAX_SIZE = 65535  # of a packet, and of all that has a u16 length
# The default of uWSGI's own clients (socket-timeout).
TIMEOUT_SECONDS = 4.0
MAX_RESULT_BYTES = 1 << 30  # Guess: what aserve allows a request body

_HEAD = struct.Struct("<BHB")  # modifier1, datasize, modifier2
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(; ?[\w-]+=[\w.-]+)*", re.ASCII)


# Errors


class RpcError(AserveError):
    """A call failed; the text is one line that says which, and why."""


class BadAddress(RpcError, ValueError):
    """The address of a server is not one."""


class CannotConnect(RpcError):
    """Nobody accepts connections at the address."""


class TimedOut(RpcError):
    """There was no whole reply in time."""


class NoReply(RpcError):
    """The server closed the connection without an octet: it has no such function, or the function failed."""


class MalformedReply(RpcError):
    """What came is not a reply, or only a part of one."""


class ResultTooLarge(RpcError):
    """The result is larger than the caller allows."""


class PacketTooLarge(RpcError):
    """Name and arguments do not fit a packet; nothing was sent."""


class TooManyArguments(RpcError):
    """More than 254 arguments; nothing was sent."""


class UnknownFunction(RpcError):
    """No function of this name is registered in this process."""


class FunctionFailed(RpcError):
    """A registered function raised, or returned something else than bytes; the log has more."""


# The registry

_functions: dict[bytes, Function] = {}
_registering = threading.Lock()


def register(name: str, function: Function, *, replace: bool = False) -> None:
    """
    Let other servers call function(*arguments) by this name; arguments and result are bytes.

    It runs in a worker thread, several calls at once.

    Raises:
        ValueError: the name is empty, longer than 255 octets or holds a NUL; or it is taken, without `replace`.
        TypeError: the function cannot be called, or is a coroutine function.
    """
    key = name.encode()
    if not key or len(key) > MAX_NAME_BYTES or b"\0" in key:
        raise ValueError(f"an RPC function's name has 1 to {MAX_NAME_BYTES} octets, none of them NUL: {name!r:.80}")
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"the RPC function {name!r} must be a function that returns bytes, not {function!r:.80}")
    with _registering:
        if key in _functions and not replace:
            raise ValueError(f"there is an RPC function {name!r} already; register it with replace=True")
        _functions[key] = function


def unregister(name: str) -> None:
    """Take a function back; nothing happens if there is none of this name."""
    with _registering:
        _functions.pop(name.encode(), None)


def registered() -> list[str]:
    """Return the names of the registered functions, in order of registration."""
    with _registering:
        return [key.decode() for key in _functions]


def call_local(name: bytes, *arguments: bytes) -> bytes:
    """
    Return what a registered function of this process returns.

    Raises:
        UnknownFunction: there is none of this name.
        FunctionFailed: it raised, or did not return bytes.
    """
    function = _functions.get(name)
    shown = repr(name)[1:80]
    if function is None:
        why = f"there is no RPC function {shown}" if _functions else "no RPC function is registered"
        logger.warning("refused a call of %s: %s", shown, why)
        raise UnknownFunction(why)
    count = len(forked)
    try:
        result: object = function(*arguments)
    except BaseException as exc:  # SystemExit and the like cost this call and nothing else
        leave_if_forked(count, exc)
        logger.error("the RPC function %s raised %s", shown, type(exc).__name__, exc_info=exc)
        raise FunctionFailed(f"the RPC function {shown} raised {type(exc).__name__}") from exc
    if not isinstance(result, bytes):
        kind = type(result).__name__
        hint = "; return text.encode()" if kind == "str" else ""
        logger.error("the RPC function %s returned %s, but must return bytes%s", shown, kind, hint)
        raise FunctionFailed(f"the RPC function {shown} returned {kind}")
    return result


# Replies


def respond(call: RpcCall) -> bytes | None:
    """Call the function that a packet names; return the whole reply, None: close without an octet."""
    if call.modifier2 == HTTP:
        reply = _respond_http(call)
        return reply[: reply.index(b"\r\n\r\n") + 4] if call.is_head else reply  # RFC 9110 9.3.2
    try:
        result = call_local(*call.items) if call.items else b""
    except RpcError:
        return None  # it is in the log
    if not result:
        return None  # as uWSGI: an empty result is none
    return encode_reply(result) if call.modifier2 == FRAMED else result


def encode_reply(result: bytes) -> bytes:
    """Return a result as a packet, in the long form where its length does not fit a header."""
    if len(result) <= MAX_SIZE:
        return _HEAD.pack(RPC, len(result), FRAMED) + result
    length = _encode_items([b"CONTENT_LENGTH", b"%d" % len(result)])
    return b"".join((_HEAD.pack(RPC, len(length), LONG_RESULT), length, result))


def _respond_http(call: RpcCall) -> bytes:
    if not call.items:
        return _error("500 Internal Server Error")
    try:
        result = call_local(*call.items)
    except FunctionFailed:
        # Stricter than uWSGI, which says 404: the function is there.
        return _error("500 Internal Server Error")
    except UnknownFunction:
        return _error("404 Not Found")
    if not result:
        return _error("404 Not Found")
    # Stricter than uWSGI: its Content-Type is whatever a client accepts, be it a list or */*.
    kind = call.accept if _MEDIA_TYPE.fullmatch(call.accept) else "application/binary"
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(result)}\r\nContent-Type: {kind}\r\n\r\n".encode() + result


def _error(status: str) -> bytes:
    text = status[4:]
    fields = f"Connection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}\r\n{text}".encode()


# Packets of the clients


def encode_call(name: str | bytes, arguments: tuple[str | bytes, ...]) -> bytes:
    """
    Return the packet that calls a function.

    Raises:
        PacketTooLarge: it would have more than 65,535 octets, or the name more than 255.
        TooManyArguments: there are more than 254.
        TypeError: the name or an argument is neither bytes nor text.
    """
    items = [to_octets(item) for item in (name, *arguments)]
    if len(arguments) > MAX_ARGUMENTS:
        raise TooManyArguments(f"{_shown(name)} was given {len(arguments)} arguments; a packet takes {MAX_ARGUMENTS}")
    if not 0 < len(items[0]) <= MAX_NAME_BYTES:
        raise PacketTooLarge(f"a function's name has 1 to {MAX_NAME_BYTES} octets, not {len(items[0])}")
    size = sum(map(len, items)) + 2 * len(items)
    if size > MAX_SIZE:
        raise PacketTooLarge(f"the call of {_shown(name)} has {size} octets; a packet takes {MAX_SIZE}")
    return _HEAD.pack(RPC, size, FRAMED) + _encode_items(items)


def to_octets(item: str | bytes) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if not isinstance(item, (bytes, bytearray, memoryview)):
        raise TypeError(f"RPC takes bytes or text, not {type(item).__name__}: {item!r:.60}")
    return bytes(item)


def _encode_items(items: list[bytes]) -> bytes:
    return b"".join([part for item in items for part in (len(item).to_bytes(2, "little"), item)])


def _shown(name: str | bytes) -> str:
    return repr(name if isinstance(name, str) else name.decode("latin-1"))[:80]


def _decode_reply(max_result_bytes: int) -> Generator[int, bytes, bytes]:
    """
    Ask for octets by their number, again and again; return the result.

    Raises:
        MalformedReply: this is no reply.
        ResultTooLarge: the result has more than `max_result_bytes`.
    """
    head = yield _HEAD.size
    modifier1, length, modifier2 = _HEAD.unpack(head)
    if modifier1 != RPC or modifier2 not in (FRAMED, LONG_RESULT):
        raise MalformedReply(f"{head!r} begins no RPC reply{' but an HTTP response' if head == b'HTTP' else ''}")
    if modifier2 == LONG_RESULT:
        length = _decode_length((yield length) if length else b"")
    if length > max_result_bytes:
        raise ResultTooLarge(f"the result has {length} octets, more than the {max_result_bytes} allowed")
    return (yield length) if length else b""


def _decode_length(data: bytes) -> int:
    """Return the CONTENT_LENGTH in a long reply's vars."""
    items, position = [], 0
    while position < len(data):
        end = position + 2 + int.from_bytes(data[position : position + 2], "little")
        items.append(data[position + 2 : end])
        position = end
    if position != len(data) or len(items) % 2:
        raise MalformedReply(f"the vars of the reply overrun it: {data!r:.80}")
    value = dict(zip(items[::2], items[1::2])).get(b"CONTENT_LENGTH", b"")
    if not value.isdigit() or len(value) > 18:
        raise MalformedReply(f"the vars of the reply have no CONTENT_LENGTH: {data!r:.80}")
    return int(value)


def _cut_short(had: int) -> RpcError:
    if had:
        return MalformedReply(f"the connection ended within the reply, after {had} octets")
    return NoReply("the connection was closed without a reply: there is no such function, or it failed")


def _cannot_connect(fault: Exception) -> CannotConnect:
    number = getattr(fault, "errno", None)
    # asyncio puts a text of its own in place of the system's. Those of getaddrinfo are negative.
    return CannotConnect(f"cannot connect: {os.strerror(number) if number and number > 0 else fault}")


def parse_address(address: str) -> Bind:
    """
    Parse host:port, [v6]:port, unix:/path or a path, with or without uwsgi:// before it.

    Raises:
        BadAddress: it is none of these.
    """
    try:
        place = address[len("uwsgi://") :] if address.startswith("uwsgi://") else address
        return parse_bind(f"unix:{place}" if place.startswith(("/", "./", "../")) else place)
    except ValueError as fault:
        raise BadAddress(f"cannot call: {fault}") from None


def _where(bind: Bind) -> str:
    return str(bind._replace(host=bind.host or "127.0.0.1") if bind.kind == "tcp" else bind)


def _unix_name(bind: Bind) -> str:
    return "\0" + bind.path[1:] if bind.path.startswith("@") else bind.path  # Linux's abstract namespace


# The asyncio client


async def call(
    address: str,
    name: str | bytes,
    *arguments: str | bytes,
    timeout: float | None = TIMEOUT_SECONDS,
    max_result_bytes: int = MAX_RESULT_BYTES,
) -> bytes:
    """
    Call a function of another server; text is sent as UTF-8.

    `timeout` is in seconds, for all of it; None: wait for ever. When cancelled,
    the connection is closed.

    Raises:
        BadAddress, CannotConnect, TimedOut, NoReply, MalformedReply,
        ResultTooLarge, PacketTooLarge, TooManyArguments: all RpcErrors.
        TypeError: the name or an argument is neither bytes nor text.
    """
    bind, packet = parse_address(address), encode_call(name, arguments)
    try:
        return await asyncio.wait_for(_exchange(bind, packet, max_result_bytes), timeout)
    except asyncio.TimeoutError:
        raise TimedOut(f"{_where(bind)} has not answered the call of {_shown(name)} within {timeout:g} s") from None
    except RpcError as fault:
        raise type(fault)(f"{_where(bind)}, {_shown(name)}: {fault}") from fault.__cause__


async def _exchange(bind: Bind, packet: bytes, max_result_bytes: int) -> bytes:
    try:
        if bind.kind == "unix":
            reader, writer = await asyncio.open_unix_connection(_unix_name(bind))
        else:
            reader, writer = await asyncio.open_connection(bind.host or "127.0.0.1", bind.port)
    except (OSError, UnicodeError) as fault:  # UnicodeError: a host name with an empty label
        raise _cannot_connect(fault) from fault
    had = 0
    try:
        writer.write(packet)
        reply = _decode_reply(max_result_bytes)
        wanted = next(reply)
        while True:
            octets = await reader.readexactly(wanted)
            had += wanted
            wanted = reply.send(octets)
    except StopIteration as end:
        return bytes(end.value)
    except asyncio.IncompleteReadError as fault:
        raise _cut_short(had + len(fault.partial)) from None
    except OSError:
        raise _cut_short(had) from None  # a reset
    finally:
        writer.transport.abort()  # everything has come, or nothing of it is wanted any more


# The blocking client


def call_blocking(
    address: str,
    name: str | bytes,
    *arguments: str | bytes,
    timeout: float | None = TIMEOUT_SECONDS,
    max_result_bytes: int = MAX_RESULT_BYTES,
) -> bytes:
    """
    Call a function of another server, and wait; see `call`. For any thread but an event loop's.

    Raises:
        As `call`.
    """
    bind, packet = parse_address(address), encode_call(name, arguments)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        with _connect(bind, deadline) as sock:
            return _exchange_blocking(sock, packet, deadline, max_result_bytes)
    except _TimeIsUp:
        raise TimedOut(f"{_where(bind)} has not answered the call of {_shown(name)} within {timeout:g} s") from None
    except RpcError as fault:
        raise type(fault)(f"{_where(bind)}, {_shown(name)}: {fault}") from fault.__cause__


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise _TimeIsUp
    return seconds


class _TimeIsUp(Exception):
    """The deadline of a blocking call has passed."""


def _give_up_if_late(fault: Exception) -> None:
    """Raise _TimeIsUp for a time-out of the socket's; from Python 3.10 on ETIMEDOUT of the kernel has the same class."""
    if isinstance(fault, socket.timeout) and fault.errno is None:
        raise _TimeIsUp from None


def _connect(bind: Bind, deadline: float | None) -> socket.socket:
    try:
        if bind.kind == "tcp":
            return socket.create_connection((bind.host or "127.0.0.1", bind.port), _left(deadline))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_left(deadline))
            sock.connect(_unix_name(bind))
        except BaseException:
            sock.close()
            raise
        return sock
    except (OSError, UnicodeError) as fault:
        _give_up_if_late(fault)
        raise _cannot_connect(fault) from fault


def _exchange_blocking(sock: socket.socket, packet: bytes, deadline: float | None, max_result_bytes: int) -> bytes:
    had = 0
    try:
        sock.settimeout(_left(deadline))
        sock.sendall(packet)
        reply = _decode_reply(max_result_bytes)
        wanted = next(reply)
        while True:
            pieces = []
            while wanted:
                sock.settimeout(_left(deadline))
                piece = sock.recv(min(wanted, 1 << 18))
                if not piece:
                    raise _cut_short(had)
                pieces.append(piece)
                had += len(piece)
                wanted -= len(piece)
            wanted = reply.send(b"".join(pieces))
    except StopIteration as end:
        return bytes(end.value)
    except OSError as fault:
        _give_up_if_late(fault)
        raise _cut_short(had) from None  # a reset, or nobody has acknowledged what was sent
