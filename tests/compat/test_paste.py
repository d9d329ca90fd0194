"""The server section of an ini file: settings, names, and mistakes."""

import configparser
import pathlib
import re

import pytest

from aserve.compat import paste
from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError

GLOBAL = {"__file__": "/srv/site.ini", "here": "/srv"}


def app(environ, start_response):
    raise AssertionError


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        ({}, {}),
        ({"threads": "3", "max-body": "10M", "max_head": "32k"}, {"threads": 3, "max_body_bytes": 10 << 20, "max_head_bytes": 32 << 10}),
        ({"host": "0.0.0.0", "port": "6543"}, {"bind": "0.0.0.0:6543"}),
        ({"host": " 0.0.0.0 ", "port": " 80"}, {"bind": "0.0.0.0:80"}),
        ({"port": "6543"}, {"bind": "127.0.0.1:6543"}),
        ({"host": "::1"}, {"bind": "[::1]:8000"}),
        ({"host": "[::1]", "port": "1"}, {"bind": "[::1]:1"}),
        ({"host": "*", "port": "1"}, {"bind": ":1"}),
        ({"listen": "127.0.0.1:8080 [::1]:8080"}, {"bind": ["127.0.0.1:8080", "[::1]:8080"]}),
        ({"listen": "*:6543"}, {"bind": ":6543"}),
        ({"listen": "\n*:6543\n[::1]:1"}, {"bind": [":6543", "[::1]:1"]}),
        ({"bind": "\n127.0.0.1:8080\nuwsgi://unix:/run/s"}, {"bind": ["127.0.0.1:8080", "uwsgi://unix:/run/s"]}),
        ({"bind": "127.0.0.1:1, 127.0.0.1:2"}, {"bind": ["127.0.0.1:1", "127.0.0.1:2"]}),
        ({"trusted_proxies": "\n10.0.0.1\n10.0.0.2"}, {"trusted_proxies": ["10.0.0.1", "10.0.0.2"]}),
        ({"trusted-proxies": "10.0.0.1, 10.0.0.2"}, {"trusted_proxies": ["10.0.0.1", "10.0.0.2"]}),
        ({"request_timeout": "30s", "server_name": ""}, {"request_seconds": 30.0, "server_name": ""}),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_section_means(section, settings):
    """Names are as in TOML files, with - or _; host, port and listen as in waitress."""
    assert paste.read_settings(GLOBAL, section) == Config(**settings)


@pytest.mark.parametrize(
    ("section", "parts"),
    [
        ({"thread": "3"}, ["unknown setting thread in the server section of /srv/site.ini", "did you mean threads?"]),
        ({"trusted_proxy": "*"}, ["unknown setting trusted_proxy"]),
        ({"threads": "many"}, ["threads in the server section of /srv/site.ini", "accepted: a whole number"]),
        ({"port": "http"}, ["port in the server section", "'http' is no number"]),
        ({"port": "-1"}, ["port in the server section", "'-1' is no number"]),
        ({"port": "70000"}, ["port in the server section", "'70000' is no number from 0 to 65535"]),
        ({"port": ""}, ["port in the server section", "'' is no number"]),
        ({"host": "a b", "port": "1"}, ["host in the server section", "'a b' is not a host name"]),
        ({"host": "fe80::x"}, ["host in the server section", "'fe80::x' is not an IPv6 address"]),
        ({"listen": "*:70000"}, ["listen in the server section", "'70000' is not a number from 0 to 65535"]),
        ({"listen": ":1 localhost"}, ["listen in the server section", "'localhost' has no port"]),
        ({"listen": " "}, ["listen in the server section", "nothing to listen on"]),
        ({"bind": ""}, ["nothing to listen on"]),
        ({"bind": ":1", "port": "2"}, ["port, bind in the server section", "one says it all"]),
        ({"listen": ":1", "host": "a", "port": "2"}, ["listen, host, port in the server section", "one says it all"]),
        ({"max_body": "1", "max-body": "2"}, ["max-body is set twice"]),
        ({"app": "a:b"}, ["unknown setting app", "the ini file itself says which app"]),
    ],
    ids=str,
)
def test_what_is_wrong(section, parts):
    """The error names the file, the setting and accepted values."""
    for make in (paste.read_settings, lambda g, s: paste.run_app(app, g, **s), lambda g, s: paste.make_server(g, **s)):
        with pytest.raises(ConfigError) as caught:
            make(GLOBAL, section)
        for part in parts:
            assert part in str(caught.value)


@pytest.mark.parametrize(
    ("section", "command"),
    [
        ({"workers": "2"}, "aserve --paste /srv/site.ini --workers 2 --bind 127.0.0.1:8000,"),
        ({"workers": "auto", "listen": ":1 unix:/run/a"}, "--workers auto --bind :1 --bind unix:/run/a,"),
        ({"control": "/run/my control", "port": "1"}, "--control '/run/my control' --bind 127.0.0.1:1,"),
    ],
    ids=str,
)
def test_what_only_the_command_has(section, command):
    """pserve has imported the app already, a worker's task: the error names the command for workers."""
    for make in (lambda: paste.run_app(app, GLOBAL, **section), lambda: paste.make_server(GLOBAL, **section)):
        with pytest.raises(ConfigError) as caught:
            make()
        assert f"{next(iter(section))} in the server section of /srv/site.ini: " in str(caught.value)
        assert command in str(caught.value)


def test_a_section_of_no_file():
    """An ini file need not have a name."""
    with pytest.raises(ConfigError, match="in the server section of the ini file"):
        paste.read_settings({}, {"thread": "3"})


@pytest.mark.parametrize("how", ["runner", "factory"])
@pytest.mark.parametrize("status", [0, 1])
def test_serving_works_by_both_entry_points(how, status, monkeypatch):
    """Both kinds of entry point serve with these settings, and tell unfinished work."""
    served = []
    monkeypatch.setattr(paste, "run", lambda *arguments: served.append(arguments) or status)
    section = {"port": "0", "threads": "2"}

    def serve():
        if how == "runner":
            paste.run_app(app, GLOBAL, **section)
        else:
            paste.make_server(GLOBAL, **section)(app)

    if status:
        with pytest.raises(SystemExit, match="1"):
            serve()
    else:
        serve()
    assert served == [(app, Config(bind="127.0.0.1:0", threads=2))]


@pytest.mark.checkout
def test_the_pages_sections_are_read():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "paste.md").read_text()
    blocks = re.findall(r"^```ini\n(.*?)^```", page, re.M | re.S)
    for block in blocks:
        parser = configparser.ConfigParser()
        parser.read_string(block)
        section = dict(parser["server:main"])
        assert section.pop("use") == "egg:aserve-wsgi#main"
        assert paste.read_settings(GLOBAL, section) != Config()
    assert len(blocks) == 2


@pytest.mark.checkout
def test_the_table_has_names_of_settings():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "moving-from-waitress.md").read_text()
    names = [
        name for row in re.findall(r"^\| `.*?\| (.*) \|$", page, re.M) for name in re.findall(r"`--([a-z-]+)", row)
    ]
    assert len(names) > 15 and {*names} <= {setting.key for setting in SETTINGS}
