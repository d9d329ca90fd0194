"""C's environ is the twin's, or there is none: any vars, asked again and again, for any base."""

import pathlib
import sys
from typing import Any

import pytest
from harness.environs import (
    LINE,
    NOT_MADE,
    Request,
    block,
    from_client,
    from_front,
    made_by_native,
    made_by_twin,
    new_base,
    shown,
)
from harness.examples import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits

CORPUS = pathlib.Path(__file__).parent.parent / "corpus"
LINE_NAMES = [name for name, _ in LINE]
pytestmark = pytest.mark.usefixtures("forget")
OWN_MAX = 32  # native/environ.c: no request has more own pairs


# Any request

NAMES = st.sampled_from(
    [
        "HTTP_HOST", "HTTP_ACCEPT", "HTTP_COOKIE", "HTTP_AUTHORIZATION", "HTTP_X_REQUEST_ID", "HTTP_TRACEPARENT", "HTTP_", "HTTPS",
        "CONTENT_TYPE", "CONTENT_LENGTH", "SERVER_NAME", "SERVER_PORT", "SERVER_SOFTWARE", "SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO",
        "REMOTE_ADDR", "REMOTE_PORT", "UWSGI_SCHEME", "REQUEST_SCHEME", "DOCUMENT_URI", "wsgi.url_scheme", "wsgi.input", *LINE_NAMES,
    ]
)  # fmt: skip
TEXTS = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=20)
VALUES = (
    st.sampled_from(
        [
            "",
            "",
            "GET",
            "HTTP/1.1",
            "HTTP/1.0",
            "/",
            "on",
            "ON",
            "oN",
            "1",
            "off",
            "http",
            "https",
            "ws",
            "wss",
            "HTTPS",
        ]
    )
    | TEXTS
    | st.builds(lambda text, size: text * size, TEXTS, st.integers(1, 200))
)
PAIRS = st.tuples(NAMES | TEXTS, VALUES)
FIELDS = st.lists(PAIRS, max_size=8, unique_by=lambda pair: pair[0]) | st.lists(PAIRS, max_size=8)
LINES = st.tuples(*(st.tuples(st.just(name), VALUES | st.just(value)) for name, value in LINE))
PATH = st.tuples(st.just("PATH_INFO"), VALUES)


@st.composite
def requests(draw: Any) -> Request:
    """Return a request, mostly in the parsers' form; some blocks are cut off, or end in NUL."""
    is_front = draw(st.booleans())
    own = draw(st.lists(PAIRS, max_size=5).map(list) if is_front else LINES)
    if is_front and draw(st.integers(0, 3)):
        own.append(draw(PATH))
    vars = block([*own, *draw(FIELDS)])
    damage = draw(st.integers(0, 9))
    if damage == 0:
        vars += "\0"
    elif damage == 1:
        vars = vars[: draw(st.integers(0, len(vars)))]
    return Request(
        vars, len(own), is_front, draw(st.sampled_from(["", "192.0.2.1"])), draw(st.sampled_from(["", "80"]))
    )


def is_plain(base: dict[str, Any], request: Request) -> bool:
    """Whether C makes an environ of the request; all further requests are the twin's."""
    own = request.vars.split("\0", 2 * request.own_count)
    fields = own.pop().split("\0") if len(own) > 2 * request.own_count else [""]
    if len(own) < 2 * request.own_count or (len(fields) % 2 and fields[-1]):
        return False  # cut off
    names = [name for name in fields[::2] if name.startswith("HTTP_")]
    if len(set(names)) < len(names):
        return False
    if not request.is_front:
        return True
    environ = {**base, **dict(zip(fields[::2], fields[1::2])), **dict(zip(own[::2], own[1::2]))}
    if request.own_count > OWN_MAX or environ["SCRIPT_NAME"] != "":
        return False
    if "PATH_INFO" in environ or environ.get("SCRIPT_FILENAME", "").startswith("proxy:scgi://"):
        return "PATH_INFO" in environ
    return bool(environ.get("DOCUMENT_URI")) or "%" not in environ.get("REQUEST_URI", "").partition("?")[0]


@settings(EXAMPLES, max_examples=50)
@given(
    pool=st.lists(requests(), min_size=1, max_size=4),
    order=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 255) | st.none()), min_size=1, max_size=24
    ),
)
def test_any_requests_have_the_same_environ(native, pool, order):
    """Requests in any order, of listeners and of clients with a separate base, wherever the last section had a place."""
    native.forget()
    bases = [new_base(), new_base(scheme="https"), {**new_base(), "wsgi.url_scheme": "https"}]
    place = 0
    for number, base, other_place in order:
        request = pool[number % len(pool)]
        made, place = made_by_native(native, bases[base], request, place if other_place is None else other_place)
        assert (made is not None) == is_plain(bases[base], request)
        if made is not None:
            assert shown(made) == made_by_twin(bases[base], request)


@pytest.mark.parametrize(("folder", "protocol"), [("http1", "http"), ("uwsgi", "uwsgi"), ("scgi", "scgi")])
def test_the_corpus_has_the_same_environ(native, folder, protocol):
    """Each accepted message of the corpus is parsed three times."""
    base, made_count = new_base(), 0
    for path in sorted((CORPUS / folder / "accept").glob("*.raw")):
        for exchange in PROTOCOLS[protocol, "c"](Limits())().receive(path.read_bytes()):
            if exchange.refusal is not None or exchange.rpc is not None or exchange.ping is not None:
                continue
            request = Request(exchange.vars, exchange.own_count, exchange.is_from_front)
            for _ in range(3):
                made, _ = made_by_native(native, base, request)
                assert (made is not None) == is_plain(base, request), path.name
                assert made is None or shown(made) == made_by_twin(base, request), path.name
                made_count += made is not None
    assert made_count > 0


# Plain requests

BROWSER = [
    ("HTTP_HOST", "www.example"),
    ("HTTP_CONNECTION", "keep-alive"),
    ("HTTP_SEC_CH_UA", '"Chromium";v="142", "Not_A Brand";v="99"'),
    ("HTTP_SEC_CH_UA_MOBILE", "?0"),
    ("HTTP_SEC_CH_UA_PLATFORM", '"Linux"'),
    ("HTTP_UPGRADE_INSECURE_REQUESTS", "1"),
    (
        "HTTP_USER_AGENT",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    ),
    ("HTTP_ACCEPT", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("HTTP_SEC_FETCH_SITE", "none"),
    ("HTTP_SEC_FETCH_MODE", "navigate"),
    ("HTTP_ACCEPT_ENCODING", "gzip, deflate, br, zstd"),
    ("HTTP_ACCEPT_LANGUAGE", "de-DE,de;q=0.9,en;q=0.8"),
    ("HTTP_COOKIE", "session=0123456789abcdef; theme=dark; name=\xe9t\xe9"),
]
# nginx's uwsgi_params, in their order.
NGINX = [
    ("QUERY_STRING", "a=b"),
    ("REQUEST_METHOD", "GET"),
    ("CONTENT_TYPE", ""),
    ("CONTENT_LENGTH", ""),
    ("REQUEST_URI", "/x%20y?a=b"),
    ("PATH_INFO", "/x y"),
    ("DOCUMENT_ROOT", "/usr/share/nginx/html"),
    ("SERVER_PROTOCOL", "HTTP/2.0"),
    ("REQUEST_SCHEME", "https"),
    ("HTTPS", "on"),
    ("REMOTE_ADDR", "192.0.2.1"),
    ("REMOTE_PORT", "5"),
    ("SERVER_PORT", "443"),
    ("SERVER_NAME", "www.example"),
    *BROWSER,
]
# And the file scgi_params.
NGINX_SCGI = [
    ("CONTENT_LENGTH", "0"),
    ("REQUEST_METHOD", "GET"),
    ("REQUEST_URI", "/x%20y?a=b"),
    ("QUERY_STRING", "a=b"),
    ("CONTENT_TYPE", ""),
    ("DOCUMENT_URI", "/x y"),
    ("DOCUMENT_ROOT", "/usr/share/nginx/html"),
    ("SCGI", "1"),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
    ("REQUEST_SCHEME", "http"),
    ("REMOTE_ADDR", "192.0.2.1"),
    ("REMOTE_PORT", "5"),
    ("SERVER_PORT", "80"),
    ("SERVER_NAME", "www.example"),
    *BROWSER,
]
POST = [("REQUEST_METHOD", "POST"), *LINE[1:]]
QUERY = [LINE[0], ("REQUEST_URI", "/a%20b?c"), ("PATH_INFO", "/a b"), ("QUERY_STRING", "c"), LINE[4]]


@pytest.mark.parametrize(
    "request_",
    [
        from_client(("HTTP_HOST", "a")),
        from_client(*BROWSER),
        from_client(("HTTP_HOST", "a"), ("HTTP_AUTHORIZATION", "Basic eDp5")),
        from_client(("HTTP_HOST", "a"), ("CONTENT_TYPE", "text/plain"), ("CONTENT_LENGTH", "5"), line=POST),
        from_client(("HTTP_HOST", "a"), line=QUERY),
        from_client(line=[*LINE[:4], ("SERVER_PROTOCOL", "HTTP/1.0")]),  # without a field
        from_client(("HTTP_HOST", "a"), addr="", port=""),  # on a unix socket
        from_client(("HTTP_HOST", "a"), line=[(name, "") for name, _ in LINE]),
        from_client(("HTTP_A", ""), ("HTTP_B", "\x7f\x80\xff"), ("HTTP_C", "x" * 5000)),
        from_client(("QUERY_STRING", "x"), ("REQUEST_METHOD", "y"), ("SERVER_PROTOCOL", "z")),  # of no parser
        from_front(*NGINX),
        from_front(*NGINX_SCGI),
        from_front(("PATH_INFO", "")),
        # Without a path.
        from_front(("HTTPS", "on")),
        from_front(("DOCUMENT_URI", "/a b"), ("REQUEST_URI", "/c%20d")),
        *[
            from_front(("DOCUMENT_URI", ""), ("REQUEST_URI", target))
            for target in ("", "/", "/a", "/a?", "/a?b=%20?c", "?%")
        ],
        from_front(("SCRIPT_FILENAME", "proxy:scgi:/"), ("REQUEST_URI", "/a")),
        from_front(("PATH_INFO", "/"), ("SCRIPT_NAME", ""), ("SERVER_NAME", ""), ("SERVER_PORT", "")),
        from_front(
            ("PATH_INFO", "/one"), ("PATH_INFO", "/two"), ("SERVER_NAME", "one"), ("SERVER_NAME", "two")
        ),  # the last wins
        *[
            from_front(("PATH_INFO", "/"), ("HTTPS", https))
            for https in ("on", "ON", "oN", "1", "", "off", "0n", "on ", "o", "\xd2n")
        ],
        *[
            from_front(("PATH_INFO", "/"), ("UWSGI_SCHEME", one))
            for one in ("", "http", "https", "ws", "wss", "HTTPS", "javascript")
        ],
        *[
            from_front(("PATH_INFO", "/"), ("UWSGI_SCHEME", one), ("REQUEST_SCHEME", other))
            for one in ("", "http", "x", "wss")
            for other in ("", "http", "https", "x")
        ],
    ],
)
def test_what_is_plain(native, request_):
    """C makes these environs itself, the first time, the second, and when their section is kept."""
    for base in (new_base(), new_base(scheme="https"), {**new_base()}):
        expected = made_by_twin(base, request_)
        place = 0
        for _ in range(4):
            made, place = made_by_native(native, base, request_, place)
            assert shown(made) == expected and type(made) is dict


@pytest.mark.parametrize(
    "request_",
    [
        from_client(("HTTP_A", "1"), ("HTTP_A", "2")),  # to be joined
        from_client(("HTTP_COOKIE", "a=1"), ("HTTP_B", "x"), ("HTTP_COOKIE", "b=2")),
        from_front(("PATH_INFO", "/"), ("HTTP_A", "1"), ("HTTP_A", "1")),
        from_front(("REQUEST_URI", "/%20")),  # the path is to be decoded
        from_front(("REQUEST_URI", "/"), ("SCRIPT_FILENAME", "proxy:scgi://127.0.0.1:4000/")),  # and to be found
        from_front(("DOCUMENT_URI", "/app/a"), ("SCRIPT_NAME", "/app")),
        from_front(("PATH_INFO", "/"), ("SCRIPT_NAME", "/app")),  # and the mount point
        from_front(("PATH_INFO", "/"), ("SCRIPT_NAME", "/")),
        from_front(*[("PATH_INFO", "/")] * (OWN_MAX + 1)),
        # No parser writes these.
        Request(""),
        Request(block(LINE[:4])),
        Request(block([*LINE, ("HTTP_A", "1")]) + "\0HTTP_B"),
        Request("PATH_INFO", 1, True),
    ],
)
def test_what_is_not_plain(native, request_):
    """Such requests are the twin's, however often sent."""
    base = new_base()
    before = dict(base)
    assert [made_by_native(native, base, request_)[0] for _ in range(4)] == [None] * 4
    assert base == before


def test_names_are_the_same_objects(native):
    """A CGI name is the same str in all environs, interned: an app's lookup compares no characters."""
    made, again = (made_by_native(native, new_base(), from_client(*BROWSER))[0] for _ in range(2))
    names = {name: name for name in again}
    assert all(names[name] is name for name in made)
    assert next(name for name in made if name == "HTTP_HOST") is sys.intern("HTTP_HOST")


@pytest.mark.parametrize("request_", [from_client(*BROWSER), from_front(*NGINX), from_front(*NGINX_SCGI)])
def test_each_request_has_its_own_dict(native, request_):
    """No later request sees an app's changes of the environ, and the base stays unchanged."""
    base = new_base()
    before, expected = dict(base), made_by_twin(base, request_)
    for _ in range(5):
        made, _ = made_by_native(native, base, request_)
        assert shown(made) == expected
        made["SERVER_NAME"] = made["HTTP_HOST"] = "changed"
        made["more"] = 1
        del made["wsgi.errors"], made["HTTP_ACCEPT"]
    assert base == before


@pytest.mark.skipif(sys.version_info < (3, 10), reason="there a copy of a subclass of dict has no room to spare")
def test_there_is_room(native):
    """The environ takes the additions of the caller and an app without growing."""
    base = new_base()
    sizes = set()
    for _ in range(4):
        made, _ = made_by_native(native, base, from_client(*BROWSER))
        sizes.add(sys.getsizeof(made, 0))
        made.update(dict.fromkeys(NOT_MADE))
        sizes.add(sys.getsizeof(made, 0))
    assert len(sizes) == 1
