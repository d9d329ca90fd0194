"""Behind a real nginx, with the configurations of docs/nginx.md."""

import base64
import functools
import http.client
import json
import os
import signal
import socket
import sys
import threading

import pytest
from harness import apps
from harness.client import RawClient
from harness.front import Page, check_environ, environ_of, octets, site
from harness.interpreter import first_on_pypy
from harness.load import load

pytestmark = [pytest.mark.checkout, pytest.mark.one_way]

IS_PYPY = sys.implementation.name == "pypy"
PAGE = Page("nginx")
SOCKET = "unix:/run/app/app.sock"
SIZES = [0, 71_453, 20_000_000]
PING = b"\x64\0\0\0"


@pytest.fixture(params=["auto"] if IS_PYPY else ["auto", pytest.param("off", marks=pytest.mark.long)])
def lane(request):
    """With the fast lane, and without."""
    return request.param


@pytest.fixture
def behind(start_server, fronts, lane):
    """Start aserve and nginx as a section of the page says: behind(heading, app=site) -> nginx."""

    def start(heading, app=site, commands=None, changes=None, **settings):
        settings = {**PAGE.settings(commands or heading), "lane": lane, **settings}
        settings["bind"] = settings["bind"].replace("/run/app/app.sock", fronts.socket)
        start_server(app, **settings)
        block = PAGE.block(heading, "nginx")
        return fronts.nginx(block, changes or {SOCKET: f"unix:{fronts.socket}"})

    return start


@pytest.fixture(params=["uwsgi", "SCGI"])
def nginx(request, behind):
    """The site behind nginx, over each protocol."""
    return behind(request.param)


def test_the_environ_has_nginxs_words(nginx):
    environ = check_environ(nginx)
    assert (environ["SERVER_NAME"], environ["REQUEST_SCHEME"]) == ("example.com", "http")
    assert environ["REMOTE_PORT"].isdigit() and environ["HTTP_HOST"].startswith("127.0.0.1")
    assert environ.get("CONTENT_LENGTH", "") in ("", "0")
    status, _, body = nginx.fetch("/a", "POST", b"12345", Content_Type="text/x")
    environ = json.loads(body)
    assert (status, environ["CONTENT_LENGTH"], environ["CONTENT_TYPE"]) == (200, "5", "text/x")
    assert "HTTP_CONTENT_LENGTH" not in environ and "HTTP_CONTENT_TYPE" not in environ


@pytest.mark.long_on_pypy
def test_a_repeated_field_is_joined(nginx):
    """A field repeated by a client is joined, by nginx from 1.23 on, by aserve before."""
    with socket.create_connection(("127.0.0.1", nginx.port), 10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-A: 2\r\nConnection: close\r\n\r\n")
        response = http.client.HTTPResponse(client)
        response.begin()
        assert json.loads(response.read())["HTTP_X_A"] == "1, 2"


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    ("target", "path_info"),
    [
        ("/%2541", "/%41"),
        ("/%25%32%66", "/%2f"),
        ("/a%20b", "/a b"),
        ("/%C3%A9", "/\xc3\xa9"),
        ("/a/../b//c", "/b/c"),
        ("/a?b=%2541", "/a"),
    ],
)
def test_paths_are_decoded_once(nginx, target, path_info):
    """PATH_INFO is nginx's form of the target, and REQUEST_URI the target."""
    environ = environ_of(nginx, target)
    assert environ["PATH_INFO"] == path_info and environ["REQUEST_URI"] == target
    assert environ["QUERY_STRING"] == target.partition("?")[2]


@pytest.mark.parametrize("size", first_on_pypy(SIZES))
def test_bodies_up_and_down(nginx, size):
    """Bodies arrive whole: up, down with and without a length, and there and back."""
    data = octets(size)
    status, _, body = nginx.fetch("/count", "POST", data)
    total = sum(data) & 0xFFFFFFFF
    assert (status, body) == (200, b"%d %d" % (size, total))
    for target in ("/octets", "/pieces"):
        status, fields, body = nginx.fetch(f"{target}?{size}")
        assert status == 200 and body == data
        assert target == "/pieces" or fields["Content-Length"] == str(size)
    status, _, body = nginx.fetch("/echo", "PUT", data)
    assert status == 200 and body == data


@pytest.mark.long_on_pypy
def test_head_has_fields_and_no_body(nginx):
    """HEAD has the fields of GET and no body; the connection goes on."""
    connection = nginx.connect()
    for target in ("/octets?5000", "/pieces?5000"):
        connection.request("HEAD", target)
        response = connection.getresponse()
        assert response.status == 200 and response.read() == b""
        connection.request("GET", target)
        assert connection.getresponse().read() == octets(5000)
    connection.close()


def test_keep_alive_towards_the_client(nginx):
    """One client's connection carries many requests, each over its own connection to aserve."""
    connection = nginx.connect()
    connection.connect()
    own = connection.sock.getsockname()
    for number in range(5 if IS_PYPY else 50):
        connection.request("POST", "/echo", body=b"%d" % number)
        response = connection.getresponse()
        assert response.read() == b"%d" % number and response.getheader("Connection") == "keep-alive"
        assert connection.sock.getsockname() == own
    connection.close()


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("status", [201, 204, 304, 404, 503])
def test_a_status_reaches_the_client(nginx, status):
    assert nginx.fetch(f"/status?{status}")[0] == status


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_app_that_fails(nginx, method):
    """A failure before the head is a 500 of ours, not a 502 of nginx's."""
    status, _, body = nginx.fetch("/fail", method)
    assert status == 500 and (b"its log says why" in body) is (method == "GET")


@pytest.mark.long_on_pypy
def test_a_body_over_the_limit(behind):
    """Our limit answers 413 through nginx, however much is still on its way."""
    nginx = behind("uwsgi", max_body_bytes="100k")
    for size in (100 << 10, (100 << 10) + 1, 20_000_000):
        assert nginx.fetch("/count", "POST", octets(size))[0] == (200 if size == 100 << 10 else 413)


def test_a_client_that_leaves(start_server, fronts, lane):
    """When nginx's client leaves, nginx leaves us, and the app's iterable is closed."""
    app = apps.Streamer(lambda: iter(lambda: b"x" * 65536, None))
    server = start_server(app, bind=f"uwsgi://unix:{fronts.socket}", lane=lane)
    nginx = fronts.nginx(PAGE.block("uwsgi", "nginx"), {SOCKET: f"unix:{fronts.socket}"})
    with socket.create_connection(("127.0.0.1", nginx.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(100_000)
    (chunks,) = app.made
    assert chunks.closed.wait(30) and chunks.close_count == 1
    server.wait_until_idle()


def cut_short(nginx, target):
    """Tell whether a client sees a response as cut, by HTTP/1.1's framing."""
    connection = nginx.connect()
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        assert response.status == 200
        response.read()
    except (http.client.IncompleteRead, ConnectionError):
        return True
    finally:
        connection.close()
    return False


def test_truncation_with_a_length(nginx):
    """The client sees that an app died within a body of known length."""
    assert cut_short(nginx, "/cut")
    assert not cut_short(nginx, "/octets?5000")


def test_truncation_without_a_length(start_server, fronts, lane):
    """On TCP the client sees the cut without a length, too: our connection is reset."""
    port = start_server(site, bind="uwsgi://127.0.0.1:0", lane=lane).address[1]
    nginx = fronts.nginx(PAGE.block("On TCP", "nginx"), {"127.0.0.1:3031": f"127.0.0.1:{port}"})
    assert PAGE.settings("On TCP")["bind"] == "uwsgi://127.0.0.1:3031"
    assert cut_short(nginx, "/cut-pieces") and cut_short(nginx, "/cut")
    assert not cut_short(nginx, "/pieces?5000")


# The page's other sections


def test_the_mode_lets_in_the_named_group(behind, fronts):
    settings = PAGE.settings("Who may connect")
    assert settings.pop("unix_group") == "www-data"
    nginx = behind("uwsgi", **settings)
    assert os.stat(fronts.socket).st_mode & 0o777 == 0o660
    # As root, nginx works as nobody, who is not in our group.
    assert nginx.fetch("/")[0] == (502 if os.getuid() == 0 else 200)


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    ("target", "script_name", "path_info"),
    [("/app/x%20y?z", "/app", "/x y"), ("/app", "/app", ""), ("/app/", "/app", "/")],
)
def test_a_mount_point(behind, target, script_name, path_info):
    """modifier1 30: nginx's mount in PATH_INFO is taken out."""
    nginx = behind("A mount point", commands="uwsgi")
    environ = environ_of(nginx, target)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == (script_name, path_info)


def test_a_mount_point_over_scgi(behind, fronts):
    """scgi_params have no PATH_INFO, so SCRIPT_NAME is enough."""
    assert "`scgi_param SCRIPT_NAME /app;`" in PAGE.text
    nginx = behind(
        "SCGI", changes={SOCKET: f"unix:{fronts.socket}", "scgi_params;": "scgi_params;\n scgi_param SCRIPT_NAME /app;"}
    )
    environ = environ_of(nginx, "/app/x?y")
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/app", "/x")


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("body", [None, b"12345"], ids=["GET", "POST"])
def test_names_that_are_listed_twice_over_scgi(behind, fronts, body):
    """A copy of uwsgi_params lists CONTENT_LENGTH and SCGI beside nginx's own: served; of other names the last wins."""
    twice = "".join(
        f" scgi_param {name} {value};\n"
        for name, value in [
            ("CONTENT_LENGTH", "$content_length"),
            ("SCGI", "1"),
            ("PATH_INFO", "$document_uri"),
            ("REQUEST_METHOD", "$request_method"),
            ("TENANT", "red"),
            ("TENANT", "blue"),
        ]
    )
    nginx = behind("SCGI", changes={SOCKET: f"unix:{fronts.socket}", "scgi_params;": f"scgi_params;\n{twice}"})
    status, _, answer = nginx.fetch("/a", "POST" if body else "GET", body)
    assert status == 200
    environ = json.loads(answer)
    assert (environ["CONTENT_LENGTH"], environ["SCGI"]) == (str(len(body or b"")), "1")
    assert (environ["TENANT"], environ["PATH_INFO"]) == ("blue", "/a")


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("protocol", ["uwsgi", "SCGI"])
def test_more_fields_than_the_limit(behind, protocol):
    """The client learns of a too large head, and the name of the limit: no 502."""
    nginx = behind(protocol)
    status, _, body = nginx.fetch("/", **{f"X_{number}": "" for number in range(300)})
    assert status == 431 and b"--max-fields" in body
    status, _, body = nginx.fetch("/count", "POST", octets(200_000), **{f"X_{number}": "" for number in range(300)})
    assert status == 431 and b"--max-fields" in body


CLAIMS = {"X_Forwarded_Proto": "https", "X_Forwarded_For": "203.0.113.9"}


def test_fields_that_a_client_sends(nginx):
    """nginx passes on a client's claims in fields; nginx's own words are right."""
    environ = environ_of(nginx, "/", **CLAIMS)
    assert (environ["HTTP_X_FORWARDED_PROTO"], environ["HTTP_X_FORWARDED_FOR"]) == ("https", "203.0.113.9")
    assert (environ["wsgi.url_scheme"], environ["REMOTE_ADDR"]) == ("http", "127.0.0.1")


def test_fields_that_nginx_overwrites(behind):
    """The app has nginx's scheme, and nginx's word on the peer behind the client's."""
    environ = environ_of(behind("Fields that your app reads", commands="uwsgi"), "/", **CLAIMS)
    assert environ["HTTP_X_FORWARDED_PROTO"] == "http"
    assert environ["HTTP_X_FORWARDED_FOR"] == "203.0.113.9, 127.0.0.1"


def test_variables_of_the_user_reach_the_environ(behind, fronts):
    members = fronts.folder / "members"
    members.write_text("ada:{PLAIN}lovelace\n")
    changes = {
        SOCKET: f"unix:{fronts.socket}",
        "/etc/nginx/members": str(members),
        "UWSGI_SCHEME $scheme": "UWSGI_SCHEME https",
    }
    nginx = behind("Variables of your own", commands="uwsgi", changes=changes)
    assert nginx.fetch("/")[0] == 401
    login = base64.b64encode(b"ada:lovelace").decode()
    environ = environ_of(nginx, "/", Authorization=f"Basic {login}")
    assert environ["REMOTE_USER"] == "ada" and environ["TENANT"] == "blue"
    assert environ["wsgi.url_scheme"] == "https" and environ["REQUEST_SCHEME"] == "http"


def test_nginx_sends_a_file_of_the_app(behind, fronts):
    """X-Accel-Redirect: nginx sends the file in place of the app's response."""
    (fronts.folder / "files").mkdir()
    (fronts.folder / "files" / "a.txt").write_bytes(octets(100_000))
    changes = {SOCKET: f"unix:{fronts.socket}", "/srv/app/files/": f"{fronts.folder}/files/"}
    nginx = behind("Files", commands="uwsgi", changes=changes)
    status, fields, body = nginx.fetch("/accel?a.txt")
    assert status == 200 and body == octets(100_000) and fields["Content-Type"] == "text/plain"
    assert nginx.fetch("/accel?none")[0] == 404 and nginx.fetch("/files/a.txt")[0] == 404


@pytest.mark.long_on_pypy
def test_a_streamed_upload_is_read_as_it_comes(behind):
    """uwsgi_request_buffering off and --body stream: the app reads an unfinished body."""
    first, go_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        beginning = environ["wsgi.input"].read(5)
        first.set()
        assert go_on.wait(30)
        data = beginning + environ["wsgi.input"].read()
        start_response("200 OK", apps.PLAIN)
        return [data]

    nginx = behind("Large and slow uploads", app)
    data = octets(71_453)
    with socket.create_connection(("127.0.0.1", nginx.port), 10) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 71453\r\nConnection: close\r\n\r\n" + data[:10])
        assert first.wait(30)
        go_on.set()
        client.sendall(data[10:])
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status == 200 and response.read() == data
    large = octets(20_000_000)
    assert nginx.fetch("/", "POST", large)[2] == large


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("is_told", [False, True], ids=["as it comes", "with its length"])
def test_streamed_uploads_over_scgi(behind, fronts, is_told):
    """nginx announces no body with scgi_request_buffering off: the answer names the missing line, and with the line the whole body arrives."""
    line = "scgi_param CONTENT_LENGTH $content_length;"
    assert f"`{line}`" in PAGE.text
    changes = {"scgi_params;": f"scgi_params;\n scgi_request_buffering off;\n {line if is_told else ''}"}
    nginx = behind("SCGI", changes={SOCKET: f"unix:{fronts.socket}", **changes})
    status, _, answer = nginx.fetch("/count", "POST", octets(200_000))
    if is_told:
        assert status == 200 and answer.startswith(b"200000 ")
    else:
        assert status == 400 and line[:-1].encode() in answer
    assert nginx.fetch("/count")[:1] == (200,)


def test_a_streamed_upload_that_nobody_reads(behind):
    """An app's answer without reading is heard; the rest of the body is dropped."""
    nginx = behind("Large and slow uploads", apps.no_reading)
    for size in (0, 71_453) if IS_PYPY else (0, 71_453, 20_000_000):
        status, _, body = nginx.fetch("/", "POST", octets(size))
        assert (status, body) == (200, b"unread")


# A restart


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("protocol", ["uwsgi"] if IS_PYPY else ["uwsgi", "scgi"])
def test_a_restart_loses_nothing(start_process, raw_client, fronts, protocol, lane):
    """SIGTERM to one of two under load: the server tells its drain, finishes all, and no request fails."""
    sockets = [str(fronts.folder / name) for name in ("one.sock", "two.sock")]
    processes = [start_process("site", "--bind", f"{protocol}://unix:{path}", "--lane", lane) for path in sockets]
    changes = {f"unix:/run/app/{os.path.basename(path)}": f"unix:{path}" for path in sockets}
    if protocol == "scgi":
        changes["uwsgi_pass"] = "scgi_pass"
    block = PAGE.block("Two instances, and a restart without a lost request", "nginx")
    nginx = fronts.nginx(block.replace("uwsgi_params", f"{protocol}_params"), changes)
    connect, kept = functools.partial(RawClient, ("127.0.0.1", nginx.port)), ("kept",) * 4
    # nginx does not send a POST twice.
    with load(connect, kinds=kept) as asked, load(connect, "/echo", kept, body=b"x" * 100) as posted:
        for each in (asked, posted):
            each.go_on(50, 20)
        first = processes[0]
        if protocol == "uwsgi":
            monitor = raw_client(sockets[0])
            first.signal(signal.SIGTERM)
            first.wait_for_log("draining")
            monitor.send(PING)
            assert monitor.recv_to_end() == b"\x64\x08\0\1draining"
        else:
            first.signal(signal.SIGTERM)
        assert first.wait() == 0 and not os.path.exists(sockets[0])
        for each in (asked, posted):
            each.go_on(50, 20)
    assert "Traceback" not in first.log
