"""The file of a path, and the requests left to the app."""

import gzip

import pytest
from harness import apps
from harness.calling import call
from harness.descriptors import none_stays_open

from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.features.files import Static
from aserve.features.files.static import StaticFiles

pytestmark = pytest.mark.long_on_pypy

CSS = b"a { color: red }\n"


@pytest.fixture
def site(tmp_path):
    """Return a folder of a site's files."""
    site = tmp_path / "site"
    for name, content in {
        "app.css": CSS,
        "app.css.gz": gzip.compress(CSS, mtime=0),
        "app.css.br": b"brotli",
        "photo.png": b"png",
        "photo.png.gz": b"smaller?",
        "index.html": b"home",
        "docs/index.html": b"docs",
        "docs/a b.txt": b"spaces",
        "empty/nothing.txt": b"",
        ".env": b"secret",
        ".git/config": b"secret",
        ".well-known/security.txt": b"contact",
        "folder.html/index.htm": b"other index",
        "a\\b": b"backslash",
        "\u00e9.txt": b"accent",
    }.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret").write_bytes(b"secret")
    return site


@pytest.fixture
def fetch(site):
    """Return a function that asks an app behind --static /s=SITE; other settings may be given."""

    def fetch(path, method="GET", *, settings=None, **environ):
        config = Config(**{"static": f"/s={site}", **(settings or {})})
        return call(StaticFiles(apps.hello, config), path, method, **environ)

    return fetch


def is_apps(answer):
    return answer.body == b"hello\n"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/s/app.css", CSS),
        ("/s/photo.png", b"png"),
        ("/s/", b"home"),
        ("/s/docs/", b"docs"),
        ("/s/docs/index.html", b"docs"),
        ("/s/docs/a b.txt", b"spaces"),
        ("/s/empty/nothing.txt", b""),
        ("/s/.well-known/security.txt", b"contact"),
        ("/s/\u00c3\u00a9.txt", b"accent"),  # its octets, by PEP 3333
        ("/s/app.css.gz", gzip.compress(CSS, mtime=0)),
    ],
)
def test_files_are_found_by_path(fetch, path, body):
    """A path stands for the file of its name, a path with a last slash for that folder's index."""
    answer = fetch(path)
    assert answer.code == 200 and (answer.body == body or gzip.decompress(answer.body) == CSS)


@pytest.mark.parametrize(
    "path",
    [
        "/", "*", "", "/static/app.css", "/staticity", "/s2/app.css", "/s/no", "/s/app.css/", "/s/app.css/x", "/s/empty/", "/s/empty",
        "/s/folder.html/",
        "/s/.env", "/s/.git/config", "/s/docs/../.env", "/s/.well-known", "/s/.well-known/", "/s/.well-knownish",
        "/s/../secret", "/s/docs/../../secret", "/s/..", "/s/.", "/s/./app.css", "/s//app.css", "//s/app.css", "/s//etc/passwd",
        "/s/a\\b", "/s/..\\secret", "/s/app.css\0", "/s/app.css\0.png", "/s/C:/Windows/System.ini", "/s" + "/blah" * 2000,
        "/s/\u2026".encode().decode("latin-1"),
    ],
)  # fmt: skip
def test_what_is_the_apps(fetch, path):
    """Paths without a public file are answered by the app, in its own style."""
    assert is_apps(fetch(path))


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "PUT"])
def test_methods_other_than_get_and_head_are_refused(fetch, method):
    """Files are only read; where there is none, any method is the app's."""
    answer = fetch("/s/app.css", method)
    assert (answer.status, answer.get("Allow")) == ("405 Method Not Allowed", "GET, HEAD")
    for path in ("/s/no", "/s/", "/s/docs", "/s/docs/"):
        assert is_apps(fetch(path, method))


def test_head_has_no_body(fetch):
    answer = fetch("/s/photo.png", "HEAD")
    assert (answer.code, answer.body, answer.get("Content-Length")) == (200, b"", "3")


def test_links_out_are_followed_if_asked(fetch, site):
    (site / "link.txt").symlink_to("../secret")
    assert is_apps(fetch("/s/link.txt"))
    assert fetch("/s/link.txt", settings={"static_symlinks": True}).body == b"secret"


@pytest.mark.parametrize(
    ("path", "query", "script_name", "location"),
    [
        ("/s", "", "", "/s/"),
        ("/s/docs", "a=%20b", "", "/s/docs/?a=%20b"),
        ("/s/docs", "", "/app", "/app/s/docs/"),
    ],
)
def test_folders_with_an_index_are_redirected(fetch, path, query, script_name, location):
    answer = fetch(path, QUERY_STRING=query, SCRIPT_NAME=script_name)
    assert (answer.status, answer.get("Location")) == ("302 Found", location)


def test_folders_with_names_of_any_kind(fetch, site):
    """Characters not allowed in a URL are escaped."""
    (site / "\u00e9 ?").mkdir()
    (site / "\u00e9 ?" / "index.html").write_bytes(b"")
    assert fetch("/s/\u00c3\u00a9 ?").get("Location") == "/s/%C3%A9%20%3F/"


def test_index_names_are_tried_in_order(fetch, site):
    """The first present name is taken; without a name none. A folder is no index."""
    names = {"static_index": "index.htm index.html"}
    assert fetch("/s/folder.html/", settings=names).body == b"other index"
    assert fetch("/s/docs/", settings=names).body == b"docs"
    assert is_apps(fetch("/s/docs/", settings={"static_index": ""})) and is_apps(
        fetch("/s/docs", settings={"static_index": ""})
    )
    (site / "empty" / "index.html").mkdir()
    assert is_apps(fetch("/s/empty/")) and is_apps(fetch("/s/empty"))


def test_several_folders_are_tried_by_prefix(fetch, site, tmp_path):
    """The longest prefix comes first; of one prefix, in the given order. A file missing in one folder may be in another."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "more.txt").write_bytes(b"more")
    (tmp_path / "more" / "app.css").write_bytes(b"other")
    settings = {"static": [f"/={site}", f"/docs={tmp_path / 'more'}", f"/={tmp_path / 'more'}"]}
    for path, body in {
        "/app.css": CSS, "/more.txt": b"more", "/docs/more.txt": b"more", "/docs/app.css": b"other", "/docs/a b.txt": b"spaces",
        "/": b"home", "/no": b"hello\n",
    }.items():  # fmt: skip
        assert fetch(path, settings=settings).body == body, path


def test_one_file_may_have_its_path(fetch, site):
    """A path may stand for one file; its type is by the file's name."""
    settings = {"static": f"/favicon.ico={site / 'photo.png'}"}
    answer = fetch("/favicon.ico", settings=settings)
    assert (answer.body, answer.get("Content-Type")) == (b"png", "image/png")
    assert is_apps(fetch("/favicon.ico/", settings=settings)) and is_apps(fetch("/favicon.ico/x", settings=settings))


@pytest.mark.parametrize(
    ("accepted", "coding", "body"),
    [
        ("gzip, deflate, br, zstd", "br", b"brotli"),
        ("br;q=0.5, gzip", "gzip", gzip.compress(CSS, mtime=0)),
        ("zstd", None, CSS),
        ("zstd, gzip;q=0.1", "gzip", gzip.compress(CSS, mtime=0)),
        ("identity", None, CSS),
        ("", None, CSS),
    ],
)
def test_siblings_go_to_clients_that_take_them(fetch, accepted, coding, body):
    """A compressed sibling goes to clients that take its coding, as a representation with its own tag."""
    answer = fetch("/s/app.css", HTTP_ACCEPT_ENCODING=accepted)
    assert answer.get("Content-Encoding") == coding and answer.get("Vary") == "Accept-Encoding"
    assert answer.get("Content-Type") == "text/css; charset=utf-8"
    assert len(answer.body) == len(body) and (coding == "gzip" or answer.body == body)
    assert (answer.get("ETag") == fetch("/s/app.css").get("ETag")) == (coding is None)
    assert fetch("/s/app.css", HTTP_ACCEPT_ENCODING=accepted, HTTP_IF_NONE_MATCH=answer.get("ETag")).code == 304


def test_siblings_of_what_is_compressed(fetch):
    """An image's siblings are not looked for."""
    answer = fetch("/s/photo.png", HTTP_ACCEPT_ENCODING="gzip")
    assert answer.body == b"png" and answer.get("Vary") is None


def test_a_range_of_a_sibling(fetch):
    """Parts are of the representation, as compressed."""
    answer = fetch("/s/app.css", HTTP_ACCEPT_ENCODING="br", HTTP_RANGE="bytes=1-2")
    assert (answer.code, answer.body, answer.get("Content-Range")) == (206, b"ro", "bytes 1-2/6")


def test_expiry_follows_the_first_pattern(fetch, site):
    """The first matching pattern counts; without one, clients ask each time."""
    (site / "app.0123456789ab.css").write_bytes(b"")
    rules = {"static_expires": [r"\.[0-9a-f]{12}\. immutable", r"^/s/docs/ 10m", "1h"]}
    for path, settings, expected in (
        ("/s/app.css", {}, "no-cache"),
        ("/s/app.0123456789ab.css", rules, "max-age=31536000, immutable"),
        ("/s/docs/", rules, "max-age=600"),
        ("/s/app.css", rules, "max-age=3600"),
        ("/s/app.css", {"static_expires": "^/x 5m"}, "no-cache"),
    ):
        assert fetch(path, settings=settings).get("Cache-Control") == expected


def test_added_fields_take_the_place_of_ours(fetch, site):
    """Of one name the first with a matching pattern counts; it takes the place of ours. A type of text has siblings."""
    (site / "map.foo").write_bytes(b"map")
    (site / "map.foo.gz").write_bytes(b"zipped")
    settings = {
        "static_fields": [
            r"\.foo$ content-type: text/x-foo",
            "Content-Type: image/x-all",
            "Access-Control-Allow-Origin: *",
            r"\.foo$ ACCESS-CONTROL-ALLOW-ORIGIN: null",
            "^/t/ X-No: 1",
            "^/s/map Cache-Control: public, max-age=5",
        ],
        "static_expires": "1h",
    }
    answer = fetch("/s/map.foo", settings=settings, HTTP_ACCEPT_ENCODING="gzip")
    assert answer.body == b"zipped"
    assert answer.fields[:3] == [
        ("content-type", "text/x-foo"), ("Cache-Control", "public, max-age=5"), ("Access-Control-Allow-Origin", "*"),
    ]  # fmt: skip
    again = fetch("/s/map.foo", settings=settings, HTTP_IF_NONE_MATCH="*")
    assert (again.code, again.get("Access-Control-Allow-Origin"), again.get("Content-Type")) == (304, "*", None)
    other = fetch("/s/photo.png", settings=settings)
    assert (other.get("Content-Type"), other.get("Cache-Control"), other.get("X-No")) == (
        "image/x-all",
        "max-age=3600",
        None,
    )
    assert fetch("/s/no", settings=settings).get("Access-Control-Allow-Origin") is None


def test_a_folder_that_is_not_there(tmp_path, caplog):
    """The log says so once at the start, and in no worker; a folder made later is served."""
    config = Config(static=f"/s={tmp_path}/later")
    app = StaticFiles(apps.hello, config)
    assert caplog.messages == []
    for event in set(Life) - {Life.RELOADS}:
        Static(config).on_life(event, LifeContext(None))
    said = f"--static: {tmp_path}/later does not exist; until it does, its requests go to the app"
    assert caplog.messages == [said, said]  # of --check, and of a start
    Static(Config(static=[f"/{name}={tmp_path}/{name}" for name in "ab"])).on_life(Life.RELOADS, LifeContext(None))
    assert caplog.messages[2:] == [
        f"--static: {tmp_path}/a, {tmp_path}/b do not exist; until they do, their requests go to the app"
    ]
    assert is_apps(call(app, "/s/a.txt"))
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a.txt").write_bytes(b"a")
    assert call(app, "/s/a.txt").body == b"a"


def test_nothing_stays_open(fetch):
    """Whatever is answered."""
    with none_stays_open():
        for path in ("/s/app.css", "/s/docs", "/s/docs/", "/s/no", "/s/folder.html/", "/s/.env"):
            for method in ("GET", "HEAD", "POST"):
                fetch(path, method, HTTP_ACCEPT_ENCODING="gzip, br")
