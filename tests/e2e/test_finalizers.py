"""The collector runs an app's finalizers between any two bytecodes of aserve: their calls wait for nothing, and nothing stands still."""

import concurrent.futures
import contextlib
import pathlib

import pytest
from harness.client import RawClient, Truncated
from harness.interpreter import NATIVE_KINDS, later_on_pypy

APP = f"{pathlib.Path(__file__).parent / 'finalizing_app.py'}:app"
FORMS = ("/", "/pieces", "/written", "/large")
ROUNDS = 12


@pytest.mark.parametrize("native", NATIVE_KINDS)
@pytest.mark.parametrize(
    "flags",
    [["--threads", "0"], ["--threads", "4"], later_on_pypy(["--threads", "4", "--request-timeout", "600"])],
    ids=" ".join,
)
def test_finalizers_that_call_into_responses(start_process, flags, native):
    """Finalizers call start_response, write() and early hints of running requests, on any thread; the server answers on, and ends."""
    process = start_process(APP, "--native", native, *flags)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ask(process.address, FORMS[number % len(FORMS)]), range(8)))
    process.signal()
    assert process.wait() == 0


@pytest.mark.parametrize("native", NATIVE_KINDS)
@pytest.mark.parametrize("flags", [[], later_on_pypy(["--request-timeout", "600"])], ids=" ".join)
def test_a_body_that_is_read_on_the_event_loop(start_process, flags, native):
    """A body's octets come through the loop: a reader on the loop gets an error, and the server answers on."""
    process = start_process(
        f"{APP.rpartition('/')[0]}/reading_app.py:app", "--body", "stream", "--native", native, *flags
    )
    for head in (b"Content-Length: 10", b"Transfer-Encoding: chunked"):
        with contextlib.closing(RawClient(process.address)) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n2")
            assert b"on the event loop's thread" in client.recv_response().body
    process.signal()
    assert process.wait() == 0


def ask(address, form):
    """Ask again and again; a response may be cut, but the server must not fall silent: the client's time-out fails the test."""
    for _ in range(ROUNDS):
        with contextlib.closing(RawClient(address)) as client:
            client.request(form)
            with contextlib.suppress(Truncated, ConnectionError, AssertionError, ValueError):
                client.recv_response()
