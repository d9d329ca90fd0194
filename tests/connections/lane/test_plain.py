"""Which listeners C can serve, and what C learns of the parts before their apps."""

from types import SimpleNamespace

import pytest
from harness.environs import LINE, block

from aserve.compat.routes import Routes, compile_routes
from aserve.connections.lane.plain import new_plain
from aserve.core.exchange import Client, Exchange
from aserve.core.log_once import LogOnce
from aserve.features import Config
from aserve.features.queue_wait import QueueWaitField
from aserve.protocols.base import Limits
from aserve.protocols.underscores import Underscores
from aserve.proxies.forwarded import StripForwarded, keep_forwarded, marking, strip_forwarded
from aserve.proxies.trust import TrustedProxies, peers_of, trust_of
from aserve.rpc import registry
from aserve.settings import parse_bind
from aserve.wsgi import Gateway
from aserve.wsgi.deadlines import Deadlines
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.request_id import RequestId
from aserve.wsgi.response import CommonFields
from aserve.wsgi.rpc_calls import RPCCalls
from aserve.wsgi.timing import Timing

FIELDS = CommonFields("")
APP = Gateway(lambda environ, start_response: [], FIELDS, True)


def gateway_of(*before):
    return Gateway(APP.app, FIELDS, True, before)


TRUST = trust_of(config := Config(trusted_proxies="10.0.0.0/8"), parse_bind("127.0.0.1:80"), peers_of(config))
TRUSTING = TrustedProxies(FIELDS, TRUST, "here")


def service_of(gateway, **changes):
    settings = {
        "ends": None, "common_fields": FIELDS, "deadlines": None, "tells_wire": False, "sees_responses": False, "config": Config(), "limits": Limits(strip_forwarded=strip_forwarded),
        "base_environ": build_base_environ("server", "80", server_software="s", multithread=True, file_wrapper=object),
    }  # fmt: skip
    return SimpleNamespace(**{**settings, **changes, "gateway": gateway})


def exchange_with(*fields):
    exchange = Exchange(block([*LINE, ("HTTP_HOST", "a"), *fields]))
    strip_forwarded(exchange)
    exchange.connection = Client("10.0.0.1", "4711", service_of(APP).base_environ)
    return exchange


@pytest.mark.parametrize(
    ("before", "is_plain"),
    [
        ([], True),
        ([Timing()], True),
        ([TRUSTING], True),
        ([RPCCalls(FIELDS, registry)], True),
        ([RequestId()], True),
        ([Timing(), RequestId("X-Request-ID"), TRUSTING], True),
        ([QueueWaitField("x-queue")], False),
        ([TRUSTING, QueueWaitField("x-queue")], False),
        ([RPCCalls(FIELDS, registry), Routes(FIELDS, compile_routes(["rpc a"]))], False),
    ],
)
def test_what_stands_before_the_app(before, is_plain):
    """C does some of the parts, and serves nothing with unknown ones; a request that goes on in Python repeats none."""
    plain = new_plain(service_of(gateway_of(*before)))
    assert (plain is not None) is is_plain
    assert plain is None or (plain.gateway.app is plain.app is APP.app and plain.gateway.before == ())


def test_calls_are_answered_as_by_python():
    """C answers packets that call a function as Python does; only uwsgi's listeners have them."""
    assert new_plain(service_of(gateway_of(RPCCalls(FIELDS, registry)))).respond is registry.respond_framed
    assert new_plain(service_of(APP)).respond is None


def test_c_calls_the_timed_app():
    """C calls the timed app, unless another part stands in front of the timer."""
    deadlines = Deadlines(30.0, None, 1, pytest.fail)
    timed = Gateway(deadlines.timed(APP.app), FIELDS, True)
    plain = new_plain(service_of(timed, deadlines=deadlines))
    assert plain.app is APP.app and plain.gateway.app is timed.app
    assert new_plain(service_of(APP, deadlines=deadlines)) is None


@pytest.mark.parametrize("changes", [{"tells_wire": True}, {"sees_responses": True}])
def test_who_wants_each(changes):
    """Where something looks at each exchange, none is plain."""
    assert new_plain(service_of(APP, **changes)) is None


def test_what_is_said():
    """C waits for the lines said once; without them such requests are Python's."""
    strip, underscores = StripForwarded("here"), Underscores("here")
    limits = Limits(strip_forwarded=strip, underscores=underscores)
    for gateway, removal in [(APP, strip.line), (gateway_of(TRUSTING), TRUSTING.line)]:
        plain = new_plain(service_of(gateway, limits=limits))
        assert (plain.removal_line, plain.drop_line) == (removal, underscores.line)
        assert type(removal) is LogOnce
    plain = new_plain(service_of(APP))
    assert (plain.removal_line, plain.drop_line, plain.is_trusting) == (None, None, False)


def test_what_is_kept():
    """C leaves fields of proxies to the app where an extension keeps them; with --reload, which marks such requests, Python does."""
    plain = new_plain(service_of(APP, limits=Limits(strip_forwarded=keep_forwarded)))
    assert plain is not None and plain.removal_line is False
    plain = new_plain(service_of(APP, limits=Limits(strip_forwarded=marking(keep_forwarded))))
    assert plain is not None and plain.removal_line is None


@pytest.mark.parametrize("gateway", [APP, gateway_of(TRUSTING)])
def test_what_is_marked(gateway):
    """With --reload the environ tells the proxies' words: C does not, and leaves such requests to Python."""
    limits = Limits(strip_forwarded=marking(StripForwarded("here")))
    plain = new_plain(service_of(gateway, config=Config(reload=True, workers=1), limits=limits))
    assert plain is not None and plain.removal_line is None and not plain.is_trusting


def test_a_proxys_words_change_the_environ():
    """A believed proxy changes the environ, also in the exchange of a promoted request."""
    plain = new_plain(service_of(gateway_of(TRUSTING)))
    assert plain.is_trusting and plain.believes("10.0.0.1") and not plain.believes("11.0.0.1")
    told = ("HTTP_X_FORWARDED_FOR", "203.0.113.7")
    assert plain.changes(exchange_with(told))["REMOTE_ADDR"] == "203.0.113.7"
    assert plain.changes(exchange_with((told[0], "x"))) is None and plain.changes(exchange_with()) is None
    exchange = exchange_with(told)
    plain.rewrite(exchange, "")
    assert exchange.client.remote_addr == "203.0.113.7"
    for other in (exchange_with(), exchange_with(told)):
        new_plain(service_of(APP)).rewrite(other, "")
        assert other.client is None


@pytest.mark.parametrize(("scheme", "is_plain"), [("https", True), ("http", False)])
def test_a_client_without_tls_of_a_proxy_with_tls_is_not_plain(scheme, is_plain):
    """HTTPS would stay in the environ: C only adds entries."""
    base = build_base_environ(
        "server", "443", scheme="https", server_software="s", multithread=True, file_wrapper=object
    )
    plain = new_plain(service_of(gateway_of(TRUSTING), base_environ=base))
    assert bool(plain.changes(exchange_with(("HTTP_X_FORWARDED_PROTO", scheme)))) is is_plain


def test_a_promoted_request_keeps_its_name():
    """The exchange of a promoted request has the received name, or the one made by C, and its response tells the name."""
    assert new_plain(service_of(APP)).id_field is None
    assert new_plain(service_of(gateway_of(RequestId()))).id_field == b""
    plain = new_plain(service_of(gateway_of(RequestId("X-Id"), TRUSTING)))
    assert plain.id_field == b"X-Id: "
    for fields, made, name in [((), "made", "made"), ([("HTTP_X_REQUEST_ID", "came")], "", "came")]:
        exchange = exchange_with(*fields, ("HTTP_X_FORWARDED_FOR", "203.0.113.7"))
        plain.rewrite(exchange, made)
        assert f"\0HTTP_X_REQUEST_ID\0{name}\0" in exchange.vars and exchange.client.remote_addr == "203.0.113.7"
        assert exchange.form.close_line.endswith(f"X-Id: {name}\r\n".encode())
