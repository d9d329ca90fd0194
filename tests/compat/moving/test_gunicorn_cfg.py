"""gunicorn's settings as an object, for programs and hooks."""

import copy

import pytest

from aserve.compat.moving.gunicorn_cfg import Cfg


def test_setting_and_reading():
    """Documented programs look a name up, set the value, and hooks read the value."""
    cfg = Cfg()
    assert "workers" in cfg.settings and "post_fork" in cfg.settings and "nonsense" not in cfg.settings
    assert (cfg.workers, cfg.timeout, cfg.bind, cfg.preload_app, cfg.umask) == (1, 30, ["127.0.0.1:8000"], False, 0)
    cfg.set("workers", 3)
    assert cfg.workers == 3 and cfg.settings["workers"].get() == 3 and cfg.settings["workers"].default == 1
    assert {name: given.value for name, given in cfg.given.items()} == {"workers": 3}
    with pytest.raises(AttributeError, match="No configuration setting for: nonsense"):
        cfg.set("nonsense", 1)
    with pytest.raises(AttributeError, match="No configuration setting for: nonsense"):
        cfg.nonsense  # noqa: B018
    cfg.set("statsd_port", 1)  # one of a family
    assert cfg.statsd_port == 1
    assert copy.copy(cfg).workers == 3


@pytest.mark.parametrize(
    ("name", "value", "is_then"),
    [
        ("workers", "4", 4), ("workers", "many", "many"), ("preload_app", "True", True), ("preload_app", "x", "x"), ("bind", "a:1,b:2", ["a:1", "b:2"]),
        ("bind", ["a:1"], ["a:1"]), ("proc_name", "shop", "shop"), ("timeout", 1.5, 1.5),
    ],
)  # fmt: skip
def test_text_becomes_the_settings_type(name, value, is_then):
    cfg = Cfg()
    cfg.set(name, value)
    assert getattr(cfg, name) == is_then


def test_what_follows_from_settings():
    """The derived properties of gunicorn's object are there."""
    cfg = Cfg()
    assert (cfg.env, cfg.proc_name, cfg.is_ssl, cfg.address) == ({}, "gunicorn", False, [("127.0.0.1", 8000)])
    for name, value in {"raw_env": ["A=1", "B=c=d"], "proc_name": "shop", "certfile": "c"}.items():
        cfg.set(name, value)
    assert (cfg.env, cfg.proc_name, cfg.is_ssl) == ({"A": "1", "B": "c=d"}, "shop", True)
