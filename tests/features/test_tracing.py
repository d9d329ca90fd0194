"""A span for each request: its parts, its trace, and the steps of the app in which it is current."""

import contextvars
import importlib.util
import io
import threading
import types

import pytest
from harness.refusals import error_of
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from aserve.core.exchange import Exchange
from aserve.features import Config
from aserve.features.tracing import traced
from aserve.wsgi import FileWrapper

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CLAIM = {"HTTP_TRACEPARENT": f"00-{TRACE}-{SPAN}-01", "HTTP_TRACESTATE": "vendor=1"}


class Served:
    """Calls a traced app as the gateway does."""

    def __init__(self, provider, exporter):
        self.provider = provider
        self._exporter = exporter
        self.exchange = Exchange("", 0)
        self.exchange.connection = types.SimpleNamespace(remote_addr="10.0.0.1")

    def call(self, app, is_believed=lambda connection: False, shows_queries=False, **environ):
        """Return the app's result, not yet iterated."""
        response = types.SimpleNamespace(exchange=self.exchange, code=0)
        response.start_response = types.MethodType(
            lambda self, status, *_: setattr(self, "code", int(status[:3])), response
        )
        full = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/a",
            "SCRIPT_NAME": "",
            "QUERY_STRING": "",
            "wsgi.url_scheme": "http",
        }
        return traced(app, is_believed, shows_queries)({**full, **environ}, response.start_response)

    @property
    def spans(self):
        return self._exporter.get_finished_spans()


@pytest.fixture
def served(monkeypatch):
    """An app's surroundings."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return Served(provider, exporter)


def hello(environ, start_response):
    start_response("200 OK", [])
    return [trace.get_current_span().get_span_context().span_id.to_bytes(8, "big")]


def test_what_is_in_it(served):
    """The span is the server's, with the names of the conventions; it is current in the app, and in nothing else."""
    served.exchange.arrived_at, served.exchange.began_at = 5.0, 5.25
    more = {"SERVER_NAME": "shop", "REMOTE_ADDR": "10.0.0.9", "HTTP_USER_AGENT": "curl/8", "QUERY_STRING": "b=1"}
    (octets,) = served.call(hello, SCRIPT_NAME="/x", HTTP_COOKIE="b=2", **more)
    (span,) = served.spans
    assert (
        octets == span.context.span_id.to_bytes(8, "big") and not trace.get_current_span().get_span_context().is_valid
    )
    assert (span.name, span.kind, span.parent, span.status.status_code) == (
        "GET",
        SpanKind.SERVER,
        None,
        StatusCode.UNSET,
    )
    assert dict(span.attributes) == {
        "http.request.method": "GET", "http.response.status_code": 200, "url.scheme": "http", "url.path": "/x/a",
        "server.address": "shop", "client.address": "10.0.0.9", "user_agent.original": "curl/8",
        "aserve.queue_seconds": 0.25,
    }  # fmt: skip


def test_a_query_is_shown_if_asked(served):
    """A query may hold a password: it is in the span where queries are shown."""
    for shows_queries in (False, True):
        served.call(hello, shows_queries=shows_queries, QUERY_STRING="b=1")
    assert [span.attributes.get("url.query") for span in served.spans] == [None, "b=1"]


def test_an_unknown_method(served):
    """Clients do not name spans."""
    served.call(hello, REQUEST_METHOD="BREW" * 100, PATH_INFO="")
    (span,) = served.spans
    assert (span.name, span.attributes["http.request.method"], span.attributes["url.path"]) == ("HTTP", "_OTHER", "/")
    assert span.attributes["http.request.method_original"] == ("BREW" * 25)


@pytest.mark.parametrize(
    ("is_believed", "is_from_front", "goes_on"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_whose_trace_goes_on(served, is_believed, is_from_front, goes_on):
    """A trace of a believed peer, or of a front server, goes on; a client's own word begins none."""
    served.exchange.is_from_front = is_from_front
    served.call(hello, lambda connection: is_believed and connection.remote_addr == "10.0.0.1", **CLAIM)
    (span,) = served.spans
    assert (span.context.trace_id == int(TRACE, 16)) == goes_on
    if goes_on:
        assert span.parent.span_id == int(SPAN, 16) and span.context.trace_state["vendor"] == "1"


def test_what_is_current_around_it(served):
    """A span of whoever calls is no parent."""
    with served.provider.get_tracer("").start_as_current_span("other"):
        served.call(hello)
    assert served.spans[0].name == "GET" and served.spans[0].parent is None


def test_a_generators_pieces_are_in_the_span(served):
    """Each piece is made in the span, on any thread, and within the app's earlier context; the end is in it, too."""
    seen, own = [], contextvars.ContextVar("own", default=0)
    tracer = served.provider.get_tracer("app")

    def app(environ, start_response):
        start_response("200 OK", [])
        with tracer.start_as_current_span("piece"):
            for number in (1, 2):
                own.set(own.get() + number)
                seen.append(trace.get_current_span().name)
                yield b"%d" % own.get()
        seen.append(trace.get_current_span().name)

    iterable = served.call(app)
    pieces = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: pieces.append(next(iterable)))
        thread.start()
        thread.join()
    assert iter(iterable) is iterable and list(iterable) == [] and served.spans[-1].name == "piece"
    iterable.close()
    iterable.close()
    assert pieces == [b"1", b"3"] and seen == ["piece", "piece", "GET"] and own.get() == 0
    inner, outer = served.spans
    assert inner.parent.span_id == outer.context.span_id and outer.attributes["http.response.status_code"] == 200


@pytest.mark.parametrize("where", ["call", "iteration", "close"])
def test_a_faults_exception_is_in_the_span(served, where):
    class Pieces:
        def __iter__(self):
            if where == "iteration":
                raise ValueError("no")
            return iter(())

        def close(self):
            if where == "close":
                raise ValueError("no")

    def app(environ, start_response):
        if where == "call":
            raise ValueError("no")
        start_response("200 OK", [])
        return Pieces()

    with pytest.raises(ValueError, match="no"):
        iterable = served.call(app)
        try:
            list(iterable)
        finally:
            iterable.close()
    (span,) = served.spans
    assert span.status.status_code == StatusCode.ERROR and span.attributes["error.type"] == "ValueError"
    assert span.attributes["http.response.status_code"] == (500 if where == "call" else 200)
    assert [event.name for event in span.events] == ["exception"]


def test_an_error_of_the_apps(served):
    """A status of 500 is an error; a 404 is the client's."""
    for status in ("503 Busy", "404 Not Found"):
        served.call(lambda environ, start, status=status: (start(status, []), [b""])[1])
    first, second = served.spans
    assert (first.status.status_code, first.attributes["error.type"]) == (StatusCode.ERROR, "503")
    assert second.status.status_code == StatusCode.UNSET


def test_what_the_gateway_knows(served, tmp_path):
    """Lists, tuples and files are returned unchanged, and the span has ended; a file that must be read is not."""
    (tmp_path / "file").write_text("text")
    with open(tmp_path / "file", "rb") as file:
        for body in ([b""], (b"",), FileWrapper(file)):
            assert served.call(lambda environ, start, body=body: body) is body
        assert len(served.spans) == 3 and "http.response.status_code" not in served.spans[0].attributes
    wrapped = served.call(lambda environ, start: FileWrapper(io.BytesIO(b"text")))
    assert list(wrapped) == [b"text"]
    wrapped.close()
    assert len(served.spans) == 4
    assert traced(hello, None).__qualname__ == "hello"


def test_an_object_is_named_by_its_class(served):
    """An object is named by its class; one without close() has none."""

    class App:
        def __call__(self, environ, start_response):
            return iter([b"a"])

    wrapped = served.call(App())
    assert list(wrapped) == [b"a"]
    wrapped.close()
    assert len(served.spans) == 1 and traced(App(), None).__module__ == __name__


def test_tracing_without_its_package(monkeypatch):
    """The extra is named."""
    assert Config(tracing=True).tracing
    for found in ([], ["opentelemetry"]):  # another part may be installed alone
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, found=found: name if name in found else None)
        assert "aserve-wsgi[otel]" in error_of(Config, tracing=True)
