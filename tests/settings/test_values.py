"""Objects of settings: the promises of a frozen dataclass."""

import dataclasses

import pytest

from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError, EngineSettings
from aserve.settings.values import ELSEWHERE


def test_config_is_immutable_and_comparable():
    """A Config can be shared by threads and used as a key."""
    settings = Config(threads="3")
    with pytest.raises(dataclasses.FrozenInstanceError, match="threads"):
        settings.threads = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="threads"):
        del settings.threads
    assert settings == Config(threads=3)
    assert hash(settings) == hash(Config(threads=3))
    assert settings != Config(threads=4)
    assert settings != EngineSettings(threads=3)


# `copy.replace`, from CPython 3.13 on, calls `__replace__`.
@pytest.mark.parametrize("replace", [Config.replace, dataclasses.replace, Config.__replace__])
def test_replace_checks_again(replace):
    """A copy with other values is checked, too."""
    assert replace(Config(backlog=5), threads="2") == Config(backlog=5, threads=2)
    with pytest.raises(ConfigError):
        replace(Config(), threads="two")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("thread", "did you mean threads?"),
        ("drain_timeout", "did you mean drain_seconds?"),  # --drain-timeout
        ("max-body", "did you mean max_body_bytes?"),  # its TOML key
        ("ssl_certfile", "did you mean certificate?"),  # uvicorn's
        ("nonsense_xyzzy", "`aserve docs settings` has all keywords"),
    ],
)
def test_unknown_keyword_names_the_right_one(name, meant):
    """A misspelt keyword is a TypeError, as for any function."""
    with pytest.raises(TypeError) as caught:
        Config(**{name: 3})
    assert str(caught.value) == f"there is no setting {name!r}; {meant}"


def test_keywords_of_other_servers():
    """Each keyword means an existing setting, and is no name of ours."""
    names = {row.name for row in SETTINGS}
    assert {*ELSEWHERE.values()} <= names and not ELSEWHERE.keys() & names


def test_dataclasses_know_it():
    """Users may ask the module `dataclasses` for fields, defaults and values."""
    fields = dataclasses.fields(Config)
    assert [field.name for field in fields] == [setting.name for setting in SETTINGS]
    assert all(field.default == setting.default for field, setting in zip(fields, SETTINGS))
    assert dataclasses.asdict(Config(threads=3)) == {**{row.name: row.default for row in SETTINGS}, "threads": 3}
    assert "access_log" not in {field.name for field in dataclasses.fields(EngineSettings)}


def test_the_default_is_an_attribute_of_the_class():
    """A default can be read without an object."""
    assert all(getattr(Config, setting.name) == setting.default for setting in SETTINGS)


def test_repr_without_secrets():
    """Error reports contain reprs: a repr shows the values, but no value with room for a password."""
    shown = repr(Config(threads=3, env=["PASSWORD=hidden"]))
    assert shown.startswith("Config(bind=('127.0.0.1:8000',), threads=3, ")
    assert "hidden" not in shown
