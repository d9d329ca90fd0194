"""What stands in front of the app."""

from __future__ import annotations

import pytest
from harness import apps
from harness.calling import call

from aserve.compressing import Compressing
from aserve.files.static import StaticFiles
from aserve.files.x_sendfile import XSendfile
from aserve.layers import layered, nothing_here
from aserve.mounts import Mounts
from aserve.settings import Config, ConfigError


def test_nothing_is_in_front_of_an_app():
    """What nobody has asked for costs no request a step."""
    assert layered(apps.hello, Config()) is apps.hello


def test_the_order(tmp_path):
    """Files are looked for before the app is asked, and go out as they are; what the app names is looked at next to it."""
    settings = {"static": f"/s={tmp_path}", "x_sendfile": str(tmp_path), "compress": True}
    outer = layered(apps.hello, Config(**settings))
    assert type(outer) is StaticFiles and type(outer._app) is Compressing
    assert type(outer._app._app) is XSendfile and outer._app._app._app is apps.hello


class App:
    """An app that is an object."""

    def __call__(self, environ, start_response):
        """Answer with nothing."""
        return []


def test_the_name_of_the_app(tmp_path):
    """The log names the app, and not what is in front of it."""
    outer = layered(apps.hello, Config(static=f"/s={tmp_path}"))
    assert type(outer) is StaticFiles and (outer.__module__, outer.__qualname__) == (apps.__name__, "hello")
    assert layered(App(), Config(static=f"/s={tmp_path}")).__qualname__ == "App"


def test_mounts_of_a_program():
    """Mounts are loaded by the command; a program would wait for apps that nobody has imported."""
    with pytest.raises(ConfigError, match=r"^mount is the command's"):
        layered(apps.hello, Config(mount="/a=b:c"))
    mounts = Mounts([], apps.hello)
    assert layered(mounts, Config(mount="/a=b:c")) is mounts


def test_nothing_here():
    """Who asks where nothing is gets a text that says so."""
    answer = call(nothing_here)
    assert (answer.status, answer.body) == ("404 Not Found", b"404: nothing is served at this path\n")
