"""The functions for calls by other servers, and the replies.

Thread:   any; functions run in a worker.
Spec:     uwsgi-docs RPC.rst; where that is silent, uWSGI 2.0.30's behaviour.
Not here: calls by routes (compat/routes/), `import uwsgi` (compat/uwsgi_api/module.py).

Only registered functions can be called.
"""

from __future__ import annotations

import inspect
import logging
import re
import threading
from collections.abc import Sequence
from typing import Callable

from ..core.exchange import RpcCall
from ..core.forks import end_if_forked, forked
from ..core.patterns import lazy_pattern
from .errors import FunctionFailed, RpcError, UnknownFunction
from .packets import FRAMED, HTTP, MAX_NAME_BYTES, encode_reply

logger = logging.getLogger("aserve.rpc")

Function = Callable[..., bytes]

_MEDIA_TYPE = lazy_pattern(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(; ?[\w-]+=[\w.-]+)*", re.ASCII)

_functions: dict[bytes, Function] = {}
_registering = threading.RLock()  # reentrant: a replaced function may have a finalizer that registers another


def register(name: str, function: Function, *, replace: bool = False) -> None:
    """
    Let other servers call function(*arguments) by this name; arguments and result are bytes.

    The function runs in a worker thread, several calls at once.

    Raises:
        ValueError: the name is empty, longer than 255 octets or holds a NUL; or is taken, without `replace`.
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
    """Remove a function; do nothing if there is none of this name."""
    _functions.pop(name.encode(), None)


def registered() -> list[str]:
    """Return the names of the registered functions, in order of registration."""
    return [key.decode() for key in list(_functions)]


def call_local(name: bytes, *arguments: bytes) -> bytes:
    """
    Call a registered function of this process; return its result.

    Raises:
        UnknownFunction: there is no function of this name.
        FunctionFailed: the function raised, or did not return bytes.
    """
    function = _functions.get(name)
    if function is None:
        why = f"there is no RPC function {_show(name)}" if _functions else "no RPC function is registered"
        logger.warning("refused a call of %s: %s", _show(name), why)
        raise UnknownFunction(why)
    count = len(forked)
    try:
        result: object = function(*arguments)
    except BaseException as exc:  # SystemExit and the like end only this call
        end_if_forked(count, exc)
        logger.error("the RPC function %s raised %s", _show(name), type(exc).__name__, exc_info=exc)
        raise FunctionFailed(f"the RPC function {_show(name)} raised {type(exc).__name__}") from exc
    if not isinstance(result, bytes):
        kind = type(result).__name__
        hint = "; return text.encode()" if kind == "str" else ""
        logger.error("the RPC function %s returned %s, but must return bytes%s", _show(name), kind, hint)
        raise FunctionFailed(f"the RPC function {_show(name)} returned {kind}")
    return result


def _show(name: bytes) -> str:
    """Return a function's name for a message."""
    return repr(name)[1:80]


def respond(call: RpcCall) -> bytes | None:
    """Call the function named in a packet; return the complete reply. None: close without an octet."""
    if call.modifier2 == HTTP:
        reply = _respond_http(call)
        return reply[: reply.index(b"\r\n\r\n") + 4] if call.is_head else reply  # RFC 9110 9.3.2
    if call.modifier2 == FRAMED:
        return respond_framed(*call.items) or None
    return _result_of(call.items) or None


def respond_framed(*items: bytes) -> bytes:
    """Call the function named by the first item, with the rest; return the complete reply as a packet, empty: close without an octet."""
    result = _result_of(items)
    return encode_reply(result) if result else b""


def _result_of(items: Sequence[bytes]) -> bytes:
    try:
        return call_local(*items) if items else b""
    except RpcError:
        return b""  # the error is in the log; and as in uWSGI an empty result is no result


def _respond_http(call: RpcCall) -> bytes:
    if not call.items:
        return _error("500 Internal Server Error")
    try:
        result = call_local(*call.items)
    except FunctionFailed:
        # Stricter than uWSGI with a 404: the function exists.
        return _error("500 Internal Server Error")
    except UnknownFunction:
        return _error("404 Not Found")
    if not result:
        return _error("404 Not Found")
    # Stricter than uWSGI, whose Content-Type is the client's Accept field, even a list or */*.
    kind = call.accept if _MEDIA_TYPE.fullmatch(call.accept) else "application/binary"
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(result)}\r\nContent-Type: {kind}\r\n\r\n".encode() + result


def _error(status: str) -> bytes:
    text = status[4:]
    fields = f"Connection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}\r\n{text}".encode()
