"""Files named by the app in place of a body."""

import sys

import pytest
from harness import apps
from harness.calling import call
from harness.descriptors import none_stays_open

from aserve.features import Config
from aserve.features.files.x_sendfile import XSendfile

pytestmark = pytest.mark.long_on_pypy

PAGE = b"<p>a page</p>\n"


@pytest.fixture
def media(tmp_path):
    """Return a folder of files, beside a forbidden one."""
    media = tmp_path / "media"
    (media / "sub").mkdir(parents=True)
    (media / "page.html").write_bytes(PAGE)
    (media / "sub" / ".a b").write_bytes(b"hidden")
    (tmp_path / "secret").write_bytes(b"secret")
    (media / "out").symlink_to("../secret")
    return media


class Body:
    """An app's body beside the name of a file."""

    def __init__(self):
        self.closed = 0

    def __iter__(self):
        return iter([b"not this"])

    def close(self):
        self.closed += 1


@pytest.fixture
def fetch(media):
    """Return a function that asks an app that names a file; `setting` is --x-sendfile's."""

    def fetch(name, value, *fields, status="200 OK", method="GET", setting=None, **environ):
        body = Body()

        def app(environ, start_response):
            start_response(status, [(name, value), ("Content-Length", "8"), *fields])(b"nor this")
            return body

        with none_stays_open():
            answer = call(XSendfile(app, Config(x_sendfile=setting or [str(media)])), "/", method, **environ)
        assert body.closed == 1 and not (b"this" in answer.body and name.lower() == "x-sendfile")
        return answer

    return fetch


def test_a_file_takes_the_place_of_the_body(fetch, media):
    """The file takes the place of the body; the app's fields stay, without those of its body."""
    answer = fetch("X-Sendfile", f"{media}/page.html", ("Set-Cookie", "a=b"), ("Content-Type", "text/x-mine"))
    assert (answer.status, answer.body) == ("200 OK", PAGE)
    assert [name for name, _ in answer.fields] == [
        "Set-Cookie", "Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Content-Length",
    ]  # fmt: skip
    assert (answer.get("Content-Type"), answer.get("Content-Length")) == ("text/x-mine", str(len(PAGE)))


def test_a_redirect_names_a_file_by_prefix(fetch, media):
    """A prefix stands for a folder; its path is escaped as a URL's, and nginx's other fields are removed."""
    answer = fetch(
        "X-Accel-Redirect", "/protected/sub/%2Ea%20b?x=1", ("X-Accel-Buffering", "no"), setting=[f"/protected={media}"]
    )
    assert (answer.body, answer.get("X-Accel-Buffering")) == (b"hidden", None)
    assert fetch("X-Sendfile", f"{media}/page.html", setting=[f"/protected={media}"]).body == PAGE
    assert (
        fetch("x-accel-redirect", "/page.html", setting=[f"/={media}"]).get("Content-Type")
        == "text/html; charset=utf-8"
    )


def test_a_redirect_for_a_front_server(fetch):
    """Without a prefix the field is not ours, and goes to nginx."""
    answer = fetch("X-Accel-Redirect", "/protected/a")
    assert answer.get("X-Accel-Redirect") == "/protected/a" and answer.body == b"nor thisnot this"


@pytest.mark.parametrize(
    "value",
    [
        "{}/gone", "{}/sub", "{}", "{}/", "{}/out", "{}/../secret", "{}2/x", "{}/a\0b", "/etc/passwd", "page.html", "", "/",
    ],
)  # fmt: skip
def test_what_may_not_be_sent(fetch, media, caplog, value):
    """A forbidden file is 404 to the client; the log has the app's word."""
    answer = fetch("X-Sendfile", value.format(media))
    assert (answer.status, answer.body) == ("404 Not Found", b"404: there is no such file\n")
    (line,) = caplog.messages
    assert line.startswith("--x-sendfile: x-sendfile '")


def test_links_on_the_way_are_resolved(fetch, media, tmp_path):
    """An app may have resolved links on the way to the folder; links out need a setting."""
    (tmp_path / "current").symlink_to("media")
    assert fetch("X-Sendfile", f"{media}/page.html", setting=[str(tmp_path / "current")]).body == PAGE
    assert fetch("X-Sendfile", f"{tmp_path}/current/page.html", setting=[str(tmp_path / "current")]).body == PAGE
    assert fetch("X-Sendfile", f"{tmp_path}/x/../media/./page.html").body == PAGE
    app = XSendfile(naming(f"{media}/out"), Config(x_sendfile=str(media), static_symlinks=True))
    assert call(app).body == b"secret"


def naming(value):
    """Return an app that names a file."""

    def app(environ, start_response):
        start_response("200 OK", [("X-Sendfile", value)])
        return []

    return app


def test_several_folders_are_looked_into(media, tmp_path):
    app = XSendfile(
        naming(f"{media}/page.html"), Config(x_sendfile=[str(tmp_path / "other"), f"/p={media}", str(media)])
    )
    assert call(app).body == PAGE


def test_conditions_and_ranges(fetch, media):
    """Conditions hold as for any file; by the app's own validators, if given."""
    path = f"{media}/page.html"
    own = fetch("X-Sendfile", path)
    assert fetch("X-Sendfile", path, HTTP_IF_NONE_MATCH=own.get("ETag")).code == 304
    assert fetch("X-Sendfile", path, HTTP_RANGE="bytes=3-5").body == PAGE[3:6]
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    said = [("ETag", 'W/"app"'), ("Last-Modified", date)]
    answer = fetch("X-Sendfile", path, *said)
    assert (answer.get("ETag"), answer.get("Last-Modified")) == ('W/"app"', date)
    assert fetch("X-Sendfile", path, *said, HTTP_IF_NONE_MATCH='"app"').code == 304
    assert fetch("X-Sendfile", path, ("ETag", "unquoted")).get("ETag") == own.get("ETag")


@pytest.mark.parametrize(("status", "method"), [("404 Not Found", "GET"), ("200 OK", "POST"), ("201 Created", "PUT")])
def test_other_responses_have_no_conditions(fetch, media, status, method):
    """An error page, or the answer to a POST, has neither conditions nor parts."""
    answer = fetch(
        "X-Sendfile", f"{media}/page.html", status=status, method=method, HTTP_RANGE="bytes=0-1", HTTP_IF_NONE_MATCH="*"
    )
    assert (answer.status, answer.body, answer.get("Content-Length")) == (status, PAGE, str(len(PAGE)))


def test_a_head_has_the_files_length(fetch, media):
    answer = fetch("X-Sendfile", f"{media}/page.html", method="HEAD")
    assert (answer.body, answer.get("Content-Length")) == (b"", str(len(PAGE)))


def test_a_generator_may_name_a_file(media):
    """An app that starts with its first item may name a file, too."""

    def app(environ, start_response):
        start_response("200 OK", [("X-Sendfile", f"{media}/page.html")])
        yield b""
        raise AssertionError("not closed")

    assert call(XSendfile(app, Config(x_sendfile=str(media)))).body == PAGE


@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator, apps.several_chunks, apps.tuple_of_chunks])
def test_what_names_no_file(media, app):
    """Such a response is the app's, whenever it starts."""
    settings = Config(x_sendfile=str(media))
    assert call(XSendfile(app, settings))[:3] == call(app)[:3]
    if app is apps.hello:
        assert type(call(XSendfile(app, settings)).iterable) is list


def test_a_generator_that_ends_or_fails(media):
    """The generator is closed, and its error is the server's to answer."""
    closed = []

    class App:
        def __init__(self, environ, start_response):
            pass

        def __iter__(self):
            raise ZeroDivisionError
            yield b""

        def close(self):
            closed.append(self)

    with pytest.raises(ZeroDivisionError):
        call(XSendfile(App, Config(x_sendfile=str(media))))
    assert len(closed) == 1

    class Late:
        def __init__(self, environ, start_response):
            self.start = start_response

        def __iter__(self):
            self.start("200 OK", [])
            yield b"late"

    assert call(XSendfile(Late, Config(x_sendfile=str(media)))).body == b"late"

    def empty(environ, start_response):
        start_response("200 OK", [])
        return
        yield b""

    assert call(XSendfile(empty, Config(x_sendfile=str(media)))).body == b""


def test_an_error_after_the_start(media):
    """exc_info goes to the server; wrong fields too, for the server's message."""
    seen = []

    def app(environ, start_response):
        start_response("200 OK", [("X-Sendfile", "/x")])
        start_response("500 Oh", [], ("kind", "error", None))
        start_response("200 OK", None)
        return []

    assert XSendfile(app, Config(x_sendfile=str(media)))({}, lambda *arguments: seen.append(arguments)) == []
    assert seen == [("500 Oh", [], ("kind", "error", None)), ("200 OK", None)]


def test_a_start_that_fails(media):
    """The file is closed all the same."""
    for method in ("GET", "POST"):
        with none_stays_open(), pytest.raises(ZeroDivisionError):
            XSendfile(naming(f"{media}/page.html"), Config(x_sendfile=str(media)))(
                {"REQUEST_METHOD": method}, lambda *_: 1 / 0
            )


@pytest.mark.parametrize("is_named_first", [False, True])
def test_named_after_an_error(media, is_named_first):
    """PEP 3333: a second start_response with exc_info takes the place of the first, and may name a file."""
    first = [("X-Sendfile", str(media / "gone"))] if is_named_first else [("Content-Type", "text/plain")]

    def app(environ, start_response):
        start_response("200 OK", first)
        try:
            raise ValueError
        except ValueError:
            start_response("404 Not Found", [("X-Sendfile", str(media / "page.html"))], sys.exc_info())
        return [b"not this"]

    answer = call(XSendfile(app, Config(x_sendfile=[str(media)])), "/")
    assert (answer.status, answer.body) == ("404 Not Found", PAGE)
