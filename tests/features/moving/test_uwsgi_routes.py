"""Routes of uWSGI's files: what guards the app there guards it here, or ends the start."""

from __future__ import annotations

import pytest

from aserve.features.moving.origin import Origin
from aserve.features.moving.translate import as_toml
from aserve.features.moving.uwsgi import load_uwsgi
from aserve.settings import ConfigError

SECRET = "s3cret"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return what lines become: load(lines) -> Draft."""
    monkeypatch.chdir(tmp_path)

    def load(lines):
        (tmp_path / "u.ini").write_text("[uwsgi]\nhttp-socket=127.0.0.1:8000\n" + lines + "\n")
        return load_uwsgi("u.ini", {})

    return load


@pytest.mark.parametrize(
    ("lines", "routes"),
    [
        ("route = ^/ basicauth:Realm,user:s3cret", ["^/ basicauth:Realm,user:s3cret"]),
        ("route-run = basicauth:My Realm,user:s3cret", ["basicauth:My Realm,user:s3cret"]),
        ("route = ^/health last:\nroute = ^/ basicauth:R,u:p", ["^/health last:", "^/ basicauth:R,u:p"]),
        ("route = ^/x break:403 Forbidden", ["^/x break:403 Forbidden"]),
        ("route = ^/x donotlog:\nroute-run = break:", ["break:"]),
        ("route = ^/x rpc:f a", ["^/x rpc:f a"]),
    ],
)
def test_what_is_obeyed(load, lines, routes):
    """Each becomes a route of ours, in their order."""
    draft = load(lines)
    assert draft.settings["route"] == routes and draft.guards == []
    Origin(draft).check_guards("refuse")


@pytest.mark.parametrize(
    "lines",
    [
        "route = ^/ basicauth:Realm,/etc/s3cret",
        "route = ^/ basicauth-next:Realm,user:s3cret",
        "route = ^/ ldapauth:Realm,url=ldap://x;bindpw=s3cret",
        "route-run = radius:realm=R,server=1.2.3.4:1812,secret=s3cret",
        "route-remote-addr = ^10\\. break:403",
        "route = ^/admin return:403",
        "route = ^/admin break-with-status:403 s3cret",
        "route-run = addvar:A=s3cret\nroute-run = access:deny=all",
        "route-if = equal:${HTTP_X_KEY};s3cret continue:\nroute-run = break:403",
        "route = ^/x goto:s3cret\nroute-run = basicauth:R,u:p",
        "route = [ break:403",
    ],
)
def test_what_cannot_be_obeyed(load, lines):
    """It ends the start, without the value; --dropped-guards warn is a warning, and then no route is obeyed."""
    draft = load(lines)
    assert "route" not in draft.settings
    with pytest.raises(ConfigError, match=r"^u\.ini:[34]: route.*--dropped-guards warn") as caught:
        Origin(draft).check_guards("refuse")
    Origin(draft).check_guards("warn")
    assert (
        SECRET not in str(caught.value)
        and SECRET not in "".join(map(str, draft.notes))
        and SECRET not in as_toml(draft)
    )


@pytest.mark.parametrize(
    "lines",
    [
        "route = ^/x redirect:/y",
        "route = ^/x donotlog:",
        "final-route = ^/x break:",
        "route-user-agent = .*probe.* donotlog:",
    ],
)
def test_what_guards_nothing(load, lines):
    """It is a note."""
    draft = load(lines)
    Origin(draft).check_guards("refuse")
    assert (
        "route" not in draft.settings
        and "it has no effect here: `--route` has the actions basicauth" in draft.notes[0].text
    )


@pytest.mark.parametrize(
    ("lines", "most"),
    [
        ("route-if = ishigher:${CONTENT_LENGTH};15000000 break:413 Too large", 15_000_000),
        ("route-if = ishigherequal:${CONTENT_LENGTH};100 break:413", 99),
        ("limit-post = 50\nroute-if = ishigher:${CONTENT_LENGTH};100 break:413", 50),
    ],
)
def test_large_bodies(load, lines, most):
    """A route that refuses them is --max-body."""
    draft = load(lines)
    assert draft.settings["max-body"] == most and "route" not in draft.settings and draft.notes == []
