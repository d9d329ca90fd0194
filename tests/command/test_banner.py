"""The command's own words; --version and --check are tested with the command, in test_cli.py."""

import io
import re
import sys

import pytest
from harness import apps
from harness.modules import ROOT

from aserve.command import banner
from aserve.extension import overrides
from aserve.features import FEATURES, SETTINGS, Config


@pytest.mark.parametrize("found", [None, "/usr/bin/aserve"])
def test_the_command_in_hints_can_be_typed(monkeypatch, found):
    monkeypatch.setattr(banner.shutil, "which", lambda name: found)
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    assert banner.command() == ("aserve" if found else "/venv/bin/aserve")


@pytest.mark.parametrize(
    ("bind", "shown"),
    [
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        (":1", "http://:1 (all interfaces)"),
        ("https://:2?certificate=a", "https://:2 (all interfaces)"),
        ("uwsgi://:3", "uwsgi://:3 (all interfaces)"),
        ("unix:/a", "unix:/a"),
        ("fd:3", "fd:3"),
    ],
)
def test_check_tells_where_it_would_listen(bind, shown):
    text = banner.describe(Config(bind=bind), apps.hello, "a:hello")
    assert f"bind:    {shown}\n" in text and text.startswith("app:     a:hello (a function)\n")


class Terminal(io.StringIO):
    """A stream for a person."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "is_shown", "has_colors"),
    [
        (io.StringIO, {}, False, False),
        (io.StringIO, {"FORCE_COLOR": "1"}, True, True),
        (io.StringIO, {"FORCE_COLOR": ""}, False, False),
        (Terminal, {}, True, True),
        (Terminal, {"NO_COLOR": "1"}, True, False),
        (Terminal, {"NO_COLOR": ""}, True, True),
        (Terminal, {"TERM": "dumb"}, True, False),
        (Terminal, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
    ],
)
def test_where_a_banner_is_shown(stream, environ, is_shown, has_colors):
    """On a terminal; with colours, but where these are not wanted."""
    shown = stream()
    banner.show_banner(Config(), "a:b", shown, environ)
    assert bool(shown.getvalue()) == is_shown and ("\x1b[" in shown.getvalue()) == has_colors


@pytest.mark.parametrize(
    ("settings", "spec", "lines"),
    [
        ({}, "a:b", ["app   a:b", "at    http://127.0.0.1:8000", "with  one process, 32 threads"]),
        (
            {"bind": [":80", "unix:/a", "https://0.0.0.0:1"], "certificate": "a", "workers": 2, "threads": 1},
            None,
            [
                "app   the demo",
                "at    http://localhost:80 (and from elsewhere: all interfaces)",
                "      unix:/a",
                "      https://localhost:1 (and from elsewhere: all interfaces)",
                "with  2 workers, 1 thread each",
            ],
        ),
        (
            {"static": "/a=/b", "threads": 0},
            None,
            ["app   none", "at    http://127.0.0.1:8000", "with  one process, no threads"],
        ),
        (
            {"workers": 1, "reload": True},
            "a:b",
            [
                "app   a:b",
                "at    http://127.0.0.1:8000",
                "with  1 worker, 32 threads",
                f"for   development: {banner.FOR_DEVELOPMENT}",
            ],
        ),
    ],
)
def test_what_a_banner_says(settings, spec, lines):
    """The app, links to the app, processes and threads; and a word on --reload in production."""
    text = banner.banner_of(Config(**settings), spec, False).splitlines()
    assert text[0] == "" and text[1].startswith(banner.version_line().partition(", plain")[0])
    assert text[2:] == [*(f"  {line}" for line in lines), ""]


@pytest.mark.parametrize(
    ("settings", "language"),
    [
        ({}, "C"),
        ({"native": "off"}, "Python (--native off)"),
        ({"lane": "off"}, "Python (--lane off)"),
        ({"threads": 0}, "Python (--threads 0)"),
        ({"body": "stream"}, "Python (--body stream)"),
        ({"log_level": "debug"}, "Python (--log-level debug)"),
        ({"http_parser": "httptools"}, "Python (--http-parser httptools)"),
        ({"queue_wait_header": "X-Wait"}, "Python (--queue-wait-header)"),
        ({"max_connection_seconds": 60}, "Python (--max-connection-age)"),
        ({"add_field": f"X-A: {'a' * 1000}"}, "Python (--add-field)"),
        ({"uwsgi_module": "on", "access_log_format": "%(logvar.a)"}, "Python (--access-log-format)"),
        ({"route": "rpcret f"}, "Python (--route)"),
        ({"bind": "https://:1", "certificate": "a"}, "C"),
        (
            {"bind": "https://:1", "certificate": "a", "client_ca": "b", "client_certificate": "required"},
            "Python (--client-certificate)",
        ),
        ({"bind": ["https://:1", ":2"], "certificate": "a", "https_redirect": 443}, "C (in Python: --https-redirect)"),
        ({"bind": "proxy+http://:1", "trusted_proxies": "127.0.0.1"}, "Python (the PROXY protocol)"),
        ({"bind": ["uwsgi://:1", ":2"], "underscore_fields": "a_b"}, "C (in Python: --underscore-fields)"),
        ({"bind": "unix:/a", "trusted_proxies": "unix:uid=0"}, "Python (--trusted-proxies)"),
        ({"bind": "unix:/a", "trusted_proxies": "unix:uid=no-such-account"}, "C"),
    ],
)
def test_which_way_requests_take(monkeypatch, settings, language):
    """The first line tells whether C serves plain requests, and the deciding setting if Python does."""
    if sys.platform != "linux" or sys.implementation.name != "cpython":
        pytest.skip("Python serves all requests here, whatever the settings are")
    monkeypatch.setattr(banner, "find_spec", lambda name: None if name == "uvloop" else object())
    text = banner.banner_of(Config(**settings), "a:b", False)
    assert text.splitlines()[1].endswith(f", plain requests in {language}")


def ways_of_requests() -> str:
    """Return the section of docs/design.md about the ways of requests."""
    return (ROOT / "docs" / "design.md").read_text().partition("## Which way a request takes")[2].partition("\n## ")[0]


def test_the_page_has_each_reason():
    """Each setting with requests in Python is in the table of docs/design.md."""
    [rows] = [mark.args[1] for mark in test_which_way_requests_take.pytestmark if mark.name == "parametrize"]
    named = {name for _, language in rows for name in re.findall(r"--[a-z-]+|PROXY protocol", language)}
    assert len(named) > 12 and [name for name in sorted(named) if name not in ways_of_requests()] == []


def test_the_page_has_each_option_that_needs_python():
    """The row of the lane in Python has all settings of the options with steps unknown to C, or with a wrapper that sees Responses."""
    [row] = re.findall(r"^\| the lane, in Python .*$", ways_of_requests(), re.MULTILINE)
    flags = {each.name: each.flag for each in SETTINGS}
    wanting = [each for each in FEATURES if overrides(each, "before") or overrides(each, "wrap_calls")]
    of_the_engine = {"--native", "--threads", "--log-level", "--add-field"}
    assert {*re.findall(r"--[a-z-]+", row)} == of_the_engine | {
        flags[name] for each in wanting for name in each.switches
    }


def test_the_workers_of_a_check():
    assert "\nworkers: 4\nthreads: 32\n" in banner.describe(Config(workers=4), apps.hello, "a:hello")
    assert "workers" not in banner.describe(Config(), apps.hello, "a:hello")
