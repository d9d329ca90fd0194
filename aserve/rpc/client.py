"""Calls to other servers: `call` for an event loop, `call_blocking` for any thread that may wait.

Thread:   `call`: an event loop; `call_blocking`: any that may block.
Not here: the octets (packets.py).
"""

from __future__ import annotations

import asyncio
import os
import socket
import time

from ..settings import Bind, parse_bind
from .errors import BadAddress, CannotConnect, MalformedReply, NoReply, RpcError, TimedOut
from .packets import decode_reply, encode_call, show_name

# The default of uWSGI's own clients (socket-timeout).
TIMEOUT_SECONDS = 4.0
MAX_RESULT_BYTES = 1 << 30  # Guess: aserve's limit of a request body


def _cut_short(had: int) -> RpcError:
    if had:
        return MalformedReply(f"the connection ended within the reply, after {had} octets")
    return NoReply("the connection was closed without a reply: there is no such function, or it failed")


def _cannot_connect(fault: Exception) -> CannotConnect:
    number = getattr(fault, "errno", None)
    # asyncio replaces the system's text by another. The numbers of getaddrinfo are negative.
    return CannotConnect(f"cannot connect: {os.strerror(number) if number and number > 0 else fault}")


def parse_address(address: str) -> Bind:
    """
    Parse host:port, [v6]:port, unix:/path or a path, with or without uwsgi:// before it.

    Raises:
        BadAddress: the address has none of these forms.
    """
    try:
        place = address[len("uwsgi://") :] if address.startswith("uwsgi://") else address
        bind = parse_bind(f"unix:{place}" if place.startswith(("/", "./", "../")) else place)
    except ValueError as fault:
        raise BadAddress(f"cannot call: {fault}") from None
    if bind.is_given:
        raise BadAddress(f"cannot call: {bind} is a socket to listen on, and no address")
    return bind


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

    `timeout`: in seconds, for the whole call; None: wait for ever. When cancelled,
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
        raise TimedOut(f"{_where(bind)} has not answered the call of {show_name(name)} within {timeout:g} s") from None
    except RpcError as fault:
        raise type(fault)(f"{_where(bind)}, {show_name(name)}: {fault}") from fault.__cause__


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
        reply = decode_reply(max_result_bytes)
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
        writer.transport.abort()  # the reply is complete, or the call was given up


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
        raise TimedOut(f"{_where(bind)} has not answered the call of {show_name(name)} within {timeout:g} s") from None
    except RpcError as fault:
        raise type(fault)(f"{_where(bind)}, {show_name(name)}: {fault}") from fault.__cause__


def _seconds_left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise _TimeIsUp
    return seconds


class _TimeIsUp(Exception):
    """The deadline of a blocking call has passed."""


def _give_up_if_late(fault: Exception) -> None:
    """Raise _TimeIsUp if the socket timed out. (From Python 3.10 on, the kernel's ETIMEDOUT has the same class.)"""
    if isinstance(fault, socket.timeout) and fault.errno is None:
        raise _TimeIsUp from None


def _connect(bind: Bind, deadline: float | None) -> socket.socket:
    try:
        if bind.kind == "tcp":
            return socket.create_connection((bind.host or "127.0.0.1", bind.port), _seconds_left(deadline))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_seconds_left(deadline))
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
        sock.settimeout(_seconds_left(deadline))
        sock.sendall(packet)
        reply = decode_reply(max_result_bytes)
        wanted = next(reply)
        while True:
            pieces = []
            while wanted:
                sock.settimeout(_seconds_left(deadline))
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
        raise _cut_short(had) from None  # a reset, or the peer has not acknowledged the call
