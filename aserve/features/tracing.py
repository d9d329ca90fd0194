"""A span of OpenTelemetry for each request (--tracing).

Owns:     Tracing, the extension; `traced`: the app, called within a span, current on the app's thread, also during the iteration of the response.
Thread:   a worker (with --threads 0: the event loop).
Spec:     OpenTelemetry, "Semantic Conventions for HTTP Spans", stable since 1.23; W3C Trace Context, by the SDK's propagator.
Not here: exporting spans: the work of the SDK, set up by the app or `opentelemetry-instrument`.

In front of wsgi/deadlines.py, so the Response is at hand, with the status; `start_response` needs no wrapper.

Each request has a context (contextvars) of its own, for every step of the app. A span made current by the app in one piece of a generator is
current in the next piece, also on another thread, and never in another request.

A span has no query, a place of passwords and tokens, unless --show-queries: a store of traces has many readers.
"""

from __future__ import annotations

import contextvars
import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any, Callable

from ..core.exchange import Exchange
from ..extension import Extension, ListenerContext
from ..settings import VERSION, ConfigError, EngineSettings, row
from ..settings.kinds import SWITCH
from ..wsgi.gateway import WSGIApp
from ..wsgi.returned import iterate
from ..wsgi.wrapping import is_inert, named_as

# All others get one name: a client could invent any number.
METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"])
# By the names of an environ; missing ones are left out.
ATTRIBUTES = {
    "wsgi.url_scheme": "url.scheme", "SERVER_NAME": "server.address",
    "REMOTE_ADDR": "client.address", "HTTP_USER_AGENT": "user_agent.original",
}  # fmt: skip
QUERY = {"QUERY_STRING": "url.query"}
FIELDS = {"HTTP_TRACEPARENT": "traceparent", "HTTP_TRACESTATE": "tracestate"}


def traced(app: WSGIApp, is_believed: Callable[[Any], bool], shows_queries: bool = False) -> WSGIApp:
    """Return a WSGI app that calls `app` in a span; the span continues the trace of believed peers."""
    # An optional dependency, needed only with --tracing.
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer, extract = trace.get_tracer("aserve", VERSION), TraceContextTextMapPropagator().extract
    root, names = context.Context(), {**ATTRIBUTES, **QUERY} if shows_queries else ATTRIBUTES

    def parent_of(exchange: Exchange, environ: dict[str, Any]) -> Any:
        if exchange.is_from_front or is_believed(exchange.connection):
            return extract({name: environ[key] for key, name in FIELDS.items() if key in environ}, root)
        return root

    def traced(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        response = start_response.__self__
        exchange: Exchange = response.exchange
        method = environ["REQUEST_METHOD"]
        known = method if method in METHODS else "_OTHER"
        attributes = {name: environ[key] for key, name in names.items() if environ.get(key)}
        attributes["http.request.method"] = known
        attributes["url.path"] = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "") or "/"
        if known != method:
            attributes["http.request.method_original"] = method[:100]
        if exchange.arrived_at:
            attributes["aserve.queue_seconds"] = max(exchange.began_at - exchange.arrived_at, 0.0)
        parent = parent_of(exchange, environ)
        span = tracer.start_span(
            method if known == method else "HTTP", parent, trace.SpanKind.SERVER, attributes=attributes
        )
        own = contextvars.copy_context()
        own.run(context.attach, trace.set_span_in_context(span, parent))
        request = _Request(span, response, own)
        try:
            iterable: Any = own.run(app, environ, start_response)
        except BaseException as exc:
            request.end(exc)
            raise
        if is_inert(iterable):
            request.end()
            return iterable  # type: ignore[no-any-return]
        return _TracedIterable(request, iterable)

    return named_as(traced, app)


class _Request:
    """The span of one request."""

    __slots__ = ("_is_over", "_response", "_span", "run")

    def __init__(self, span: Any, response: Any, own: contextvars.Context) -> None:
        self._span = span
        self._response = response
        self.run = own.run  # call a function in the context of this request
        self._is_over = False

    def end(self, fault: BaseException | None = None) -> None:
        """End the span, once; `fault`: raised by the app."""
        if self._is_over:
            return
        self._is_over = True
        span, code = self._span, self._response.code or (500 if fault is not None else 0)
        if code:
            span.set_attribute("http.response.status_code", code)
        if fault is not None:
            span.record_exception(fault)
            self._fail(type(fault).__qualname__, str(fault))
        elif code >= 500:
            self._fail(str(code))
        span.end()

    def _fail(self, kind: str, text: str | None = None) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR, text)


class _TracedIterable:
    """The app's iterable, whose every step runs in the span."""

    __slots__ = ("_iterable", "_iterator", "_request")

    def __init__(self, request: _Request, iterable: Any) -> None:
        self._request = request
        self._iterable = iterable
        self._iterator: Iterator[bytes] | None = None

    def __iter__(self) -> _TracedIterable:
        return self

    def __next__(self) -> bytes:
        request = self._request
        try:
            if self._iterator is None:
                self._iterator = request.run(iterate, self._iterable)
            chunk: bytes = request.run(next, self._iterator)
            return chunk
        except StopIteration:
            raise
        except BaseException as exc:
            request.end(exc)
            raise

    def close(self) -> None:
        """Close the app's iterable, and end the span."""
        fault = None
        try:
            close = getattr(self._iterable, "close", None)
            if close is not None:
                self._request.run(close)
        except BaseException as exc:
            fault = exc
            raise
        finally:
            self._request.end(fault)


class TracingSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    tracing: bool = row(
        False, "Metrics", "--tracing", SWITCH,
        "a span of OpenTelemetry for each request; the app, or opentelemetry-instrument, sets the exporter; see `aserve docs tracing`",
        "This needs opentelemetry-api (pip install 'aserve-wsgi[otel]'), and costs each request time.",
    )
    # fmt: on

    def check(self) -> None:
        """See Settings."""
        if self.tracing and not (
            importlib.util.find_spec("opentelemetry") and importlib.util.find_spec("opentelemetry.trace")
        ):
            raise ConfigError(
                "--tracing needs opentelemetry-api, which is not installed; pip install 'aserve-wsgi[otel]'"
            )


class Tracing(Extension[TracingSettings]):
    """--tracing."""

    switches = ("tracing",)
    wants = ("times",)

    def __init__(self, config: TracingSettings) -> None:
        super().__init__(config)
        importlib.import_module("opentelemetry.trace.propagation.tracecontext")

    def wrap_calls(self, app: WSGIApp, context: ListenerContext) -> WSGIApp:
        """See Extension."""
        return traced(app, context.believes, self._config.show_queries)
