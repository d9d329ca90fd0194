"""Behind a real lighttpd, with the configurations of docs/lighttpd.md."""

from __future__ import annotations

import http.client

import pytest
from harness import apps
from harness.combining import long
from harness.front import Page, check_bodies, check_environ, check_statuses, environ_of, fronts, octets, site

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, pytest.mark.long_on_pypy]

__all__ = ["fronts"]  # a fixture
PAGE = Page("lighttpd")


@pytest.fixture
def behind(start_server, fronts):
    """Start aserve and lighttpd as a section of the page says: behind(heading, app=site) -> lighttpd."""

    def start(heading, app=site, commands=None):
        settings = PAGE.settings(commands or heading)
        settings["bind"] = settings["bind"].replace("/run/app/app.sock", fronts.socket)
        start_server(app, **settings)
        return fronts.lighttpd(PAGE.block(heading, "lighttpd"), {"/run/app/app.sock": fronts.socket})

    return start


@pytest.fixture(params=["uwsgi", "SCGI"])
def lighttpd(request, behind):
    """The site behind lighttpd, over each protocol."""
    return behind(request.param)


def test_the_environ_has_lighttpds_words(lighttpd):
    check_environ(lighttpd)


@pytest.mark.parametrize(
    ("target", "path_info"), [("/", "/"), ("/%2541", "/%41"), ("/a%20b/c?d=%2541", "/a b/c"), ("/%C3%A9", "/\xc3\xa9")]
)
def test_paths_are_decoded_once(lighttpd, target, path_info):
    """PATH_INFO is the path asked of lighttpd, decoded once."""
    environ = environ_of(lighttpd, target)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("", path_info)


@pytest.mark.parametrize("size", [0, 71_453, long(20_000_000)])
def test_bodies_up_and_down(lighttpd, size):
    """Bodies arrive whole: down with and without a length, and there and back."""
    check_bodies(lighttpd, size)
    assert lighttpd.fetch("/echo", "PUT", iter([b"hello ", b"world"]))[2] == b"hello world"


def test_head_and_statuses(lighttpd):
    """HEAD has no body, the app's status is the client's, and the client's connection stays."""
    check_statuses(lighttpd)


def test_a_truncated_body_is_seen_as_such(lighttpd):
    """The client sees that an app died within a body of known length."""
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        lighttpd.fetch("/cut", Connection="close")


def test_a_client_that_leaves(behind):
    """When a client leaves, the app's iterable is closed."""
    app = apps.Streamer(lambda: (b"x" * 65536 for _ in range(2000)))
    lighttpd = behind("uwsgi", app)
    connection = lighttpd.connect()
    connection.request("GET", "/")
    assert connection.getresponse().read(100_000)
    connection.close()
    assert app.made[0].closed.wait(30)


def test_a_large_response_arrives_whole(fronts, start_server):
    """With the page's line for lighttpd's buffer, a large response arrives whole."""
    start_server(site, bind=f"uwsgi://unix:{fronts.socket}", response_spool_bytes=0)
    block = PAGE.block("uwsgi", "lighttpd") + PAGE.block("Large responses", "lighttpd")
    lighttpd = fronts.lighttpd(block, {"/run/app/app.sock": fronts.socket})
    assert lighttpd.fetch("/pieces?3000000")[::2] == (200, octets(3_000_000))


@pytest.mark.parametrize("protocol", ["uwsgi", "SCGI"])
@pytest.mark.parametrize(("target", "path_info"), [("/app/x%20y?z", "/x y"), ("/app/", "/"), ("/app", "")])
def test_a_mount_point(behind, fronts, start_server, protocol, target, path_info):
    """SCRIPT_NAME and PATH_INFO together are the path of the URL."""
    start_server(site, bind=f"{protocol.lower()}://unix:{fronts.socket}")
    block = PAGE.block("A mount point", "lighttpd")
    if protocol == "uwsgi":
        block = 'scgi.protocol = "uwsgi"\n' + block
    lighttpd = fronts.lighttpd(block, {"/run/app/app.sock": fronts.socket})
    environ = environ_of(lighttpd, target)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/app", path_info)
