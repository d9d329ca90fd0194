"""The shown part of values with a secret."""

import pytest

from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError, without_secrets
from aserve.settings.secrecy import (
    show_app,
    show_argument,
    show_place,
    show_program,
    show_route,
    show_timed,
    show_url,
    show_variable,
    show_word,
)

pytestmark = pytest.mark.long_on_pypy

# Each row with room for a secret, with accepted and wrong values; "hunter2" is the secret.
ACCEPTED = {
    "route": ("^/rpc rpc f:hunter2", "call:f hunter2 b", "^/a rpcret f: hunter2"),
    "shared": ("redis://me:hunter2@h:1/0", "rediss://h/?ssl_password=hunter2", "unix://:hunter2@/run/redis.sock?db=3"),
    "mount": ("/a=shop:make('hunter2')",),
    "warm_up": ("/a?token=hunter2", "shop.example/?hunter2"),
    "attach": ("celery --password hunter2", "beat=env PGPASSWORD=hunter2 celery", "sh -c 'PW=hunter2 x'"),
    "cron": ("0 3 * * * ./a --pw=hunter2", "a=* * * * * PW=hunter2 ./a", "0 3 * * * (PW=hunter2 ./a)"),
    "argv": ("--password=hunter2", "redis://:hunter2@h", "say hunter2"),
    "env": ("PASSWORD=hunter2", "URL=https://me:hunter2@h/?a=hunter2", "-----BEGIN KEY----- hunter2=="),
}
REFUSED = {
    "route": ([3, "hunter2"], {"hunter2": 1}),
    "shared": (
        ["redis://:hunter2@h"], "http://me:hunter2@h", "redis://:hunter2", "redis://:hunter2/1@h/x", "redis:hunter2@h", "hunter2@h",
        "redis://h/x?password=hunter2", "redis://hunter2\u2100/", "unix:a@hunter2?b=hunter2@c", "redis://h?hunter2", "redis://h?password=hunter2",
    ),
    "mount": ("admin=shop:make('hunter2')", "/a=shop :make('hunter2')", {"/a": 3, "b": "x(hunter2)"}, ["/a=b(hunter2)", 3]),
    "warm_up": ("a?hunter2", [3, "hunter2"]),
    "attach": (
        "PASSWORD=hunter2 celery", "a=PASSWORD=hunter2 celery", "sh -c 'hunter2", "'' hunter2", "a\0 hunter2", {"a": "hunter2"},
        ["a=b hunter2", "a=b hunter2"],
    ),
    "cron": ("./a --pw hunter2", "a=hunter2", "0 3 * * PW=hunter2 ./a", "0 3 * * x:y PW=hunter2", "* * * * * a\0hunter2", [3, "hunter2"]),
    "argv": ([3, "hunter2"], {"hunter2": 1}),
    "env": ("hunter2", ["=hunter2"], {"PASSWORD": "hunter2"}, ["A=\0hunter2"], "A=1\nhunter2", ("A=1", 2, "hunter2")),
}  # fmt: skip


def test_rows_with_secrets_are_all_tried():
    assert {setting.name for setting in SETTINGS if setting.secret is not None} == {*ACCEPTED} == {*REFUSED}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ACCEPTED.items() for value in values])
def test_accepted_secrets_are_never_shown(name, value):
    """Neither the text of the row, nor the repr of all settings, nor a command line has the secret."""
    (setting,) = [each for each in SETTINGS if each.name == name]
    config = Config(**{name: [value] if setting.is_list else value, "workers": 1, "preload": True})
    told = [setting.show(getattr(config, name)), str(setting.without_secrets(getattr(config, name))), repr(config)]
    told += without_secrets(["aserve", "a:b", setting.flag, value, f"{setting.flag}={value}"], SETTINGS)
    assert "hunter2" not in "\n".join(told)
    assert told[0] != "none" and "..." in told[0]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_refused_values_keep_the_secret(name, value):
    with pytest.raises(ConfigError) as caught:
        Config.from_sources({}, {}, {name.replace("_", "-"): value, "workers": 1, "preload": True}, "x.toml")
    assert "in x.toml: " in str(caught.value) and "; accepted: " in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("show", "text", "shown"),
    [
        (show_word, "./manage.py", "./manage.py"),
        (show_word, "--password=x", "..."),
        (show_word, "A=x", "A=..."),
        (show_variable, "DATABASE_URL=postgres://", "DATABASE_URL=..."),
        (show_variable, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj=", "..."),
        (show_variable, "A B=c", "..."),
        (show_program, "celery -A shop worker", "celery ..."),
        (show_program, "beat=/usr/bin/celery -A shop", "beat=/usr/bin/celery ..."),
        (show_program, "beat=celery", "beat=celery"),
        (show_program, "'a b' c", "..."),
        (show_program, "beat=", "beat=..."),
        (show_timed, "prune=0 3 * * 1-5 ./manage.py prune --all", "prune=0 3 * * 1-5 ./manage.py ..."),
        (show_timed, "*/5 * * * *  a", "*/5 * * * * a"),
        (show_timed, "* * * * *", "* * * * *"),
        (show_timed, "* * * * * A=b c", "* * * * * A=..."),
        (show_timed, "* * * * ./manage.py --pw x", "..."),
        (show_timed, "a=* * * * ./manage.py", "a=..."),
        (show_timed, "", ""),
        (show_url, "redis://host:6379/0", "redis://host:6379/0"),
        (show_url, "redis://me:pw@[::1]:6379/0?db=3&ssl_ca_certs=/a", "redis://...@[::1]:6379/0?db=3&ssl_ca_certs=..."),
        (show_url, "redis://me:pw/1@host", "redis://...@host"),
        (show_url, "unix:///run/redis.sock?db=x", "unix:///run/redis.sock?db=..."),
        (show_url, "host", "host"),
        (show_route, "^/a rpc f", "^/a rpc f"),
        (show_route, "^/a rpc f:b c", "^/a rpc f ..."),
        (show_route, "call:f:b", "call:f ..."),
        (show_route, "^/a b c", "^/a ..."),
        (show_route, "^/a", "^/a"),
        (show_route, "^/a basicauth:R,u:p", "^/a basicauth ..."),
        (show_route, "basicauth:R,u:p", "basicauth ..."),
        (show_route, "basicauht:R,u:p", "basicauht ..."),
        (show_route, "", ""),
        (show_place, "host/a?b", "host/a?..."),
        (show_place, "/a", "/a"),
        (show_app, "shop:make('a', b='c')", "shop:make(...)"),
        (show_app, "shop:make()", "shop:make()"),
        (show_app, "shop:app", "shop:app"),
        (show_app, "aserve.contrib.flask:load('shop')", "flask --app shop"),
        (show_app, "aserve.contrib.flask:load(\"shop:make('a')\")", "flask --app shop:make(...)"),
        (show_app, "aserve.contrib.flask:load(None)", "flask"),
        (show_argument, "PASSWORD=a@b", "PASSWORD=..."),
        (show_argument, "redis://:pw@h", "redis://...@h"),
        (show_argument, "shop:app", "shop:app"),
        (show_argument, "0 3 * * * a", "0 ..."),
    ],
)
def test_forms_without_secret_stay_readable(show, text, shown):
    assert show(text) == shown


def test_a_url_of_another_setting():
    """No user and password of a URL is shown, wherever somebody has put the URL."""
    (setting,) = [each for each in SETTINGS if each.name == "log_config"]
    assert setting.show("https://me:pw@a/b") == "https://...@a/b" and setting.show(None) == "none"


def test_a_command_line():
    """A value without a secret stays unchanged."""
    words = ["/python", "-m", "aserve", "a:make(1)", "--env=A=b", "--env", "C=d", "--threads", "3", "--cron"]
    assert without_secrets(words, SETTINGS) == [
        "/python", "-m", "aserve", "a:make(...)", "--env=A=...", "--env", "C=...", "--threads", "3", "--cron"
    ]  # fmt: skip
