"""Any stream of requests, in any pieces, in any order of events: answered rightly, then in sync or closed.

A few examples of each property, the same ones every time; with FUZZ_SECONDS=60 (`make fuzz`) as many others as that
time allows for each protocol, from a seed that is shown, and that FUZZ_SEED repeats.
"""

import functools
from typing import Any

import pytest
from harness.fuzzing import SECONDS
from harness.interpreter import first_on_pypy, has_module
from harness.streams import MAX_PIPELINED, Faults, Heard, Stream, Talk, sizes, steps, streams, without_interim
from hypothesis import strategies as st

from aserve.core.errors import ClientDisconnected
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits

KINDS = [("http", "c"), ("http", "httptools"), ("uwsgi", "c"), ("scgi", "c")]
if not has_module("httptools"):  # as on PyPy
    KINDS.remove(("http", "httptools"))
EXAMPLES = 100 if SECONDS else 50  # at once; `make test` also runs the fuzzers beside the suite
PROBE = b"GET /list?probe HTTP/1.1\r\nHost: a\r\n\r\n"

fuzzed = pytest.mark.parametrize(("protocol", "parser"), first_on_pypy(KINDS), ids=["-".join(kind) for kind in KINDS])


# The protocols alone


def exchanges_of(protocol: Any, pieces: list[bytes]) -> list[tuple[Any, ...]]:
    """Return a protocol's exchanges from these pieces and the end behind the pieces, comparable."""
    found: list[Any] = []
    for piece in pieces:
        found += protocol.receive(piece)
        while protocol.has_unparsed:
            found += protocol.receive(b"")
    protocol.receive_eof()
    return [
        (
            exchange.vars, exchange.own_count, exchange.form, exchange.keep_alive, exchange.is_head, exchange.is_mounted,
            exchange.is_silent, exchange.ping, exchange.rpc, exchange.forwarded,
            exchange.refusal and (exchange.refusal.status, str(exchange.refusal)),
            None if exchange.refusal else body_of(exchange),
        )
        for exchange in found
    ]  # fmt: skip


def body_of(exchange: Any) -> Any:
    """Return the body, or the fault in place of a body."""
    body = exchange.body
    if body is None:
        return None
    try:
        octets = body.open().read()
    except ClientDisconnected as exc:
        return str(exc), str(body.refusal)
    body.close()
    return octets


def cut(octets: bytes, sizes: list[int]) -> list[bytes]:
    """Return the octets in pieces of these sizes, and the rest."""
    pieces = []
    for size in sizes:
        pieces.append(octets[:size])
        octets = octets[size:]
    return [piece for piece in [*pieces, octets] if piece]


@pytest.mark.long_on_pypy
@fuzzed
@pytest.mark.timeout(SECONDS + 400)  # Hypothesis makes a found case small, for minutes
def test_exchanges_are_the_same_however_cut(protocol, parser, hold):
    """Buffered bodies and live bodies make no difference."""

    def same(stream: Stream, sizes: list[int], is_live: bool) -> None:
        new = PROTOCOLS[protocol, parser](Limits(body_memory_bytes=4096, max_pipelined=MAX_PIPELINED, is_live=is_live))
        whole = exchanges_of(new(), [stream.octets])
        assert exchanges_of(new(), cut(stream.octets, sizes)) == whole

    hold(same, EXAMPLES, stream=streams(protocol, parser), sizes=sizes, is_live=st.booleans())


# Whole connections


def check_answers(stream: Stream, octets: bytes, is_closed: bool) -> Heard:
    """See that each good request is answered, in order and rightly; return the octets behind."""
    heard = Heard(octets)
    for request in stream.requests:
        reply = heard.recv_response(is_head=request.method == "HEAD")
        request.check(reply)
        if request.is_last or reply.get("Connection") == "close" or reply.framing == "close":
            assert request.is_last or b"HTTP/1.0" in request.octets, "closed for no reason"
            assert is_closed and not heard
            return heard
    return heard


def check_tail(stream: Stream, heard: Heard, is_closed: bool, is_live: bool) -> None:
    """Check the fate of the rest."""
    if stream.kind == "refused":
        assert is_closed
        if heard:
            assert heard.recv_response().status >= 400
    is_bodiless = not (is_live and stream.kind == "short")  # else the app may answer before the end
    if stream.kind in ("none", "refused", "beyond") or (stream.kind == "short" and is_bodiless):
        assert not heard, "answered what nobody has asked"


@fuzzed
@pytest.mark.timeout(SECONDS + 400)  # Hypothesis makes a found case small, for minutes
def test_connections_stay_in_sync_or_close(protocol, parser, hold):
    """
    Whatever happens in whatever order: good requests are answered, then the connection is in sync or closed.

    Nothing is raised, nothing logged as our fault, nothing left behind, and the answers depend on the stream alone.
    """

    def converse(stream: Stream, sizes: list[int], steps: list[str], end: str, way: str) -> None:
        new = functools.partial(Talk, protocol, parser, stream.octets, way)
        with Faults() as faults:
            plain, talk = new(), new()
            try:
                plain.finish(is_eof=end == "eof")
                talk.act(steps, sizes)
                if end != "lost":
                    talk.finish(sizes, is_eof=end == "eof")
                    compare(stream, plain, talk, way == "live")
                    if end == "open" and not talk.is_closed and stream.kind == "none":
                        talk.send_more(PROBE)
                        talk.finish()
                        assert b"\r\n\r\nGET /list?probe 0 0" in talk.heard[-100:], "out of sync"
                plain.lose()
                talk.lose()
                assert without_interim(plain.heard).startswith(without_interim(talk.heard)) or end == "open"
            finally:
                plain.harness.dispose()
                talk.harness.dispose()
        assert faults.found == []

    def compare(stream: Stream, plain: Talk, talk: Talk, is_live: bool) -> None:
        assert without_interim(talk.heard) == without_interim(plain.heard)
        assert talk.is_closed == plain.is_closed
        heard = check_answers(stream, without_interim(talk.heard), talk.is_closed)
        check_tail(stream, heard, talk.is_closed, is_live)

    hold(converse, EXAMPLES, stream=streams(protocol, parser), sizes=sizes, steps=steps, end=st.sampled_from(["open", "eof", "lost"]),
         way=st.sampled_from(["threads", "threads", "inline", "live"]))  # fmt: skip
