"""uwsgi packets that call a function: its reply, no reply for an unknown function, and ordinary requests."""

import pytest
from harness.gateways import Left

from aserve import rpc
from aserve.core.exchange import Exchange, RpcCall
from aserve.wsgi.response import CommonFields
from aserve.wsgi.rpc_calls import RPCCalls

CALLS = RPCCalls(CommonFields(""), rpc.registry)


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    monkeypatch.setattr(rpc.registry, "_functions", {})
    rpc.register("join", lambda *arguments: b"|".join(arguments))


def answer(*words):
    exchange = Exchange("", 0)
    exchange.rpc = RpcCall(0, list(words), "") if words else None
    return CALLS.before(exchange)


@pytest.mark.parametrize(
    ("words", "reply"), [((b"join", b"a", b"b"), b"\xad\x03\x00\x00a|b"), ((b"other",), b""), ((), None)]
)
def test_packets_get_their_functions_reply(words, reply):
    """A packet gets its function's reply, or no octet; another packet goes to the app."""
    assert answer(*words) == reply


def test_a_child_of_a_function(fork):
    """A process forked by a function leaves at its return."""
    rpc.register("fork", lambda: fork[0]() or b"x")
    with pytest.raises(Left):
        answer(b"fork")
