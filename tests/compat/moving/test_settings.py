"""--dropped-guards, --environ-as, --scheme-fields, --argv."""

import pytest

from aserve.features import Config
from aserve.settings import ConfigError


def test_dropped_guards_end_the_start_by_default():
    assert Config().dropped_guards == "refuse" and Config(dropped_guards="warn").dropped_guards == "warn"
    with pytest.raises(ConfigError, match="accepted: refuse, warn"):
        Config(dropped_guards="off")


def test_environ_as_is_aserves_by_default():
    assert Config().environ_as is None is Config(environ_as="aserve").environ_as
    assert Config(environ_as="uwsgi").environ_as == "uwsgi"


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (["X-Ssl:on", "X-Forwarded-Proto:  https"], ("x-ssl: on", "x-forwarded-proto: https")),
        ("X-A: 1\nX-B: 2", ("x-a: 1", "x-b: 2")),
        ([], ()),
        (["None"], ("none",)),
    ],
)
def test_scheme_fields_have_name_and_value(value, fields):
    parsed = Config(scheme_fields=value).scheme_fields
    assert parsed == fields == Config(scheme_fields=parsed).scheme_fields


def test_no_scheme_field():
    """A value is needed."""
    with pytest.raises(ConfigError, match="'X-Ssl' is not of the form NAME: VALUE"):
        Config(scheme_fields=["X-Ssl"])


def test_argv_shows_no_secret():
    """Words stay unchanged, an empty one too; a possible secret is not shown."""
    assert Config(argv=["gunicorn", "", "-e"]).argv == ("gunicorn", "", "-e") and Config(argv="a\nb c").argv == (
        "a",
        "b c",
    )
    row = next(each for each in Config.rows() if each.name == "argv")
    assert row.show(("uwsgi", "KEY=secret", "--site")) == "uwsgi, KEY=..., --site"
    with pytest.raises(ConfigError, match="it is neither text nor a list of texts"):
        Config(argv=[3])
