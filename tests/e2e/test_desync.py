"""Request smuggling: after each pair of the corpus a connection is in sync, or closed.

tests/desync.py says what the files are.
"""

from __future__ import annotations

import desync
import pytest

PAIRS = desync.load()


def receive_answers(client, expected):
    """Receive what the file says that comes."""
    methods = [method for method, _, _ in expected["seen"]] + [""] * len(expected["answers"])
    for answer, method in zip(expected["answers"], methods):
        if answer == "cut":
            with pytest.raises(client.Truncated):
                client.recv_response()
        elif isinstance(answer, str):
            assert client.recv_head().status == int(answer)
        else:
            reply = client.recv_response(is_head=method == "HEAD")
            while reply.status < 200:
                reply = client.recv_response(is_head=method == "HEAD")
            assert reply.status == answer
            assert reply.get("Date")  # RFC 9110 6.6.1


@pytest.mark.parametrize("body", ["buffer", "stream"])
@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_directly(start_server, raw_client, way, pair, body):
    """The app sees the requests that were sent and no other; the next one is answered as itself."""
    witness = desync.Witness()
    client = raw_client(start_server(witness, is_checked=False, body=body, **desync.SETTINGS))
    expected = pair.by(way.http_parser)
    client.send(pair.raw)
    if expected.get("end") == "eof":
        client.end_sending()
    receive_answers(client, expected)
    expected_seen = list(expected["seen"])
    if expected["then"] == "open":
        reply = client.fetch("/probe")
        assert (reply.status, reply.get("X-Target")) == (200, "/probe")
        assert client.is_quiet()
        expected_seen.append(["GET", "/probe", ""])
    else:
        assert client.is_closed()
    seen = witness.take()
    assert [[method, target, text] for method, target, text, _, _ in seen] == expected_seen
    if "hosts" in expected:
        assert [request.host for request in seen][: len(expected["hosts"])] == expected["hosts"]
