"""Behind a real Apache, with the configurations of docs/apache.md."""

from __future__ import annotations

import http.client

import pytest
from harness import apps
from harness.combining import long
from harness.front import Page, check_bodies, check_environ, check_statuses, environ_of, fronts, site

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, pytest.mark.long_on_pypy]

__all__ = ["fronts"]  # a fixture
PAGE = Page("apache")
SOCKET = "unix:/run/app/app.sock"


@pytest.fixture
def behind(start_server, fronts):
    """Start aserve and Apache as a section of the page says: behind(heading, app=site) -> Apache."""

    def start(heading, app=site, commands=None, edit=lambda text: text):
        settings = PAGE.settings(commands or heading)
        settings["bind"] = settings["bind"].replace("/run/app/app.sock", fronts.socket)
        start_server(app, **settings)
        return fronts.apache(edit(PAGE.block(heading, "apache")), {SOCKET: f"unix:{fronts.socket}"})

    return start


@pytest.fixture(params=["uwsgi", "SCGI"])
def apache(request, behind):
    """The site behind Apache, over each protocol."""
    return behind(request.param)


def test_the_environ_has_apaches_words(apache):
    check_environ(apache)


@pytest.mark.parametrize(
    ("target", "path_info"),
    [("/", "/"), ("/%2541", "/%41"), ("/a%20b/c?d=%2541", "/a b/c"), ("/%C3%A9", "/\xc3\xa9"), ("/a;b=c", "/a;b=c")],
)
def test_paths_are_decoded_once(apache, target, path_info):
    """PATH_INFO is the path asked of Apache, decoded once."""
    environ = environ_of(apache, target)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("", path_info)
    assert environ["REQUEST_URI"] == target


@pytest.mark.parametrize("size", [0, 71_453, long(20_000_000)])
def test_bodies_up_and_down(apache, size):
    """Bodies arrive whole: down with and without a length, and there and back."""
    check_bodies(apache, size)


def test_head_and_statuses(apache):
    """HEAD has no body, the app's status is the client's, and the client's connection stays."""
    check_statuses(apache)


def test_a_truncated_body_is_seen_as_such(apache):
    """The client sees that an app died within a body of known length."""
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        apache.fetch("/cut", Connection="close")


def test_a_client_that_leaves(behind):
    """When a client leaves, the app's iterable is closed."""
    app = apps.Streamer(lambda: iter(lambda: b"x" * 65536, None))
    apache = behind("uwsgi", app)
    connection = apache.connect()
    connection.request("GET", "/")
    assert connection.getresponse().read(100_000)
    connection.close()
    assert app.made[0].closed.wait(30)


def test_the_page_serves_on_tcp_too(start_server, fronts):
    assert PAGE.settings("On TCP")["bind"] == "uwsgi://127.0.0.1:3031"
    port = start_server(site, bind="uwsgi://127.0.0.1:0").address[1]
    apache = fronts.apache(PAGE.block("On TCP", "apache"), {"127.0.0.1:3031": f"127.0.0.1:{port}"})
    assert environ_of(apache, "/a%20b")["PATH_INFO"] == "/a b"
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        apache.fetch("/cut", Connection="close")


@pytest.mark.parametrize("protocol", ["uwsgi", "SCGI"])
@pytest.mark.parametrize("target", ["/app/x%20y?z", "/app/", "/app"])
def test_a_mount_point(behind, protocol, target):
    """SCRIPT_NAME and PATH_INFO together are the path of the URL."""
    apache = behind(
        "A mount point", commands=protocol, edit=lambda text: text.replace("uwsgi:", f"{protocol.lower()}:")
    )
    environ = environ_of(apache, target)
    assert environ["SCRIPT_NAME"] == "/app"
    below = {"/app/x%20y?z": ["/x y"], "/app/": ["/"], "/app": ["", "/"]}[target]  # mod_proxy_uwsgi adds the slash
    assert environ["PATH_INFO"] in below
