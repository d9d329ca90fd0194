"""The errors of a call."""

from aserve import rpc
from aserve.core.errors import AserveError


def test_every_error_is_one_kind():
    """`except aserve.rpc.RpcError` catches every failure of a call; RpcError is an error of aserve."""
    errors = [
        rpc.BadAddress, rpc.CannotConnect, rpc.TimedOut, rpc.NoReply, rpc.MalformedReply, rpc.ResultTooLarge,
        rpc.PacketTooLarge, rpc.TooManyArguments, rpc.UnknownFunction, rpc.FunctionFailed,
    ]  # fmt: skip
    assert all(issubclass(error, rpc.RpcError) for error in errors) and issubclass(rpc.RpcError, AserveError)
