"""What a listener's connections share, from the settings: each kind of bind has its gateway, log and environ."""

import asyncio
import types

import pytest

from aserve.compat.routes import Routes
from aserve.connections.accepting.acceptor import ConnectionLimit
from aserve.connections.listeners import open_listeners
from aserve.connections.loop.websockets import WebSockets
from aserve.connections.server_budgets import Budgets
from aserve.connections.service import ServiceContext
from aserve.extension import Extension, Extensions
from aserve.features import Config, extensions_of, tracing
from aserve.features.access_log.log import AccessLog
from aserve.features.queue_wait import QueueWaitField
from aserve.features.turnover import Turnover
from aserve.features.underscore_fields import UnderscoreStep
from aserve.protocols.http1 import HTTP1
from aserve.protocols.uwsgi import Uwsgi
from aserve.proxies.forwarded import keep_forwarded
from aserve.proxies.trust import TrustedProxies, TrustingLog, peers_of
from aserve.server.services import ListenerParts, new_service
from aserve.settings import parse_bind
from aserve.tls.certificates import load_certificates
from aserve.workers.inline import InlineExecutor
from aserve.wsgi import Gateway
from aserve.wsgi.request_id import RequestId
from aserve.wsgi.response import CommonFields
from aserve.wsgi.rpc_calls import RPCCalls
from aserve.wsgi.timing import Timing


def app(environ, start_response):
    raise NotImplementedError


def before(found):
    """Return what sees a request of this service before the app does."""
    return [type(one) for one in found.gateway.before]


@pytest.fixture
def service(tmp_path):
    """Make the service of a listener that has just been opened: service(bind, multiprocess=False, **settings)."""
    opened = []

    def make(bind="127.0.0.1:0", multiprocess=False, times_requests=False, extensions=None, **settings):
        config = Config(bind=bind, access_log=str(tmp_path / "log"), **settings)
        loop, log = asyncio.new_event_loop(), AccessLog(config.access_log)
        (listener,) = open_listeners([parse_bind(config.bind[0])])
        opened.extend((loop, log, listener))
        context = ServiceContext(
            config, loop, InlineExecutor(), CommonFields(config.server_name), ConnectionLimit(), Budgets(config),
            WebSockets(config, loop), log, peers_of(config), times_requests=times_requests,
        )  # fmt: skip
        tls_fields = CommonFields(config.server_name, fields=[("Strict-Transport-Security", "max-age=1")])
        shared = ListenerParts(
            context, app, load_certificates(config), multiprocess, extensions or extensions_of(config), tls_fields
        )
        return new_service(listener, shared)

    yield make
    for each in opened:
        each.close()


def test_http_leaves_app_and_log_unwrapped(service):
    """Plain HTTP has the app's gateway, and an environ of this listener."""
    found = service(threads=1)
    assert type(found.gateway) is Gateway and type(found.ends) is AccessLog
    assert isinstance(found.new_protocol(), HTTP1) and found.wrap is None and found.identify is None
    environ = found.base_environ
    assert (environ["SERVER_NAME"], environ["wsgi.url_scheme"]) == ("127.0.0.1", "http")
    assert (environ["wsgi.multithread"], environ["wsgi.multiprocess"]) == (False, False)


def test_uwsgi_and_routes(service):
    """Where functions or routes may be asked for, they are called before the app."""
    found = service("uwsgi://127.0.0.1:0")
    assert before(found) == [RPCCalls] and isinstance(found.new_protocol(), Uwsgi)
    assert before(service(route="^/cut rpcret cut")) == [Routes]


def test_tls_wraps_connections_and_tells_the_environ(service, localhost):
    found = service("https://127.0.0.1:0", multiprocess=True, certificate=localhost.certificate, key=localhost.key)
    assert b"Strict-Transport-Security" in found.common_fields.octets
    assert found.wrap is not None and found.base_environ["HTTPS"] == "on"
    assert (found.base_environ["wsgi.multithread"], found.base_environ["wsgi.multiprocess"]) == (True, True)


def test_trusted_proxies_stand_before_app_and_log(service):
    found = service(trusted_proxies="127.0.0.1")
    assert before(found) == [TrustedProxies] and isinstance(found.ends, TrustingLog)


@pytest.mark.parametrize(
    ("bind", "steps"), [("127.0.0.1:0", []), ("proxy+http://127.0.0.1:0", [TrustedProxies])], ids=["http", "proxy"]
)
def test_kept_fields_of_proxies(service, bind, steps):
    """Where an extension keeps them for the app, none is applied; behind the PROXY protocol, which names the client, they are."""
    found = service(bind, trusted_proxies="127.0.0.1", environ_as="gunicorn")
    assert before(found) == steps
    assert (found.limits.strip_forwarded is keep_forwarded) is (not steps)


@pytest.mark.parametrize(
    ("settings", "believed"),
    [
        ({}, []),
        ({"trusted_proxies": "unix"}, ["", "127.0.0.1"]),
        ({"trusted_proxies": "unix:uid=4711"}, []),
        ({"trusted_proxies": "127.0.0.1"}, []),
    ],
)
def test_names_with_underscores(service, tmp_path, settings, believed):
    """Where some are listed, they are looked for before the app, behind the trust in proxies; elsewhere they are not."""
    found = service(f"unix:{tmp_path}/s", underscore_fields="a_b", **settings)
    fields = found.gateway.before[-1]
    assert type(fields) is UnderscoreStep
    peers = [types.SimpleNamespace(remote_addr=address, is_believed=False) for address in ("", "127.0.0.1")]
    assert [peer.remote_addr for peer in peers if fields._is_believed(peer)] == believed
    for others in (service("uwsgi://127.0.0.1:0", underscore_fields="a_b"), service()):
        assert UnderscoreStep not in before(others)


def test_times_are_noted_before_all_else(service):
    found = service(times_requests=True, trusted_proxies="127.0.0.1")
    assert before(found) == [Timing, TrustedProxies] and found.times_requests
    assert not service().times_requests


def test_names_are_given_where_shown(service):
    naming = Extension(Config())
    naming.wants = ["ids"]
    assert before(service(extensions=Extensions([naming]))) == [RequestId]
    assert before(service(request_id_header="X-Request-ID")) == [RequestId]


def test_what_balancers_ask_for(service):
    """How long a request has waited is told behind the times; connections of HTTP end by their own limits."""
    assert before(service(queue_wait_header="X-Queue", times_requests=True)) == [Timing, QueueWaitField]
    found = service(max_connection_requests=10)
    assert before(found) == [Turnover] and found.keeps_terms
    found = service("uwsgi://127.0.0.1:0", max_connection_requests=10)
    assert before(found) == [RPCCalls] and not found.keeps_terms


@pytest.mark.parametrize(
    "settings",
    [{}, {"trusted_proxies": "127.0.0.1"}, {"trusted_proxies": "127.0.0.1", "forwarded_fields": ()}],
    ids=["nobody", "a proxy", "a proxy that describes no client"],
)
def test_whose_traces_go_on(service, monkeypatch, settings):
    """The app is called in a span; only who is believed says of what trace that is a part."""
    made = []
    monkeypatch.setattr(tracing, "traced", lambda *what: made.append(what) or app)
    service(tracing=True, show_queries=bool(settings), **settings)
    ((inner, is_believed, shows_queries),) = made
    near, far = (types.SimpleNamespace(remote_addr=address) for address in ("127.0.0.1", "192.0.2.1"))
    assert inner is app and not is_believed(far) and is_believed(near) == bool(settings) == shows_queries
    service()
    assert len(made) == 1


def test_peers_whom_the_kernel_knows(service, tmp_path):
    """Where only some peers of a unix socket are believed, each connection is asked."""
    found = service(f"unix:{tmp_path}/s", trusted_proxies="unix:uid=0")
    assert found.identify is not None
