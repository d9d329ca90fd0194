"""The spelling of access log formats, and requests without a line."""

import pytest

from aserve.features.access_log.log_line import ATOMS, GUNICORN, NAMED, Atom, parse_line_format, parse_skip

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("%(h)s %(m)s", [Atom("addr"), " ", Atom("method")]),
        ("a%%b %(h)s%%", ["a", "%", "b ", Atom("addr"), "%"]),
        ("%({X-Forwarded-For}i)s %({ETag}o)s", [Atom("field", "X-Forwarded-For"), " ", Atom("response_field", "ETag")]),
        ("%({REMOTE_ADDR}e)s", [Atom("variable", "REMOTE_ADDR")]),
        ("%(addr) in %(msecs)ms", [Atom("addr"), " in ", Atom("msecs"), "ms"]),
        ("%(addr) in %(secs)s", [Atom("addr"), " in ", Atom("secs"), "s"]),
        ("%(addr) by %(h)s and %({A}i)s", [Atom("addr"), " by ", Atom("addr"), " and ", Atom("field", "A")]),
        ("%(queue_wait)s %(h)s", [Atom("queue_wait"), " ", Atom("addr")]),
        ("%(var.HTTP_HOST)", [Atom("variable", "HTTP_HOST")]),
    ],
)
def test_formats_of_two_servers_are_read(text, parts):
    """gunicorn's spelling and uWSGI's; an s behind a name is text in uWSGI's."""
    assert parse_line_format(text) == parts


@pytest.mark.parametrize("name", sorted(ATOMS))
def test_every_name_is_known_in_both_spellings(name):
    assert parse_line_format(f"%({name})s") == [Atom(GUNICORN.get(name, name))]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no values", "neither the name of a format nor"),
        ("%(mseks)", r"%\(mseks\) is not known; the nearest is msecs"),
        ("%(Z)s", r"%\(Z\) is not known; the nearest is one letter of gunicorn's"),
        ("%({X}z)s", r"%\(\{X\}z\) is not known"),
        ("%({a b}i)s", "is not known"),
        ("%(var.)", r"%\(var.\) is not known"),
        ("%(h)s %d", "'%d' is not of the form"),
        ("%(h)s 100%", "'%' is not of the form"),
        ("%(h", "neither the name"),
    ],
)
def test_formats_that_mean_nothing(text, why):
    """The text names the fault, and the nearest known name."""
    with pytest.raises(ValueError, match=why):
        parse_line_format(text)


def test_named_formats_can_be_read():
    assert all(parse_line_format(text) for text in NAMED.values())


@pytest.mark.parametrize(
    ("text", "path", "status", "is_skipped"),
    [
        ("/healthz", "/healthz", "500", True),
        ("/healthz", "/healthz2", "200", False),
        ("/healthz 2xx", "/healthz", "204", True),
        ("/healthz 2XX", "/healthz", "500", False),
        ("/healthz 304", "/healthz", "304", True),
        ("/static/*.css", "/static/a/b.css", "200", True),
        ("/a[bc]", "/ab", "200", True),
        ("* 404", "/x", "404", True),
        ("/a", "/A", "200", False),
        ("/a.b", "/axb", "200", False),
        ("/a 2xx", "/a", "0", False),
    ],
)
def test_skips_match_path_and_status(text, path, status, is_skipped):
    """A skip is a path, with stars for any text, and perhaps a status."""
    skip = parse_skip(text)
    assert bool(skip.path.match(path) and skip.status.match(status)) is is_skipped


@pytest.mark.parametrize("text", ["healthz", "/a 2xx 3xx", "/a ok", "/a 2", "/a*b*c*d*e*f"])
def test_skips_that_mean_nothing(text):
    with pytest.raises(ValueError, match=r"is not of the form|is not a status|more than 4 stars"):
        parse_skip(text)


def test_the_names_of_the_app():
    assert parse_line_format("%(logvar.user)") == [Atom("variable", "uwsgi.logvars.user")]
    with pytest.raises(ValueError, match="is not known"):
        parse_line_format("%(logvar.)")
