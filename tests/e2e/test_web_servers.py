"""Behind a real Apache and a real lighttpd, with the configurations of docs/apache.md and docs/lighttpd.md."""

import http.client

import pytest
from harness import apps
from harness.combining import long
from harness.front import Page, check_bodies, check_environ, check_statuses, environ_of, octets, site

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, pytest.mark.long_on_pypy]

PAGES = {name: Page(name) for name in ("apache", "lighttpd")}
SOCKET = "/run/app/app.sock"
SERVERS = pytest.mark.parametrize("name", PAGES)
PROTOCOLS = pytest.mark.parametrize("protocol", ["uwsgi", "SCGI"])


@pytest.fixture
def behind(start_server, fronts):
    """Start aserve and a web server as a section of the page says: behind(name, heading, app=site) -> the web server."""

    def start(name, heading, app=site, commands=None, edit=lambda text: text):
        settings = PAGES[name].settings(commands or heading)
        settings["bind"] = settings["bind"].replace(SOCKET, fronts.socket)
        start_server(app, **settings)
        return getattr(fronts, name)(edit(PAGES[name].block(heading, name)), {SOCKET: fronts.socket})

    return start


@pytest.fixture(params=[(name, protocol) for name in PAGES for protocol in ("uwsgi", "SCGI")], ids="-".join)
def front(request, behind):
    """The site behind each web server, over each protocol."""
    return behind(*request.param)


def test_the_environ_has_cgis_words(front):
    check_environ(front)


@pytest.mark.parametrize(
    ("target", "path_info"),
    [("/", "/"), ("/%2541", "/%41"), ("/a%20b/c?d=%2541", "/a b/c"), ("/%C3%A9", "/\xc3\xa9"), ("/a;b=c", "/a;b=c")],
)
def test_paths_are_decoded_once(front, target, path_info):
    """PATH_INFO is the path asked of the web server, decoded once."""
    environ = environ_of(front, target)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("", path_info)
    assert environ["REQUEST_URI"] == target


@pytest.mark.parametrize("size", [0, 71_453, long(20_000_000)])
def test_bodies_up_and_down(front, size):
    """Bodies arrive whole: down with and without a length, and there and back."""
    check_bodies(front, size)


@PROTOCOLS
def test_a_chunked_upload_arrives_whole(behind, protocol):
    """lighttpd buffers a chunked upload; Apache refuses such uploads."""
    assert behind("lighttpd", protocol).fetch("/echo", "PUT", iter([b"hello ", b"world"]))[2] == b"hello world"


def test_head_and_statuses(front):
    """HEAD has no body, the app's status is the client's, and the client's connection stays."""
    check_statuses(front)


def test_a_truncated_body_is_seen_as_such(front):
    """The client sees that an app died within a body of known length."""
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        front.fetch("/cut", Connection="close")


@SERVERS
def test_a_client_that_leaves(behind, name):
    """When a client leaves, the app's iterable is closed."""
    app = apps.Streamer(lambda: (b"x" * 65536 for _ in range(2000)))
    connection = behind(name, "uwsgi", app).connect()
    connection.request("GET", "/")
    assert connection.getresponse().read(100_000)
    connection.close()
    assert app.made[0].closed.wait(30)


def test_the_page_serves_on_tcp_too(start_server, fronts):
    page = PAGES["apache"]
    assert page.settings("On TCP")["bind"] == "uwsgi://127.0.0.1:3031"
    port = start_server(site, bind="uwsgi://127.0.0.1:0").address[1]
    apache = fronts.apache(page.block("On TCP", "apache"), {"127.0.0.1:3031": f"127.0.0.1:{port}"})
    assert environ_of(apache, "/a%20b")["PATH_INFO"] == "/a b"


def test_a_large_response_arrives_whole(fronts, start_server):
    """With the page's line for lighttpd's buffer, a large response arrives whole."""
    page = PAGES["lighttpd"]
    start_server(site, bind=f"uwsgi://unix:{fronts.socket}", response_spool_bytes=0)
    block = page.block("uwsgi", "lighttpd") + page.block("Large responses", "lighttpd")
    assert fronts.lighttpd(block, {SOCKET: fronts.socket}).fetch("/pieces?3000000")[::2] == (200, octets(3_000_000))


@SERVERS
@PROTOCOLS
@pytest.mark.parametrize(("target", "path_info"), [("/app/x%20y?z", "/x y"), ("/app/", "/"), ("/app", "")])
def test_a_mount_point(behind, name, protocol, target, path_info):
    """SCRIPT_NAME and PATH_INFO together are the path of the URL."""

    def edit(block):
        if name == "lighttpd":
            return 'scgi.protocol = "uwsgi"\n' * (protocol == "uwsgi") + block
        return block.replace("uwsgi:", f"{protocol.lower()}:")

    environ = environ_of(behind(name, "A mount point", commands=protocol, edit=edit), target)
    assert environ["SCRIPT_NAME"] == "/app"
    assert environ["PATH_INFO"] in (path_info, path_info or "/" * (name == "apache"))  # mod_proxy_uwsgi adds the slash
