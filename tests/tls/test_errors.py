"""OpenSSL's queue of errors: one session's error is not another's."""

import ssl
import sys
import types

import pytest
from harness.certificates import MemoryClient

from aserve.tls.errors import guard


def new_session(issued):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(issued.certificate), str(issued.key))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return incoming, outgoing, context.wrap_bio(incoming, outgoing, server_side=True)


def shaken(authority, issued):
    client, (incoming, outgoing, session) = MemoryClient(authority), new_session(issued)
    is_done = False
    while not (client.shake_hands() and is_done):
        incoming.write(client.outgoing.read())
        try:
            guard(session.do_handshake)()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        client.incoming.write(outgoing.read())
    return session


def test_stale_errors_stay_with_their_connection(authority, localhost):
    """One connection's error is not another's, whatever a Python leaves in OpenSSL's queue."""
    broken, other = [shaken(authority, localhost) for _ in range(2)]
    incoming, _, stranger = new_session(localhost)
    incoming.write(b"\x16\x03\x01\x00\x05xxxxx")
    with pytest.raises(ssl.SSLError) as caught:
        guard(stranger.do_handshake)()
    assert not isinstance(caught.value, ssl.SSLWantReadError)
    with pytest.raises(ssl.SSLWantReadError):
        other.read(1)  # the queue is clear
    if sys.implementation.name == "pypy":
        incoming, _, stranger = new_session(localhost)
        incoming.write(b"\x16\x03\x01\x00\x05xxxxx")
        with pytest.raises(ssl.SSLError):
            stranger.do_handshake()
        with pytest.raises(ssl.SSLError) as caught:
            other.read(1)
        assert not isinstance(caught.value, ssl.SSLWantReadError), "PyPy is better now: `guard` can go"
    with pytest.raises(ssl.SSLWantReadError):
        guard(broken.read)(1)  # and if it is not, it is looked at again
    with pytest.raises(ValueError):
        guard(int)("x")


STALE, WANT_READ, OTHER = ssl.SSLError(1, "stale"), ssl.SSLWantReadError(2, "wait"), ssl.SSLError(1, "another")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([b"x"], b"x"),
        ([b""], b""),
        ([WANT_READ], WANT_READ),
        ([ValueError()], ValueError),
        ([STALE, WANT_READ], WANT_READ),  # somebody else's: nothing has come
        ([STALE, b"x"], b"x"),
        ([STALE, OTHER], STALE),  # its own: the session is broken
        ([STALE, b""], STALE),
    ],
)
def test_guard_on_pypy(monkeypatch, results, expected):
    """There a call that fails is made once more, with a clear queue; the first error is the one that is told."""
    monkeypatch.setattr(
        "aserve.tls.errors.sys", types.SimpleNamespace(implementation=types.SimpleNamespace(name="pypy"))
    )
    left = list(results)

    def function(argument):
        assert argument == 5
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    try:
        returned = guard(function)(5)
    except Exception as exc:
        returned = exc
    assert (returned is expected or returned == expected or type(returned) is expected) and not left
