"""How the settings for files are spelled."""

import os

import pytest

from aserve.features import Config
from aserve.features.files.settings import Sent, parse_added_field, parse_expiry, parse_sent, parse_static
from aserve.settings import ConfigError
from aserve.settings.prefixes import Below


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("/static=/srv/static", Below("/static", "/srv/static")),
        ("/static/ = /srv/static/", Below("/static", "/srv/static")),
        ("/=/srv", Below("", "/srv")),
        ("/a/b.c=/srv/a=b", Below("/a/b.c", "/srv/a=b")),
        ("/my files=/srv", Below("/my files", "/srv")),
        ("/\u00e9=/srv", Below("/\u00c3\u00a9", "/srv")),
    ],
)
def test_static_has_prefix_and_folder(text, below):
    """A prefix loses its last slash, and its octets are latin-1."""
    assert parse_static(text) == below


def test_a_folder_is_absolute(monkeypatch, tmp_path):
    """The app may change the current folder; an absolute path stays."""
    monkeypatch.chdir(tmp_path)
    config = Config(static="/static=assets\n/=.")
    assert config.static == (f"/static={tmp_path}/assets", f"/={tmp_path}")
    monkeypatch.chdir(os.sep)
    assert Config(static=config.static).static == config.static


def test_what_the_app_may_name(monkeypatch, tmp_path):
    """A folder may come with a path for it or without."""
    monkeypatch.chdir(tmp_path)
    config = Config(x_sendfile=["media", "/protected/ = media", "/srv/media/"])
    assert config.x_sendfile == (f"{tmp_path}/media", f"/protected/={tmp_path}/media", "/srv/media")
    assert [parse_sent(text) for text in config.x_sendfile] == [
        Sent(None, f"{tmp_path}/media"), Sent("/protected", f"{tmp_path}/media"), Sent(None, "/srv/media"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["static=/srv", "/static", "/static=", "=/srv", "/a//b=/srv", "/a/../b=/srv", "//=/srv", "/%41=/s", "/a\\b=/s"],
)
def test_what_is_no_prefix(text):
    """A prefix without possible paths below is refused."""
    with pytest.raises(ConfigError, match=r"^static: .*; accepted: a path's beginning"):
        Config(static=text)


@pytest.mark.parametrize(
    ("text", "pattern", "cache_control"),
    [
        ("10m", None, "max-age=600"),
        ("0", None, "no-cache"),
        (r"\.[0-9a-f]{12}\. immutable", r"\.[0-9a-f]{12}\.", "max-age=31536000, immutable"),
        ("^/a b/ 8760h", "^/a b/", "max-age=31536000"),
    ],
)
def test_expiry_has_a_time_and_a_pattern(text, pattern, cache_control):
    """An expiry is a time, or immutable, for every path or for a pattern."""
    expiry = parse_expiry(text)
    assert (expiry.pattern and expiry.pattern.pattern, expiry.cache_control) == (pattern, cache_control)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "'soon' is not a number of seconds"),
        ("( 5m", "'[(]' is no regular expression"),
        ("9000h", "is too large"),
    ],
)
def test_what_is_no_expiry(text, why):
    with pytest.raises(ConfigError, match=f"^static_expires: .*{why}"):
        Config(static_expires=[text])


@pytest.mark.parametrize(
    ("text", "pattern", "name", "value"),
    [
        ("Access-Control-Allow-Origin: *", None, "Access-Control-Allow-Origin", "*"),
        (r"\.woff2$  X-A:b ", r"\.woff2$", "X-A", "b"),
        ("^/a b/ X-A: b: c", "^/a b/", "X-A", "b: c"),
        ("Link: </a>; rel=next, b: c", None, "Link", "</a>; rel=next, b: c"),
    ],
)
def test_an_added_field_has_name_and_pattern(text, pattern, name, value):
    """The first name with a colon is the field's; the part before is the pattern."""
    field = parse_added_field(text)
    assert (field.pattern and field.pattern.pattern, field.name, field.value) == (pattern, name, value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("X-A", "is not of the form"),
        ("X-A:", "is not of the form"),
        ("X-A: \u2026", "is not of the form"),
        ("X-A: a\x07", "is not of the form"),
        ("( X-A: b", "'[(]' is no regular expression"),
        ("content-length: 5", "content-length is made by the server"),
        (".css Vary: Cookie", "Vary is made by the server"),
    ],
)
def test_what_is_no_field_to_add(text, why):
    """Nothing that could break a response gets into a field."""
    with pytest.raises(ConfigError, match=f"^static_fields: .*{why}"):
        Config(static_fields=[text])


def test_names_of_an_index_are_files():
    """Names are of files; none if empty."""
    assert Config(static_index="index.html index.htm").static_index == ("index.html", "index.htm")
    assert Config(static_index="").static_index == ()
    for name in ("a/b", "..", ".htaccess"):
        with pytest.raises(ConfigError, match="is not the name of a file"):
            Config(static_index=[name])
