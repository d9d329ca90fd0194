"""How the settings for files and mounts are spelled."""

from __future__ import annotations

import pytest

from aserve.features import Config
from aserve.settings import ConfigError
from aserve.settings.prefixes import Below, parse_mount


def test_a_table():
    """A table of a TOML file says the same."""
    assert Config(mount={"/a": "a:app", "/b": "b"}).mount == ("/a=a:app", "/b=b")


@pytest.mark.parametrize("app", ["shop.admin:app", "admin", "apps/admin.py:app", "a:create('x', y=1)"])
def test_mounts(app):
    """Whatever the command takes for its APP."""
    assert parse_mount(f"/admin={app}") == Below("/admin", app)


def test_one_app_to_a_place():
    """Two apps below one path would leave one uncalled."""
    with pytest.raises(ConfigError, match=r"^mount: /a is named twice"):
        Config(mount=["/a=x", "/a/=y"])


@pytest.mark.parametrize("text", ["/admin=", "/admin=a b", "/admin=:app", "/admin=a:"])
def test_what_is_no_app(text):
    """What cannot be an app's name is refused."""
    with pytest.raises(ConfigError, match=r"^mount: "):
        Config(mount=text)
