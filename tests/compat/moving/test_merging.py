"""Settings of another server below aserve's own sources."""

import pytest

from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.compat.moving.merging import merge as merge_settings
from aserve.compat.moving.merging import sources_of
from aserve.compat.moving.unix_rights import drop_accounts
from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError
from aserve.settings.sources import Own

pytestmark = pytest.mark.long_on_pypy

BASIC = "^/ basicauth:R,u:s3cret"
ROWS = {setting.key: setting for setting in SETTINGS}


def merge(draft, own):
    """Return the values of both."""
    return merge_settings(draft, draft.settings, own)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a file's draft: load(text) -> Draft; gunicorn's has no [uwsgi]."""
    monkeypatch.chdir(tmp_path)

    def load(text):
        is_uwsgi = text.startswith("[uwsgi]")
        (tmp_path / ("u.ini" if is_uwsgi else "g.py")).write_text(text)
        return load_uwsgi("u.ini", {}) if is_uwsgi else load_gunicorn("g.py", {})[0]

    return load


@pytest.mark.parametrize(
    ("given", "environ", "toml", "source"),
    [
        ({"route": ["^/x last:"]}, {}, {}, "--route"),
        ({}, {"ASERVE_ROUTE": "^/x last:"}, {}, "ASERVE_ROUTE"),
        ({}, {}, {"route": ["^/x last:"]}, "x.toml"),
        ({"route": ["^/x last:"]}, {"ASERVE_ROUTE": "^/y last:"}, {"route": ["^/z last:"]}, "--route"),
    ],
)
def test_a_guard_stays(load, given, environ, toml, source):
    """Routes of any source come after the file's, and a line says so, without the value."""
    draft = load(f"[uwsgi]\nmodule = a:b\nroute = {BASIC}\n")
    own = Own(given, environ, toml, "x.toml")
    assert merge(draft, own)["route"] == (BASIC, "^/x last:")
    assert list(map(str, draft.replaced)) == [f"u.ini:3: route = ...: {source} comes after it"]
    assert sources_of(draft, ROWS["route"], own) == f"u.ini:3 and {source}"


def test_an_empty_list_removes_no_guard(load):
    """An empty variable adds nothing."""
    draft = load(f"[uwsgi]\nmodule = a:b\nroute = {BASIC}\n")
    assert merge(draft, Own({}, {"ASERVE_ROUTE": ""}, {"route": []}, "x.toml"))["route"] == (BASIC,)


def test_an_address_of_our_own_stays_closed(load):
    """Client certificates asked for by the file end the start where a flag's address has no TLS."""
    draft = load("bind = ':443'\ncertfile = 'c'\nkeyfile = 'k'\nca_certs = 'ca'\ncert_reqs = 2\n")
    with pytest.raises(ConfigError, match="no bind is for TLS"):
        Config.of_given(merge(draft, Own({"bind": [":8443"]}, {}, {}, "")), False)


def test_lists_that_are_joined(load):
    """Of variables the last value counts; fields are of both."""
    draft = load("[uwsgi]\nmodule = a:b\nenv = LOGIN=required\nenv = A=1\nadd-header = X-Frame-Options: DENY\n")
    values = merge(draft, Own({"env": ["A=2"], "add_field": ["X-B: c"]}, {}, {}, ""))
    assert values["env"] == ("LOGIN=required", "A=1", "A=2")
    assert values["add_field"] == ("X-Frame-Options: DENY", "X-B: c")


def test_values_that_give_way(load):
    """A source of aserve's own wins, and a line says so; not of an equal value, or a default."""
    draft = load("[uwsgi]\nmodule = a:b\nchmod-socket = 600\nlisten = 7\nstatic-map = /s=/srv\n")
    own = Own({"unix_mode": "660", "backlog": "7", "threads": "5"}, {"ASERVE_STATIC": "/t=/srv"}, {}, "")
    values = merge(draft, own)
    assert (values["unix_mode"], values["threads"], values["static"]) == (0o660, 5, ("/t=/srv",))
    assert list(map(str, draft.replaced)) == [
        "u.ini:3: chmod-socket = 600: --unix-mode wins",
        "u.ini:5: static-map = /s=/srv: ASERVE_STATIC wins",
    ]
    named = [sources_of(draft, ROWS[key], own) for key in ("unix-mode", "threads", "access-log", "compress")]
    assert named[:2] == ["--unix-mode", "--threads"] and named[2:] == ["u.ini", ""]
    assert sources_of(draft, ROWS["unix-mode"], Own({}, {}, {}, "")) == "u.ini:3"


def test_a_list_of_gunicorn(load):
    """A file's list that gives way is named once."""
    draft = load("bind = [':1', ':2']\n")
    assert merge(draft, Own({"bind": [":3"]}, {}, {}, ""))["bind"] == (":3",)
    assert list(map(str, draft.replaced)) == ["g.py:1: bind = [':1', ':2']: --bind wins"]


def test_mistakes_of_our_own_are_errors(load):
    with pytest.raises(ConfigError, match="--threads"):
        merge(load("[uwsgi]\nmodule = a:b\n"), Own({"threads": "x"}, {}, {}, ""))


@pytest.mark.parametrize(
    ("text", "bind", "rights"),
    [
        ("umask = 0o077\nuser = 'www-data'\n", "unix:/run/x", (0o700, "www-data", None)),
        ("umask = 0o077\n", ":8000", (None, None, None)),
        ("umask = 0o077\nbind = 'unix:/run/y'\n", "unix:/run/x", (0o700, None, None)),
        ("", "unix:/run/x", (None, None, None)),
        ("[uwsgi]\nmodule = a:b\nhttp = :1\numask = 007\nuid = 33\n", "uwsgi://unix:/run/x", (0o770, "33", None)),
        ("[uwsgi]\nmodule = a:b\nhttp = :1\nuid = 33\n", "unix:/run/x", (None, None, None)),
    ],
)
def test_a_socket_of_our_own(load, text, bind, rights):
    """The file's umask closes a unix socket named by a flag, as there."""
    values = merge(load(text), Own({"bind": [bind]}, {}, {}, ""))
    assert tuple(values.get(name) for name in ("unix_mode", "unix_owner", "unix_group")) == rights
    assert Config.of_given(values, False).bind == (bind,)


def test_a_socket_of_a_user_without_rights(load):
    """A dropped owner owns no such socket, either."""
    draft = load("[uwsgi]\nmodule = a:b\nhttp = :1\numask = 077\nuid = 33\n")
    drop_accounts(draft, "no root")
    values = merge(draft, Own({"bind": ["unix:/run/x"], "unix_mode": "600"}, {}, {}, ""))
    assert values["unix_mode"] == 0o600 and "unix_owner" not in values
