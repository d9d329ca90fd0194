"""The steps of the engine: none that a listener does not need."""

import pytest

from aserve.connections.listeners import open_listeners
from aserve.extension import ListenerContext
from aserve.features import Config
from aserve.proxies.trust import TrustedProxies, peers_of, trust_of
from aserve.server.steps import steps_of
from aserve.settings import parse_bind
from aserve.wsgi.request_id import RequestId
from aserve.wsgi.response import CommonFields
from aserve.wsgi.rpc_calls import RPCCalls
from aserve.wsgi.timing import Timing


@pytest.fixture
def steps():
    """Return the types of the steps of a listener: steps(bind, times_requests, names_requests, **settings)."""
    opened = []

    def found(bind="127.0.0.1:0", times_requests=False, names_requests=False, **settings):
        config = Config(**settings)
        opened.extend(open_listeners([parse_bind(bind)]))
        trust = trust_of(config, parse_bind(bind), peers_of(config))
        context = ListenerContext(opened[-1], CommonFields("s"), lambda connection: False)
        return [type(step) for step in steps_of(context, trust, config, times_requests, names_requests)]

    yield found
    for listener in opened:
        listener.close()


def test_most_listeners_need_no_steps(steps):
    assert steps() == []


def test_each_wish_adds_a_step(steps):
    """The times come first; the setting of the field of names counts, too."""
    assert steps("127.0.0.1:0", True, True, trusted_proxies="127.0.0.1") == [Timing, RequestId, TrustedProxies]
    assert steps("uwsgi://127.0.0.1:0", True, True) == [Timing, RequestId, RPCCalls]
    assert steps(request_id_header="X-Request-ID") == [RequestId]
