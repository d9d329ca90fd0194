"""Traces of requests, by a real SDK: in this process, and in forked workers."""

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CLAIM = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736
# Its exporter has a thread, started in each serving process.
APP = """\
import aserve, os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

@aserve.post_fork
def start_exporter():
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(out=open(os.environ["SPANS"], "a"), formatter=lambda span: "%s %d %s\\n" % (
        span.name, os.getpid(), span.attributes["http.response.status_code"]))
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
    trace.set_tracer_provider(provider)

def app(environ, start_response):
    start_response("200 OK", [])
    assert trace.get_current_span().is_recording()
    return [b"%d" % os.getpid()]
"""


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


@pytest.mark.also_inline
def test_each_request_has_one_span(start_server, raw_client, spans):
    """One span each, whatever the wire: small, streamed, refused to go on with a stranger's trace, failed."""

    def app(environ, start_response):
        assert trace.get_current_span().is_recording()
        if environ["PATH_INFO"] == "/raise":
            raise ValueError("no")
        start_response("200 OK", [("Content-Type", "text/plain")])
        if environ["PATH_INFO"] == "/pieces":
            return (b"%d" % trace.get_current_span().is_recording() * 50_000 for _ in range(20))
        return [b"hello"]

    server = start_server(app, tracing=True)
    client = raw_client(server)
    assert client.fetch("/", CLAIM).body == b"hello"
    assert client.fetch("/pieces").body == b"1" * 1_000_000
    assert raw_client(server).fetch("/raise").status == 500

    found = wait_until(lambda: len(spans.get_finished_spans()) == 3 and spans.get_finished_spans())
    by_path = {span.attributes["url.path"]: span for span in found}
    assert {path: span.attributes["http.response.status_code"] for path, span in by_path.items()} == {
        "/": 200, "/pieces": 200, "/raise": 500,
    }  # fmt: skip
    assert by_path["/"].context.trace_id != TRACE and by_path["/"].attributes["aserve.queue_seconds"] >= 0


def test_with_a_proxy(start_server, raw_client, spans):
    """A trusted proxy's trace goes on; also beside a deadline."""
    server = start_server(
        lambda environ, start: (start("200 OK", []), [b""])[1],
        is_checked=False,
        tracing=True,
        trusted_proxies=["127.0.0.1"],
        request_seconds=60,
    )
    raw_client(server).fetch("/", CLAIM)
    (span,) = wait_until(spans.get_finished_spans)
    assert span.context.trace_id == TRACE


@pytest.mark.long_on_pypy
@pytest.mark.any_parser
@NEEDS_LINUX
@pytest.mark.parametrize("flags", [(), ("--preload",)], ids=["each", "preload"])
def test_exporters_of_workers(start_workers, raw_client, tmp_path, flags):
    """`post_fork` starts an exporter for the spans of each worker."""
    out = tmp_path / "spans"
    process = start_workers("--workers", "2", "--tracing", *flags, app=APP, SPANS=str(out))
    process.wait_for_workers(2 + bool(flags))
    pids = {raw_client(process).fetch("/").body.decode() for _ in range(10)}
    wait_until(lambda: out.exists() and {line.split()[1] for line in out.read_text().splitlines()} == pids)
    assert all(line.split()[0] == "GET" and line.split()[2] == "200" for line in out.read_text().splitlines())
    assert process.stop() == 0
