"""uwsgi RPC: functions for calls by other servers, and calls to their functions."""

from .client import MAX_RESULT_BYTES, TIMEOUT_SECONDS, call, call_blocking, parse_address
from .errors import (
    BadAddress,
    CannotConnect,
    FunctionFailed,
    MalformedReply,
    NoReply,
    PacketTooLarge,
    ResultTooLarge,
    RpcError,
    TimedOut,
    TooManyArguments,
    UnknownFunction,
)
from .packets import MAX_ARGUMENTS, encode_call, encode_reply, to_octets
from .registry import call_local, register, registered, respond, unregister

__all__ = [
    "MAX_ARGUMENTS", "MAX_RESULT_BYTES", "TIMEOUT_SECONDS", "BadAddress", "CannotConnect", "FunctionFailed",
    "MalformedReply", "NoReply", "PacketTooLarge", "ResultTooLarge", "RpcError", "TimedOut", "TooManyArguments",
    "UnknownFunction", "call", "call_blocking", "call_local", "encode_call", "encode_reply", "parse_address",
    "register", "registered", "respond", "to_octets", "unregister",
]  # fmt: skip
