"""--static over real sockets: files of every size, to clients of every kind, and no hidden file."""

import pytest
from harness import apps, sidecars
from harness.rules import rule

pytestmark = [pytest.mark.also_inline, pytest.mark.any_parser]

LARGE = bytes(range(256)) * 8192  # 2 MiB
SMALL = b"a { color: red }\n"


@pytest.fixture
def site(tmp_path):
    """Return a folder of files, beside hidden ones."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "app.css").write_bytes(SMALL)
    (site / "app.css.gz").write_bytes(b"zipped")
    (site / "large").write_bytes(LARGE)
    (site / "empty").write_bytes(b"")
    (tmp_path / "secret").write_bytes(b"secret")
    (site / "out").symlink_to("../secret")
    (site / ".env").write_bytes(b"secret")
    return site


@pytest.fixture
def start(start_server, site):
    """Start a server of apps.environ_json, with files."""
    return lambda **settings: start_server(apps.environ_json, **{"static": f"/s={site}", **settings})


@rule(
    "RFC 9110 9.3.1",
    "a GET transfers the selected representation",
    "files of --static, from empty to large, with their length",
)
def test_files_of_any_size_arrive(start, raw_client, reads):
    """Small files are octets of an ordinary response; the kernel sends large files. The connection stays."""
    server = start()
    is_plain = server.url.startswith("http:")
    client = raw_client(server)
    for _ in range(2):
        for name, content in (("app.css", SMALL), ("empty", b""), ("large", LARGE)):
            reply = client.fetch(f"/s/{name}?v=1")
            assert (reply.status, reply.body, reply.framing) == (200, content, "length")
            assert client.fetch(f"/s/{name}", method="HEAD").get("Content-Length") == str(len(content))
    assert client.fetch("/s/nothing").json()["PATH_INFO"] == "/s/nothing"
    assert client.is_quiet()
    server.stop()
    assert (sum(reads) < len(LARGE)) == is_plain


@rule(
    "RFC 9110 13.1.2",
    "If-None-Match that has the tag: 304",
    "304, with the tag and without a body, for files of --static",
)
@rule("RFC 9110 13.1.1", "If-Match without the tag: 412", "412, for files of --static")
@rule("RFC 9110 13.1.3", "If-Modified-Since no earlier than the date: 304", "304, for files of --static")
def test_what_clients_have_stays_unsent(start, raw_client):
    """A client's current file is not sent again."""
    client = raw_client(start())
    first = client.fetch("/s/large")
    for field, status in (
        (f"If-None-Match: {first.get('ETag')}", 304),
        (f"If-Modified-Since: {first.get('Last-Modified')}", 304),
        ('If-Match: "other"', 412),
    ):
        reply = client.fetch("/s/large", field)
        assert reply.status == status and (status == 412 or reply.body == b"")
        assert status == 412 or reply.get("ETag") == first.get("ETag")
    assert client.is_quiet()


@rule(
    "RFC 9110 14.2",
    "the server may answer with the parts asked for",
    "206, with one part or several, for files of --static",
)
@rule("RFC 9110 13.1.5", "parts only if If-Range matches, else the whole", "200 and the whole if it does not")
@rule("RFC 9110 15.5.17", "no part of the file is asked for: 416", "416, with the size in Content-Range")
def test_parts_keep_the_connection_in_sync(start, raw_client):
    """Parts, small and large; then the connection is in sync."""
    client = raw_client(start())
    etag = client.fetch("/s/large").get("ETag")
    reply = client.fetch("/s/large", "Range: bytes=5-9", f"If-Range: {etag}")
    assert (reply.status, reply.body) == (206, LARGE[5:10])
    reply = client.fetch("/s/large", "Range: bytes=100-1000000")
    assert (reply.body, reply.get("Content-Range")) == (LARGE[100:1000001], f"bytes 100-1000000/{len(LARGE)}")
    reply = client.fetch("/s/large", "Range: bytes=0-9,1000-1000000")
    assert reply.status == 206 and LARGE[1000:1000001] in reply.body
    assert client.fetch("/s/large", "Range: bytes=0-9", 'If-Range: "other"').body == LARGE
    reply = client.fetch("/s/large", f"Range: bytes={len(LARGE)}-")
    assert (reply.status, reply.get("Content-Range")) == (416, f"bytes */{len(LARGE)}")
    assert client.is_quiet()


@rule("RFC 9110 15.5.6", "405 names the methods that are allowed", "Allow: GET, HEAD, for files of --static")
def test_files_take_no_other_method(start, raw_client):
    """A file cannot be posted to; the body is read over."""
    client = raw_client(start())
    reply = client.fetch("/s/app.css", method="POST", body=b"x" * 1000)
    assert (reply.status, reply.get("Allow")) == (405, "GET, HEAD")
    assert client.fetch("/s/app.css").body == SMALL


@rule(
    "RFC 9110 12.5.3",
    "a content coding only if Accept-Encoding takes it",
    "a .gz beside a file only then; Vary in any case",
)
def test_compressed_siblings_go_out(start, raw_client):
    """Files compressed beforehand go out unchanged."""
    client = raw_client(start())
    reply = client.fetch("/s/app.css", "Accept-Encoding: gzip")
    assert (reply.body, reply.get("Content-Encoding"), reply.get("Vary")) == (b"zipped", "gzip", "Accept-Encoding")
    assert client.fetch("/s/app.css", "Accept-Encoding: gzip;q=0").body == SMALL


OUTSIDE = [
    "/s/../secret", "/s/%2e%2e/secret", "/s/..%2fsecret", "/s/%2e%2e%2fsecret", "/s/x/../../secret", "/s//../secret",
    "/s/..\\secret", "/s/..%5csecret", "/s/%252e%252e/secret", "/s/.env", "/s/%2eenv", "/s/out", "/s/out/", "/s/./out",
    "/s/app.css%00", "/s/%2e/.env", "/../secret", "/s/;/../secret", "/s/%c0%ae%c0%ae/secret", "http://h/s/../secret",
]  # fmt: skip


@pytest.mark.long_on_pypy
def test_nothing_outside_goes_out(start, raw_client):
    """Outside or hidden files do not go out, whatever the spelling."""
    server = start()
    for target in OUTSIDE:
        reply = raw_client(server).fetch(target)
        assert reply.status in (200, 400, 404) and reply.body != b"secret", target
        assert reply.status != 200 or "PATH_INFO" in reply.json(), target


def test_who_reads_slowly_has_no_thread(start, raw_client, site, way):
    """The only worker serves other clients while one does not read its file."""
    with open(site / "large", "r+b") as file:
        file.truncate(16 << 20)
    server = start(threads=min(way.threads, 1))
    slow = raw_client(server, receive_buffer_bytes=4096)
    slow.request("/s/large")
    assert slow.recv_head().status == 200
    other = raw_client(server)
    assert other.fetch("/s/app.css").body == SMALL and other.fetch("/").status == 200
    assert len(slow.recv_exactly(16 << 20)) == 16 << 20


@pytest.mark.parametrize("limit", [0, 60])
def test_with_what_else_stands_there(start, raw_client, way, limit, tmp_path):
    """Time limits, the access log and files get on."""
    if limit and not way.threads:
        pytest.skip("a time limit needs a thread")
    server = start(
        threads=min(way.threads, 1),  # one thread's lines are in order
        request_seconds=limit,
        access_log=str(tmp_path / "log"),
        access_log_format="%(m)s %(U)s %(s)s %(B)s",
    )
    client = raw_client(server)
    for name in ("app.css", "large"):
        assert client.fetch(f"/s/{name}").status == 200
    server.stop()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [f"GET /s/app.css 200 {len(SMALL)}", f"GET /s/large 200 {len(LARGE)}"]


@pytest.mark.parametrize("protocol", sidecars.PROTOCOLS)
def test_behind_a_front_server(start, raw_client, protocol):
    """A front server gets the same files, in its protocol."""
    server = start(bind=f"{protocol}://127.0.0.1:0")

    def fetch(name, **vars):
        return sidecars.fetch(raw_client(server), protocol, f"/s/{name}", **vars)

    assert fetch("app.css").body == SMALL
    whole = fetch("large")
    assert (whole.status, whole.body) == (200, LARGE)
    part = fetch("large", HTTP_RANGE="bytes=100-1000000")
    assert (part.status, part.body) == (206, LARGE[100:1000001])
    same = fetch("large", HTTP_IF_NONE_MATCH=whole.fields["ETag"])
    assert (same.status, same.body) == (304, b"")
    assert fetch("../secret").body.startswith(b"{")  # the app's


@pytest.mark.parametrize("name", ["app.css", "large"])
def test_files_that_the_app_names(start_server, raw_client, site, name, way):
    """--x-sendfile: a file of any size takes the place of the body; the field does not go out."""

    def app(environ, start_response):
        start_response("200 OK", [("X-Sendfile", f"{site}/{name}"), ("Content-Type", "text/x-mine")])
        return [b"not this"]

    server = start_server(app, x_sendfile=str(site), request_seconds=60 if way.threads else 0)
    client = raw_client(server)
    content = (site / name).read_bytes()
    for _ in range(2):
        reply = client.fetch()
        assert (reply.body, reply.framing, reply.get("X-Sendfile")) == (content, "length", None)
        assert client.fetch("/", "Range: bytes=2-").body == content[2:]
        assert client.fetch("/", method="POST", body=b"x").body == content
        assert client.fetch("/", method="HEAD").get("Content-Length") == str(len(content))
    assert client.is_quiet()


@pytest.mark.parametrize("protocol", sidecars.PROTOCOLS)
def test_files_that_the_app_names_behind_a_front_server(start_server, raw_client, site, protocol):
    """A file named by the app for a front server is sent by aserve where the front server does not."""

    def app(environ, start_response):
        start_response("200 OK", [("X-Accel-Redirect", "/protected/large")])
        return []

    server = start_server(app, x_sendfile=f"/protected={site}", bind=f"{protocol}://127.0.0.1:0")
    reply = sidecars.fetch(raw_client(server), protocol, "/")
    assert reply.body == LARGE and "X-Accel-Redirect" not in reply.fields
