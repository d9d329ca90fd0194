"""What all listeners of a server have in common: found at the start, refreshed each second."""

import asyncio
import types

import pytest
from harness.extensions import new_context

from aserve.core.errors import BindError
from aserve.features import Config, extensions_of
from aserve.server.app_threads import AppThreads
from aserve.server.commons import Commons
from aserve.server.listening import Listening
from aserve.settings import ConfigError


def app(environ, start_response):
    raise NotImplementedError


def commons_of(**settings):
    """Return those of a server with these settings."""
    config = Config(**settings)
    return Commons(config, extensions_of(config))


async def test_a_service_for_each_listener():
    """They share the fields, the budgets and the app's threads; each has its listener's name."""
    commons = commons_of(bind=["127.0.0.1:0", "127.0.0.1:0"], server_name="shop", threads=0, slow_request_seconds=9)
    listening, threads = Listening(commons._config), AppThreads(commons._config)
    commons.load()
    listening.bind()
    threads.start(asyncio.get_running_loop())
    commons._extensions.start(new_context(types.SimpleNamespace(has=None)))
    services = commons.new_services(app, listening, threads, is_alone=False)
    assert [service.name for service in services] == [listener.url for listener in listening.listeners]
    for service in services:
        assert service.common_fields is commons.fields and service.budgets is commons.budgets
        assert service.times_requests and service.base_environ["wsgi.multiprocess"]
        assert service.ends is commons.ends
    commons._extensions.stop()
    listening.close_listeners()


def test_a_start_that_cannot_be():
    """What the settings name must be there."""
    with pytest.raises(ConfigError, match="cannot read the certificate"):
        commons_of(bind="https://:0", certificate="/nowhere/a.pem").load()
    with pytest.raises(BindError, match="no user 'nobody-of-this-name'"):
        commons_of(trusted_proxies="unix:uid=nobody-of-this-name").load()


def test_each_second_the_date_moves(monkeypatch):
    """Certificates and budgets are looked at, too."""
    commons, seen = commons_of(), []
    for name in ("fields", "tls_fields", "certificates", "budgets"):
        part = types.SimpleNamespace(on_second=lambda name=name: seen.append(name))
        part.refresh = part.on_second
        monkeypatch.setattr(commons, name, part)
    commons.on_second()
    assert seen == ["fields", "tls_fields", "certificates", "budgets"]


def test_what_reads_the_ends_of_requests():
    """Where they are counted, the time of threads is known, with that of requests under way."""
    commons, flushed = commons_of(), []
    commons.flush()
    assert commons.thread_seconds(lambda: 2.0) is None
    commons.ends = types.SimpleNamespace(thread_seconds=None, flush=lambda: flushed.append(1))
    assert commons.thread_seconds(lambda: 2.0) is None
    commons.ends.thread_seconds = 3.0
    assert commons.thread_seconds(lambda: 2.0) == 5.0
    commons.flush()
    assert flushed == [1]
