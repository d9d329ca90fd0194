"""The setting of several apps, each below a path."""

import pytest
from harness import apps

from aserve.features import Config
from aserve.features.mounts import Mounting, parse_mount
from aserve.lifecycle.loading import not_loaded
from aserve.lifecycle.mounts import Mounts
from aserve.settings import ConfigError
from aserve.settings.prefixes import Below


def test_mounts_of_a_program():
    """Mounts are loaded by the command; a program would wait for apps that nobody imports."""
    mounting = Mounting(Config(mount="/a=b:c"))
    with pytest.raises(ConfigError, match=r"^--mount is the command's"):
        mounting.wrap_app(apps.hello)
    for app in (Mounts([], apps.hello), not_loaded):  # the second with --reload, until the app can be imported
        assert mounting.wrap_app(app) is app
    assert Mounting.is_on(Config(mount="/a=b:c")) and not Mounting.is_on(Config())


@pytest.mark.parametrize("app", ["shop.admin:app", "admin", "apps/admin.py:app", "a:create('x', y=1)"])
def test_mounts_take_any_app(app):
    assert parse_mount(f"/admin={app}") == Below("/admin", app)


def test_one_app_to_a_place():
    with pytest.raises(ConfigError, match=r"^mount: /a is named twice"):
        Config(mount=["/a=x", "/a/=y"])


@pytest.mark.parametrize("text", ["/admin=", "/admin=a b", "/admin=:app", "/admin=a:"])
def test_what_is_no_app(text):
    with pytest.raises(ConfigError, match=r"^mount: "):
        Config(mount=text)
