"""Routes of uWSGI's files: a guard of the app there is a guard here, or ends the start."""

import pytest

from aserve.compat.moving.origin import Origin
from aserve.compat.moving.translate import as_toml
from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.compat.moving.uwsgi_routes import HARMLESS
from aserve.settings import ConfigError

SECRET = "s3cret"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return the draft of lines: load(lines) -> Draft."""
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
        ("route = ^/x return:403", ["^/x break:403"]),
        ("route-run = break-with-status:410", ["break:410"]),
        ("route = ^/old/(.*)$ redirect:/new/$1?${QUERY_STRING}", ["^/old/(.*)$ redirect:/new/$1?${QUERY_STRING}"]),
        (
            "route-run = redirect-301:https://x.example${REQUEST_URI}",
            ["redirect-permanent:https://x.example${REQUEST_URI}"],
        ),
        ("route = ^/old/(.*) rewrite:/new/$1?a=b", ["^/old/(.*) rewrite:/new/$1?a=b"]),
        ("route = ^/x rewrite-last:/y", ["^/x rewrite-last:/y"]),
        ("route = ^/x seturi:/y\nroute-run = addvar:SITE=shop", ["^/x seturi:/y", "addvar:SITE=shop"]),
        ("route = ^/x gzip:\nroute = ^/ basicauth:R,u:p", ["^/ basicauth:R,u:p"]),
        ("mount = /a=b.py\nmodule = c\nroute = ^/ basicauth:R,u:p", ["^/ basicauth:R,u:p"]),
        (
            "response-route-if = empty:${A} goto:b\nresponse-route-run = last:\nresponse-route-label = b\nroute = ^/ basicauth:R,u:p",
            ["^/ basicauth:R,u:p"],
        ),
        ("mount = /a=b.py\nmodule = c\nroute-host = ^x break:403", ["host:^x break:403"]),
        ("route-remote-addr = ^10\\. break:403", ["remote-addr:^10\\. break:403"]),
        ("route-host = ^(?!shop.example$) break:400", ["host:^(?!shop.example$) break:400"]),
        (
            "route-if = equal:${HTTP_X_FORWARDED_PROTO};http redirect-permanent:https://${HTTP_HOST}${REQUEST_URI}",
            ["if:equal:${HTTP_X_FORWARDED_PROTO};http redirect-permanent:https://${HTTP_HOST}${REQUEST_URI}"],
        ),
        ("route-if-not = equal:${HTTPS};on redirect:https://x", ["if-not:equal:${HTTPS};on redirect:https://x"]),
        (
            "route-if = equal:${HTTP_X_KEY};s3cret goto:in\nroute-run = break:403\nroute-label = in",
            ["if:equal:${HTTP_X_KEY};s3cret goto:in", "break:403", "label:in"],
        ),
    ],
)
def test_what_is_obeyed(load, lines, routes):
    """Each becomes a route of ours, in their order."""
    draft = load(lines)
    assert draft.settings["route"] == routes and draft.guards == []
    Origin(draft).check_guards("refuse")


@pytest.mark.parametrize(
    ("lines", "obeyed"),
    [
        ("route = ^/ basicauth:Realm,/etc/s3cret", None),
        ("route = ^/ basicauth-next:Realm,user:s3cret", None),
        ("route = ^/ ldapauth:Realm,url=ldap://x;bindpw=s3cret", None),
        ("route-run = radius:realm=R,server=1.2.3.4:1812,secret=s3cret", None),
        ("route-status = 200 break:403", None),
        ("route-if = ipv4in:${REMOTE_ADDR};s3cret redirect:/", None),
        ("route-if = equal:${time[s3cret]};1 break:403", None),
        ("route-if = regexp:${HTTP_HOST};[s3cret break:403", None),
        ("route-host = ^[[:alnum:]]+$ break:403", None),
        ("route = host:s3cret break:403", None),
        ("route-label = x\nroute-run = goto:x\nroute-run = break:403", ["label:x", "break:403"]),
        ("route-run = goto:2\nroute-run = break:403", ["break:403"]),
        ("mount = /a=b.py\nroute-if = equal:${PATH_INFO};/s3cret break:403", None),
        ("route = ^/admin break-with-status:403 s3cret", None),
        ("route = ^/admin return:s3cret", None),
        ("route-run = addvar:A=shop\nroute-run = access:deny=s3cret", ["addvar:A=shop"]),
        ("route = ^/x goto:s3cret\nroute-run = basicauth:R,u:p", ["basicauth:R,u:p"]),
        ("route = [ break:403", None),
        ("route = ^/[[:alpha:]]+$ break:403", None),
        ("route = ^/admin send:HTTP/1.0 403 s3cret", None),
        ("route = ^/admin redirect:", None),
        ("route = ^/admin redirect:/$1", None),
        ("route = ^/admin static:/srv/s3cret.html", None),
        ("route = ^/admin file:/srv/s3cret.html", None),
        ("route = ^/admin lua:s3cret.lua", None),
        ("route = ^/admin exec:s3cret", None),
        ("route = ^/admin cgi:s3cret", None),
        ("route = ^/admin fastcgi:s3cret", None),
        ("route = ^/admin rewrite:/s3cret/$1", None),
        ("route = ^/admin seturi:/s3cret/${base64[A]}", None),
        ("route = ^/admin addvar:HTTPS=s3cret", None),
        ("mount = /a=b.py\nroute-run = rewrite:/s3cret", None),
        ("static-map = /a=/b\nroute = ^/ setpathinfo:/s3cret", None),
        ("route = ^/admin setscheme:s3cret", None),
        ("route = ^/admin http:127.0.0.1:1,s3cret", None),
        ("route = ^/admin uwsgi:127.0.0.1:1,0,0,s3cret", None),
        ("route = ^/admin cache:key=s3cret", None),
        ("route = ^/admin delheader:s3cret", None),
        ("route = ^/admin some-plugin:s3cret", None),
        ("route = ^/admin", None),
        ("route =", None),
        ("response-route = ^/admin break:s3cret", None),
        ("route-if = lord:s3cret break:403\nroute = ^/ rpc:f s3cret", None),
        ("mount = /a=b.py\nroute = ^/admin basicauth:R,u:s3cret", None),
    ],
)
def test_what_cannot_be_obeyed(load, lines, obeyed):
    """Such a route ends the start, without the value; with --dropped-guards warn it is a warning, and the parts that keep requests from the app are
    obeyed.
    """
    draft = load(lines)
    assert draft.settings.get("route") == obeyed
    with pytest.raises(
        ConfigError, match=r"(?s)^u\.ini:[3-5]: (response-)?route.*\. --dropped-guards warn serves"
    ) as caught:
        Origin(draft).check_guards("refuse")
    Origin(draft).check_guards("warn")
    assert SECRET not in f"{caught.value}{draft.notes}{as_toml(draft)}"


def test_a_route_of_legions_names_the_way(load):
    """A condition on a leading host is refused, and the error names the choosing part."""
    with pytest.raises(
        ConfigError, match="there are no legions here: let the balancer choose the host; have the front"
    ):
        Origin(load("route-if-not = lord:shop break:503")).check_guards("refuse")


def test_each_guard_is_named(load):
    with pytest.raises(ConfigError) as caught:
        Origin(load("route = ^/a lua:x\nroute = ^/b lua:y")).check_guards("refuse")
    first, second = str(caught.value).splitlines()
    assert first.startswith("u.ini:3: route") and second.startswith("u.ini:4: route")
    assert second.endswith("--dropped-guards warn serves the app without them")


@pytest.mark.parametrize("action", sorted(HARMLESS))
@pytest.mark.parametrize("key", ["route = ^/(x)", "route-user-agent = .*probe.*", "response-route = ^/x"])
def test_what_guards_nothing(load, key, action):
    """Such a route is a note with a reason, and all further routes are obeyed."""
    draft = load(f"{key} {action}:s3cret\nroute = ^/ basicauth:R,u:p")
    Origin(draft).check_guards("refuse")
    assert draft.settings["route"] == ["^/ basicauth:R,u:p"]
    assert [note.text for note in draft.notes] == [f"it has no effect here: {HARMLESS[action]}"]


@pytest.mark.parametrize(
    "lines",
    [
        "final-route = ^/x break:",
        "error-route-status = 404 redirect:/",
        "route = ^/x goto:a\nroute = ^/x logvar:a=b\nroute-label = a",
    ],
)
def test_where_nothing_is_guarded(load, lines):
    """When the app has answered, or where a route would only lead past routes without an effect, none is obeyed."""
    draft = load(lines)
    Origin(draft).check_guards("refuse")
    assert "route" not in draft.settings
    assert [note.text.startswith("it has no effect here: ") for note in draft.notes] == [True]


@pytest.mark.parametrize(
    ("route", "skip"),
    [
        ("route = ^/healthz donotlog:", "/healthz*"), ("route = ^/healthz$ donotlog:", "/healthz"), ("route = ^/a-b/.* donotlog:", "/a-b/*"),
        (r"route = ^/x\.txt donotlog:", "/x.txt*"), ("route = ^/x.txt$ donotlog:", "/x?txt"),
        ("route = ^/(a|b) donotlog:", None), ("route-run = donotlog:", None), ("route-uri = ^/a donotlog:", None),
        ("route = ^/x last:\nroute = ^/x donotlog:", None), ("route = ^/a$ continue:\nroute = ^/b$ donotlog:", "/b"),
        ("route = ^/a$ break:403\nroute = ^/ab donotlog:", "/ab*"), ("route = ^/a break:\nroute = ^/ab$ donotlog:", None),
        ("route = ^/ab$ break:\nroute = ^/a donotlog:", None), ("route = ^/a.c last:\nroute = ^/abc donotlog:", None),
        ("route = ^/a rewrite:/b\nroute = ^/b donotlog:", None), ("route-host = ^x last:\nroute = ^/b donotlog:", None),
        ("route-label = x\nroute = ^/b donotlog:", "/b*"),
    ],
)  # fmt: skip
def test_requests_without_a_line(load, route, skip):
    """donotlog of a path is --access-log-skip, and of anything else a note."""
    draft = load(route)
    assert draft.settings.get("access-log-skip") == (skip and [skip]) and len(draft.notes) == (skip is None)


@pytest.mark.parametrize(
    ("value", "fields"),
    [("X-Frame-Options: DENY", ["X-Frame-Options: DENY"]), ("X-Path: ${PATH_INFO}", None), ("Content-Length: 1", None)],
)
def test_fields_of_each_response(load, value, fields):
    """addheader of each request is --add-field, if the same for all."""
    draft = load(f"route-run = addheader:{value}")
    Origin(draft).check_guards("refuse")
    assert draft.settings.get("add-field") == fields and len(draft.notes) == (fields is None)
    assert load(f"route = .* addheader:{value}").settings.get("add-field") == fields
    assert load(f"route-host = .* addheader:{value}").settings.get("add-field") == fields
    assert "add-field" not in load(f"route-host = ^/ addheader:{value}").settings
    assert "add-field" not in load(f"route = ^/api last:\nroute-run = addheader:{value}").settings


@pytest.mark.parametrize(
    ("lines", "is_compressed", "count"),
    [
        ("route-if = contains:${HTTP_ACCEPT_ENCODING};gzip goto:_gzip\nroute-run = last:\nroute-label = _gzip\nroute-run = gzip:", True, 0),
        ("route-if = contains:${HTTP_ACCEPT_ENCODING};gzip gzip:\nroute-run = chunked:", True, 1),
        ("route-if = contains:${HTTP_X};gzip gzip:", None, 1),
        ("route = ^/css gzip:", None, 1),
        ("route = .* gzip:", True, 0),
    ],
)  # fmt: skip
def test_compressed_responses_become_a_setting(load, lines, is_compressed, count):
    """gzip of all paths is --compress, and its route is not needed; gzip of some is a note."""
    draft = load(lines)
    Origin(draft).check_guards("refuse")
    assert "route" not in draft.settings
    assert (draft.settings.get("compress"), len(draft.notes)) == (is_compressed, count)


@pytest.mark.parametrize(
    ("lines", "most"),
    [
        ("route-if = ishigher:${CONTENT_LENGTH};15000000 break:413 Too large", 15_000_000),
        ("route-if = ishigherequal:${CONTENT_LENGTH};100 break:413", 99),
        ("limit-post = 50\nroute-if = ishigher:${CONTENT_LENGTH};100 break:413", 50),
    ],
)
def test_large_bodies_are_refused_by_max_body(load, lines, most):
    draft = load(lines)
    assert draft.settings["max-body"] == most and "route" not in draft.settings and draft.notes == []
