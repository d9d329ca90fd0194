"""The functions about a request: each finds the request from within the app, and keeps nothing."""

import io
import threading

import pytest

from aserve.compat.uwsgi_api import UwsgiModule, request
from aserve.compat.uwsgi_api.request import REQUEST, LoggedVariables, environ_here, remembering
from aserve.core.exchange import Exchange, pairs_of
from aserve.features import Config
from aserve.features.access_log.log_line import Atom
from aserve.features.access_log.log_values import field_getter
from aserve.wsgi.gateway import FileWrapper


def call(function, environ=None):
    """Return a function's result inside of the app."""
    found = []

    def app(environ, start_response):
        found.append(function())
        return []

    wrapped = remembering(app)
    assert wrapped.__qualname__ == app.__qualname__
    wrapped(environ if environ is not None else {}, None)
    return found[0]


def test_the_request_is_found_from_any_depth():
    environ = {"a": "b"}
    assert call(lambda: (lambda: environ_here())(), environ) is environ
    assert environ_here() is None
    found = []

    def elsewhere():
        thread = threading.Thread(target=lambda: found.append(environ_here()))
        thread.start()
        thread.join()

    call(elsewhere)
    assert found == [None]


@pytest.mark.parametrize("name", ["chunked_read", "cl", "add_var"])
def test_no_request_is_told_with_advice(name):
    with pytest.raises(RuntimeError, match=rf"uwsgi\.{name}: there is no request here: call it before the app returns"):
        REQUEST[name](*(("a", "b") if name == "add_var" else ()))


def test_a_file_is_sent_whole_or_in_pieces(tmp_path):
    """A whole file is sent by wsgi.file_wrapper: by path, descriptor or object; a part of it in pieces."""
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        for each in (str(path), file.fileno(), file):
            sent = request.sendfile(each, 4, 2)
            assert type(sent) is FileWrapper and b"".join(sent) == b"23456789"
            if each is not file:
                sent.close()
    assert b"".join(request.sendfile(str(path), 0, 2, 3)) == b"234"
    assert b"".join(request.offload(str(path), 100)) == b"0123456789"
    with pytest.raises(FileNotFoundError):
        request.sendfile(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        ([], b"file"),
        ([b""], b"file"),
        (b"", b"file"),
        ((), b"file"),
        ([b"more"], b"filemore"),
        (io.BytesIO(b"more"), b"filemore"),
    ],
)
def test_a_file_beside_what_is_returned(tmp_path, returned, sent):
    """As in uWSGI the app may ignore the result of sendfile; its own result comes behind the file."""
    (tmp_path / "f").write_bytes(b"file")

    def app(environ, start_response):
        assert request.sendfile(str(tmp_path / "f"))
        return returned

    found = remembering(app)({}, None)
    assert b"".join(found) == sent
    found.close()


def test_an_empty_result_is_closed(tmp_path):
    """An empty iterable with a close is closed, the file is sent; a returned file is sent once."""
    (tmp_path / "f").write_bytes(b"file")
    closed = []

    class Nothing:
        def __len__(self):
            return 0

        def close(self):
            closed.append(True)

    for result in (lambda: Nothing(), None):

        def app(environ, start_response, result=result):
            file = request.sendfile(str(tmp_path / "f"))
            return result() if result is not None else file

        found = remembering(app)({}, None)
        assert b"".join(found) == b"file"
        found.close()
    assert closed == [True]


def test_a_body_is_read_in_pieces_or_lines():
    environ = {"wsgi.input": io.BytesIO(b"x" * 70000), "CONTENT_LENGTH": "70000"}
    assert call(lambda: [len(REQUEST["chunked_read"](5)) for _ in range(3)], environ) == [65536, 4464, 0]
    assert call(REQUEST["chunked_read_nb"], environ) is None and call(REQUEST["cl"], environ) == 70000

    class Live:
        def readline(self, size):
            return b"line\n"

    assert call(REQUEST["chunked_read_nb"], {"wsgi.input": Live()}) == b"line\n"
    assert call(REQUEST["cl"], {}) == 0


def test_variables_of_the_log(monkeypatch):
    """The last value of a name goes with the request to the access log, whatever its octets."""
    exchange = Exchange("REQUEST_METHOD\0GET", 1)
    monkeypatch.setattr(request, "_here", threading.local())
    LoggedVariables().before(exchange)

    def use():
        REQUEST["set_logvar"]("a", "1")
        REQUEST["set_logvar"](b"a", "\0\xfc2")

    call(use, {})
    assert field_getter(Atom("variable", "uwsgi.logvars.a"))(pairs_of(exchange.vars)) == "\xc3\xbc2"


@pytest.mark.parametrize(("form", "is_there"), [("%(addr) %(logvar.a)", True), ("combined", False)])
def test_what_it_costs(form, is_there):
    """Requests have a step more only where the log's format names such a variable."""
    config = Config(access_log="-", access_log_format=form, uwsgi_module="on")
    assert isinstance(UwsgiModule(config).before(None), LoggedVariables) is is_there


def test_variables_go_to_log_or_environ():
    environ = {}

    def use():
        assert REQUEST["get_logvar"]("a") is None
        REQUEST["set_logvar"]("a", "b")
        REQUEST["set_logvar"](b"c", b"d")
        assert REQUEST["add_var"]("X_A", b"1") is True and REQUEST["log_this_request"]() is None
        return REQUEST["get_logvar"](b"a"), REQUEST["get_logvar"]("c")

    assert call(use, environ) == (b"b", b"d") and environ["X_A"] == "1"
    assert call(lambda: REQUEST["get_logvar"]("a")) is None
    assert REQUEST["set_logvar"]("a", "b") is REQUEST["get_logvar"]("a") is None
