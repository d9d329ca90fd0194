"""The errors of a call: all are RpcErrors."""

from __future__ import annotations

from ..core.errors import AserveError


class RpcError(AserveError):
    """A call failed; the text is one line: the call, and the reason."""


class BadAddress(RpcError, ValueError):
    """The text is not the address of a server."""


class CannotConnect(RpcError):
    """No server accepts connections at the address."""


class TimedOut(RpcError):
    """No complete reply came in time."""


class NoReply(RpcError):
    """The server closed the connection without an octet: no such function, or a function that failed."""


class MalformedReply(RpcError):
    """The octets are not a reply, or only a part of one."""


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
