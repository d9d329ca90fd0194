"""How --shared and --shared-prefix are spelled, and shown."""

import pytest

from aserve.features import SETTINGS, Config
from aserve.features.sharing.settings import Shared, shared_of
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    "url",
    ["redis://localhost", "redis://10.0.0.1:6380/3", "redis://user:p%40ss@[::1]:6379/0", "rediss://host/?ssl_ca_certs=/etc/ca.pem",
     "unix:///run/redis.sock", "unix:///run/redis.sock?db=2", "unix://:secret@/run/redis.sock"],
)  # fmt: skip
def test_a_url_is_as_for_redis(url):
    assert Config(shared=url, shared_prefix="shop").shared == url


def test_url_of_a_path():
    """A unix socket may be written as for a bind."""
    assert Config(shared="unix:/run/redis.sock").shared == "unix:///run/redis.sock"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:6379", "begins neither with redis://"),
        ("http://u:secret@localhost", r"'http://...@localhost' begins neither"),
        ("redis://", r"is not HOST\[:PORT\]\[/DB\]"),
        ("redis://u:secret@host/shop", r"'redis://...@host/shop' is not HOST"),
        ("redis://host:port", "is not HOST"),
        ("redis://:secret/2@host", r"'redis://...@host' is not HOST.*in a password / is %2F"),
        ("redis://:secret#2@host", r"'redis://...@host' is not HOST"),
        ("unix:", "names no file"),
        ("unix:run/redis.sock", "names no file by its whole path"),
        ("REDIS://host", "begins neither with redis://"),
        ("redis://u:secret@h\u2100/", "is no URL"),
        ("redis://host?db=x", "db=x is no number of a database"),
        ("redis://host?socket_timeout=60", "socket_timeout= is no option here"),
        (6379, "6379 is not text"),
    ],
)
def test_refused_urls_show_no_password(url, why):
    """The fault is told, without a password."""
    with pytest.raises(ConfigError, match=why) as caught:
        Config(shared=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "a b", "x" * 101, 7])
def test_a_prefix_is_a_name(prefix):
    with pytest.raises(ConfigError, match="is not a name; accepted: up to 100 letters"):
        Config(shared="redis://host", shared_prefix=prefix)


def test_combinations_without_effect_are_refused(monkeypatch):
    """A prefix of nothing, no module `uwsgi`, and no package are refused."""
    with pytest.raises(ConfigError, match="give --shared, which says where"):
        Config(shared_prefix="shop")
    with pytest.raises(ConfigError, match="shared is for apps that import uwsgi"):
        Config(shared="redis://host", uwsgi_module="off")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'aserve-wsgi\[redis\]'"):
        Config(shared="redis://host")


@pytest.mark.parametrize(
    ("name", "shared"), [("shared:jobs", None), ("shared:", "redis://host"), ("shared:a b", "redis://host")]
)
def test_queues_need_a_name_and_a_store(name, shared):
    with pytest.raises(ConfigError, match=f"--spooler {name}: shared:NAME needs --shared, and a name of"):
        Config(workers=1, spooler=[name], shared=shared)
    assert Config(workers=1, spooler=["shared:jobs"], shared="redis://host").spooler == ("shared:jobs",)


def test_a_url_is_shown_without_password():
    """User and password are left out, and a URL without them is unchanged."""
    (row,) = [setting for setting in SETTINGS if setting.name == "shared"]
    assert row.show("redis://shop:secret@host:6379/0") == "redis://...@host:6379/0"
    assert row.show("redis://host/0") == "redis://host/0" and row.show(None) == "none"
    assert repr(Shared("redis://shop:secret@host/0", "a")) == "Shared('redis://...@host/0', 'a')"


def test_the_apps_name_is_the_prefix():
    url = "redis://host"
    assert shared_of(Config(), "a:app") is None
    assert shared_of(Config(shared=url), "a:app") == (url, "a:app")
    assert shared_of(Config(shared=url, shared_prefix="shop"), "a:app") == (url, "shop")
