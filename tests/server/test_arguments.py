"""What Server, serve and run take, and what they refuse."""

from __future__ import annotations

import pytest
from harness.apps import hello

import aserve
from aserve.server.arguments import check_arguments, config_of


def test_by_position_and_by_name():
    """Both give the same settings."""
    assert config_of("127.0.0.1:0", 3, {"backlog": 5}) == aserve.Config(bind="127.0.0.1:0", threads=3, backlog=5)
    assert config_of(None, None, {}) == aserve.Config()


def test_a_config():
    """It stands for all settings, and beside it there are none."""
    config = aserve.Config(threads=4)
    assert config_of(config, None, {}) is config
    for threads, settings in ((3, {}), (None, {"backlog": 5})):
        with pytest.raises(TypeError, match="not both"):
            config_of(config, threads, settings)


def test_a_dict():
    """It is answered with the two ways to give it; a table with an address is a bind."""
    with pytest.raises(TypeError, match=r"as \*\*settings; or aserve.Config.from_sources"):
        config_of({"threads": 3}, None, {})
    assert config_of({"address": "127.0.0.1:0"}, None, {}).bind == ("127.0.0.1:0",)


@pytest.mark.parametrize(
    "settings", [{"reload": True}, {"warm_up": "/"}, {"max_requests": 3}, {"cron": "* * * * * true"}]
)
def test_what_needs_worker_processes(settings):
    """A program is not told to add workers, which it cannot have."""
    (name,) = settings
    with pytest.raises(aserve.ConfigError, match=rf"^{name} is the command's, which has worker processes"):
        config_of(None, None, settings)


def test_what_needs_worker_processes_and_is_off():
    """A setting that asks for nothing is no mistake."""
    assert config_of(None, None, {"reload": False, "max_requests": 0}) == aserve.Config()


@pytest.mark.parametrize("settings", [{"workers": 2}, {"control": "/run/c"}])
def test_what_is_the_commands(settings):
    """It is refused by name and in a Config."""
    with pytest.raises(aserve.ConfigError, match="the command's"):
        check_arguments(hello, config_of(None, None, settings))
    with pytest.raises(aserve.ConfigError, match="the command's"):
        aserve.Server(hello, aserve.Config(**settings))


async def asgi(scope, receive, send):
    """No WSGI app."""


@pytest.mark.parametrize(
    ("app", "text"),
    [
        ("site:app", r"the text 'site:app'; give the app itself"),
        (None, r"is a NoneType, which cannot be called"),
        (asgi, r"is an ASGI app"),
    ],
)
def test_what_is_no_app(app, text):
    """It is refused at once: each request would fail."""
    with pytest.raises(TypeError, match=text):
        aserve.Server(app)
    with pytest.raises(TypeError, match=text):
        aserve.run(app)
