"""Unix sockets keep their mode and owner."""

import os

import pytest

from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.compat.moving.unix_rights import drop_accounts, is_account, present_umask
from aserve.compat.moving.uwsgi import load_uwsgi

RIGHTS = ("unix-mode", "unix-owner", "unix-group")


@pytest.fixture
def rights_of(tmp_path, monkeypatch):
    """Return the rights of a configuration's sockets: rights_of(file name, text) -> [mode, owner, group]."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)

    def rights_of(name, text):
        (tmp_path / name).write_text(text)
        draft = load_gunicorn(name, {})[0] if name.endswith(".py") else load_uwsgi(name, {})
        return [draft.settings.get(key) for key in RIGHTS]

    yield rights_of
    os.umask(before)


@pytest.mark.parametrize(
    ("source", "rights"),
    [
        ("bind='unix:/run/g.sock'\numask=0o007\nuser='www-data'\ngroup=33\n", ["770", "www-data", "33"]),
        ("bind='unix:g.sock'\numask='0o77'\n", ["700", None, None]),
        ("bind='unix:g.sock'\nuser='www-data'\n", [None, "www-data", None]),
        ("bind=[':80', 'unix:@g']\numask=0o77\nuser='www-data'\n", [None, None, None]),
        ("umask=0o77\n", [None, None, None]),
    ],
)
def test_gunicorns_umask_and_user_count(rights_of, source, rights):
    """gunicorn's umask takes part, and gunicorn's user owns the sockets; without umask all may connect, as with aserve."""
    assert rights_of("g.py", source) == rights


@pytest.mark.parametrize(
    ("lines", "rights"),
    [
        ("umask=0077", ["700", None, None]),
        ("", ["755", None, None]),
        ("umask=0", [None, None, None]),
        ("chmod-socket=660\numask=077", ["660", None, None]),
        ("chmod-socket=\numask=077", ["666", None, None]),
        ("uid=www-data", ["755", "www-data", None]),
        ("uid=www-data\ngid=www-data", ["755", "www-data", "www-data"]),
        ("uid=www-data\ngid=www-data\nchown-socket=daemon", ["755", "daemon", None]),
        ("uid=www-data\nmaster-as-root=1", ["755", None, None]),
        ("uid=www-data\ndrop-after-apps=1", ["755", None, None]),
    ],
)
def test_uwsgis_modes_and_owners_are_kept(rights_of, lines, rights):
    assert rights_of("u.ini", f"[uwsgi]\nsocket=/run/x.sock\n{lines}\n") == rights


def test_accounts_without_effect(tmp_path):
    """A socket is of another user only if the process may become that user; a named owner stays."""
    path = tmp_path / "u.ini"
    path.write_text("[uwsgi]\nsocket=x.sock\nuid=www-data\ngid=www-data\n")
    draft = load_uwsgi(str(path), {})
    drop_accounts(draft, "no root")
    assert not {"user", "group", *RIGHTS[1:]} & set(draft.settings)
    assert [note.said for note in draft.notes] == ["uid = www-data", "gid = www-data"]
    path.write_text("[uwsgi]\nsocket=x.sock\nuid=www-data\nchown-socket=daemon\n")
    draft = load_uwsgi(str(path), {})
    drop_accounts(draft, "no root")
    assert draft.settings["unix-owner"] == "daemon" and "user" not in draft.settings


@pytest.mark.parametrize(
    ("lines", "uid", "gid", "is_one"),
    [
        ("uid=www-data\ngid=www-data", 33, 33, True),
        ("uid=www-data", 33, 33, True),
        ("uid=www-data\ngid=daemon", 33, 33, False),
        ("uid=www-data", 34, 33, False),
        ("uid=root", 0, 0, False),
        ("uid=nosuchuser", 33, 33, False),
        ("", 33, 33, False),
    ],
)
def test_an_account_that_it_is_already(tmp_path, monkeypatch, lines, uid, gid, is_one):
    """A reload reads the file again as the file's user: nothing has changed then."""
    (tmp_path / "u.ini").write_text(f"[uwsgi]\nsocket=x.sock\n{lines}\n")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: gid)
    assert is_account(load_uwsgi(str(tmp_path / "u.ini"), {})) is is_one


def test_the_present_umask_is_only_read():
    before = os.umask(0o027)
    try:
        assert present_umask() == 0o027 == present_umask()
    finally:
        os.umask(before)
