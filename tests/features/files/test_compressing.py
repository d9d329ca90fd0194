"""Which responses are compressed, and their fields."""

import gzip
import random
import zlib

import pytest
from harness import apps
from harness.calling import call

from aserve.core.errors import AppError
from aserve.features import Config
from aserve.features.files.compressing import Compressing

PAGE = b"<p>a page of text</p>\n" * 200
HTML = ("Content-Type", "text/html; charset=utf-8")
ACCEPTED = {"HTTP_ACCEPT_ENCODING": "gzip"}


def compressing(app, **settings):
    return Compressing(app, Config(compress=True, **settings))


def fetch(body, *fields, status="200 OK", method="GET", **environ):
    """Ask an app for a body: octets or an iterable."""

    def app(environ, start_response):
        start_response(status, list(fields))
        return [body] if isinstance(body, bytes) else body

    return call(compressing(app), "/", method, **{**ACCEPTED, **environ})


def test_a_page_becomes_shorter():
    """The body is fewer octets, with a new length; caches hear of the dependence."""
    answer = fetch(
        PAGE, HTML, ("Content-Length", str(len(PAGE))), ("ETag", '"a"'), ("Accept-Ranges", "bytes"), ("X-A", "b")
    )
    assert gzip.decompress(answer.body) == PAGE and type(answer.iterable) is list
    assert answer.fields == [
        HTML, ("ETag", 'W/"a"'), ("X-A", "b"), ("Vary", "Accept-Encoding"), ("Content-Encoding", "gzip"),
        ("Content-Length", str(len(answer.body))),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["application/json", "image/svg+xml", "text/css", "TEXT/HTML", "application/wasm"])
def test_types_of_text_are_compressed(kind):
    """Text, and types written like text, are compressed."""
    assert fetch(PAGE, ("Content-Type", kind)).get("Content-Encoding") == "gzip"


@pytest.mark.parametrize(
    ("fields", "status", "environ"),
    [
        ([("Content-Type", "image/png")], "200 OK", {}),
        ([], "200 OK", {}),
        ([HTML, ("Content-Encoding", "br")], "200 OK", {}),
        ([HTML, ("Content-Encoding", "identity")], "200 OK", {}),
        ([HTML, ("Cache-Control", "public, No-Transform")], "200 OK", {}),
        ([("Content-Type", "image/png")], "206 Partial Content", {}),
        ([HTML, ("Content-Digest", "sha-256=:x:")], "200 OK", {}),
        ([HTML], "204 No Content", {}),
        ([HTML, ("Content-Length", "1023")], "200 OK", {}),
        ([("ETag", '"a"')], "304 Not Modified", {}),
        ([("ETag", '"a"')], "304 Not Modified", {"HTTP_IF_NONE_MATCH": '"a"'}),
    ],
)
def test_what_goes_out_as_it_is(fields, status, environ):
    """Nothing is changed, and the app's own iterable goes on."""
    body = iter([b"x" * 1023])
    answer = fetch(body, *fields, status=status, **environ)
    assert (answer.fields, answer.body) == (fields, b"x" * 1023) and answer.iterable is body


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "deflate"])
def test_clients_that_take_none(accepted):
    """The page goes out unchanged; caches hear of the dependence."""
    answer = fetch(PAGE, HTML, HTTP_ACCEPT_ENCODING=accepted)
    assert (answer.body, answer.fields) == (PAGE, [HTML, ("Vary", "Accept-Encoding")])


@pytest.mark.parametrize(
    ("vary", "expected"),
    [("Cookie", "Cookie, Accept-Encoding"), ("*", "*"), ("Cookie, accept-encoding", "Cookie, accept-encoding")],
)
def test_vary_keeps_its_names(vary, expected):
    assert fetch(PAGE, HTML, ("Vary", vary)).get("Vary") == expected


@pytest.mark.parametrize(("etag", "expected"), [('"a"', 'W/"a"'), ('W/"a"', 'W/"a"')])
def test_weak_tags_stay_weak(etag, expected):
    assert fetch(PAGE, HTML, ("ETag", etag)).get("ETag") == expected


def test_a_strong_tag_for_if_match():
    """RFC 9110 13.1.1: no weak tag matches, so If-Match reaches the app unchanged; Cache-Control: no-transform keeps a tag strong."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["HTTP_IF_MATCH"])
        start_response("200 OK", [HTML, ("ETag", '"a"'), ("Cache-Control", "no-transform")])
        return [PAGE]

    answer = call(compressing(app), "/", "PUT", **ACCEPTED, HTTP_IF_MATCH='W/"a"')
    assert (seen, answer.get("ETag"), answer.body) == (['W/"a"'], '"a"', PAGE)


def test_a_part_is_not_compressed():
    """Parts are not compressed: a client has the rest from a plain response. Caches hear the same as of the whole."""
    answer = fetch(PAGE, HTML, ("Content-Range", "bytes 0-1/2"), ("ETag", '"a"'), status="206 Partial Content")
    assert (answer.body, answer.get("Vary"), answer.get("ETag")) == (PAGE, "Accept-Encoding", '"a"')


def test_not_modified_names_the_compressed_page():
    """A client with the compressed page hears of that page."""
    answer = fetch([], ("ETag", '"a"'), status="304 Not Modified", HTTP_IF_NONE_MATCH='W/"b", W/"a"')
    assert answer.fields == [("ETag", 'W/"a"'), ("Vary", "Accept-Encoding")]


@pytest.mark.parametrize("body", [b"x" * 1023, random.Random(1).randbytes(2000), b""], ids=["short", "noise", "empty"])
def test_what_does_not_become_shorter(body):
    """A short body, and one made longer by compressing, goes out unchanged."""
    answer = fetch(body, HTML)
    assert (answer.body, answer.fields) == (body, [HTML, ("Vary", "Accept-Encoding")])


def test_the_least_size():
    def app(environ, start_response):
        start_response("200 OK", [HTML])
        return [b"x" * 100]

    assert len(call(compressing(app, compress_min_bytes=100), **ACCEPTED).body) < 100


def test_a_list_of_several():
    answer = fetch([PAGE[:10], b"", PAGE[10:]], HTML)
    assert gzip.decompress(answer.body) == PAGE and answer.get("Content-Length") == str(len(answer.body))


def test_an_iterable_of_one_piece():
    """A first piece of the whole length has a length again."""
    answer = fetch(iter([b"", PAGE]), HTML, ("Content-Length", str(len(PAGE))))
    assert gzip.decompress(answer.body) == PAGE and answer.get("Content-Length") == str(len(answer.body))


@pytest.mark.parametrize("length", [None, 30, 2000])
def test_a_stream_can_be_read_piece_by_piece(length):
    """Each piece can be read when yielded; the length is not told."""
    pieces = [b"data: 1\n\n", b"", b"data: two\n\n", b"data: 333\n\n"]
    fields = [HTML] if length is None else [HTML, ("Content-Length", str(length))]
    app = compressing(
        lambda environ, start_response: start_response("200 OK", fields) and iter(pieces), compress_min_bytes=0
    )
    started = []
    iterable = app({"REQUEST_METHOD": "GET", **ACCEPTED}, lambda *arguments: started.append(arguments) or True)
    decoder, seen = zlib.decompressobj(31), []
    for octets in iterable:
        seen.append(decoder.decompress(octets))
    assert seen == [*pieces, b""] and decoder.eof
    assert started == [("200 OK", [HTML, ("Vary", "Accept-Encoding"), ("Content-Encoding", "gzip")])]


class Page:
    """An iterable with close()."""

    def __init__(self, *chunks):
        self.chunks, self.closed = chunks, 0

    def __iter__(self):
        return iter(self.chunks)

    def close(self):
        self.closed += 1


def test_close_is_called_once():
    page = Page(PAGE, PAGE)
    assert gzip.decompress(fetch(page, HTML).body) == PAGE + PAGE and page.closed == 1


def test_write_flushes_its_octets():
    """Octets of write() can be read at its return."""

    def app(environ, start_response):
        write = start_response("200 OK", [HTML])
        write(b"")
        write(b"first")
        write(b"")
        return [b" second", b" third"]

    answer = call(compressing(app), **ACCEPTED)
    assert gzip.decompress(answer.body) == b"first second third" and answer.get("Content-Length") is None


def test_write_of_a_whole_body():
    def app(environ, start_response):
        start_response("200 OK", [HTML, ("Content-Length", str(len(PAGE)))])(PAGE)
        return []

    answer = call(compressing(app), **ACCEPTED)
    assert gzip.decompress(answer.body) == PAGE and answer.get("Content-Length") == str(len(answer.body))


def test_a_generator_is_compressed():
    """An app that starts with its first item is compressed, too."""

    def late(kind):
        def app(environ, start_response):
            start_response("200 OK", [("Content-Type", kind)])
            yield PAGE

        return app

    assert gzip.decompress(call(compressing(late("text/html")), **ACCEPTED).body) == PAGE
    assert call(compressing(late("image/png")), **ACCEPTED).body == PAGE


@pytest.mark.parametrize("body", [b"", PAGE])
def test_a_head_has_the_fields_of_get(body):
    """A HEAD has the fields of the GET, as far as known."""
    for iterable in ([body], iter([body])):
        answer = fetch(iterable, HTML, ("Content-Length", str(len(PAGE))), method="HEAD")
        assert (answer.get("Content-Encoding"), answer.get("Vary")) == ("gzip", "Accept-Encoding")
        assert answer.get("Content-Length") == (str(len(answer.body)) if body else None)
    assert fetch([], HTML, method="HEAD").fields == [HTML, ("Vary", "Accept-Encoding")]
    assert fetch(iter([]), HTML).fields == [HTML, ("Vary", "Accept-Encoding")]


@pytest.mark.parametrize("chunks", [["text"], [b"a", None], iter(["text"]), iter([PAGE, "text"])])
def test_bodies_that_are_none(chunks):
    """Wrong bodies reach the server, which tells the fault; wrong pieces behind earlier ones, too."""
    app = compressing(lambda environ, start_response: start_response("200 OK", [HTML]) and chunks)
    started = []
    got = [*app({"REQUEST_METHOD": "GET", **ACCEPTED}, lambda *arguments: started.append(arguments) or True)]
    assert len(started) == 1 and (got == chunks or "text" in got)


def test_a_length_that_is_wrong():
    """A wrong length goes to the server unchanged, which says so."""
    answer = fetch(PAGE, HTML, ("Content-Length", "5000"))
    assert (answer.body, answer.get("Content-Length")) == (PAGE, "5000")


def test_an_app_that_does_not_start():
    assert list(compressing(lambda environ, start_response: [PAGE])({**ACCEPTED}, None)) == [PAGE]
    assert list(compressing(lambda environ, start_response: [])({**ACCEPTED}, None)) == []


@pytest.mark.parametrize("fields", [None, [("a",)], [(1, 2)], ["ab", "cde"]])
def test_fields_that_are_none(fields):
    """Wrong fields go to the server unchanged."""
    seen = []
    compressing(lambda environ, start_response: start_response("200 OK", fields) or [])(
        {**ACCEPTED}, lambda *arguments: seen.append(arguments)
    )
    assert seen == [("200 OK", fields)]


def test_a_second_start():
    """Before any octet an error page takes the place of the page; without exc_info it is a mistake."""

    def app(environ, start_response):
        start_response("200 OK", [HTML])
        with pytest.raises(AppError, match="a second time"):
            start_response("200 OK", [HTML])
        start_response("500 Oh", [HTML, ("X-A", "b")], ("kind", "error", None))
        return [PAGE]

    answer = call(compressing(app), **ACCEPTED)
    assert (answer.status, answer.get("X-A"), gzip.decompress(answer.body)) == ("500 Oh", "b", PAGE)


def test_a_second_start_that_is_late():
    """The server raises the given error."""

    def app(environ, start_response):
        start_response("200 OK", [HTML])(PAGE)
        start_response("500 Oh", [], ("kind", "error", None))
        return []

    seen = []

    def start_response(*arguments):
        seen.append(arguments)
        return lambda octets: None

    compressing(app)({**ACCEPTED}, start_response)
    assert seen[1] == ("500 Oh", [], ("kind", "error", None))


def test_files_are_compressed_in_pieces(tmp_path):
    """A file of the app's is compressed in pieces like any response."""
    path = tmp_path / "a.css"
    path.write_bytes(PAGE * 50)

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/css"), ("Content-Length", str(len(PAGE) * 50))])
        return environ["wsgi.file_wrapper"](open(path, "rb"))

    answer = call(compressing(app), **ACCEPTED)
    assert gzip.decompress(answer.body) == PAGE * 50 and answer.iterable._iterable.filelike.closed


def test_the_best_that_a_client_takes():
    """Of several codings the client's favourite."""
    answer = call(compressing(apps.hello, compress_min_bytes=0), HTTP_ACCEPT_ENCODING="gzip;q=0.1, *;q=0")
    assert answer.body == b"hello\n"  # it would become longer
