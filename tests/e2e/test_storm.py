"""Everything at once: many clients do good and bad things at random, and every response is compared.

Each request carries its own tag, brought back by its response: whatever leaves the lane, comes in parts, is pipelined or cut off, no client gets
another's response.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any, NamedTuple

import pytest
from harness import apps

SECONDS = 60.0  # at most
CONVERSATIONS = 10  # of each client
CLIENTS = 12
LONG = b"0123456789abcdef" * 25_000  # does not fit a socket's buffer


def app(environ: Any, start_response: Any) -> Any:
    """Answer with the tag and the body, in the way of the path."""
    tag, body = environ["QUERY_STRING"].encode(), environ["wsgi.input"].read()
    path, headers = environ["PATH_INFO"], [*apps.PLAIN, ("X-Tag", environ["QUERY_STRING"])]
    if path == "/raises":
        raise ValueError("meant to fail")
    if path == "/sleeps":
        time.sleep(0.003)
    elif path == "/burns":
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
    elif path == "/hints":
        environ["wsgi.early_hints"]([("Link", "</a>")])
    if path == "/none":
        start_response("204 No Content", headers)
        return []
    write = start_response("200 OK", headers)
    if path == "/pieces":
        return iter([tag, b"|", body])
    if path == "/writes":
        write(tag)
        return [b"|", body]
    if path == "/long":
        return [tag + b"|" + body + LONG]
    return [tag, b"|", body]


PATHS = ["/"] * 8 + ["/raises", "/sleeps", "/burns", "/hints", "/none", "/pieces", "/writes", "/long"]


class Request(NamedTuple):
    """One request, and its expected response."""

    octets: bytes
    tag: str
    is_head: bool
    is_last: bool
    status: int
    content: bytes | None  # of the response; None: not looked at

    def check(self, reply: Any) -> None:
        assert reply.status == self.status
        if self.content is not None:
            assert (reply.get("X-Tag"), reply.body) == (self.tag, self.content)


def new_request(choose: random.Random, tag: str) -> Request:
    """Return a request of any kind."""
    path, method = choose.choice(PATHS), choose.choice(["GET", "GET", "HEAD", "POST"])
    lines, body, octets = [f"{method} {path}?{tag} HTTP/1.1", "Host: a"], b"", b""
    is_last = choose.random() < 0.05
    if is_last:
        lines.append("Connection: close")
    if method == "POST":
        octets = body = bytes([choose.randrange(256)]) * choose.choice([0, 1, 100, 5000, 200_000])
        if choose.random() < 0.2:
            lines.append("Transfer-Encoding: chunked")
            octets = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
        else:
            lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, "", ""]).encode()
    content = tag.encode() + b"|" + body + (LONG if path == "/long" else b"")
    status = {"/raises": 500, "/none": 204}.get(path, 200)
    if method == "HEAD" or status == 204:
        content = b""
    return Request(head + octets, tag, method == "HEAD", is_last, status, None if status == 500 else content)


def send_in_pieces(choose: random.Random, client: Any, octets: bytes) -> None:
    """Send octets, sometimes cut anywhere, with short breaks."""
    cuts = sorted(choose.randrange(len(octets)) for _ in range(choose.choice([0, 0, 1, 3])))
    for begin, end in zip([0, *cuts], [*cuts, len(octets)]):
        client.send(octets[begin:end])
        time.sleep(choose.choice([0, 0, 0.0005]))


def converse(choose: random.Random, client: Any, tags: Any) -> int:
    """Send requests until this client has had enough; return how many were answered."""
    count = 0
    for _ in range(choose.randint(1, 12)):
        requests = [new_request(choose, next(tags)) for _ in range(choose.choice([1, 1, 1, 1, 1, 7]))]
        for number, request in enumerate(requests):
            if request.is_last:
                del requests[number + 1 :]
        octets = b"".join(request.octets for request in requests)
        mood = choose.random()
        if mood < 0.03:  # leaves in the middle
            client.send(octets[: choose.randrange(len(octets))])
            choose.choice([client.close, client.reset])()
            return count
        if mood < 0.06:
            client.send(b"BAD REQUEST\r\n\r\n")
            assert client.recv_response().status == 400
            return count
        sender = threading.Thread(target=send_in_pieces, args=(choose, client, octets), daemon=True)
        sender.start()
        for request in requests:
            reply = client.recv_response(request.is_head)
            while reply.status == 103:
                reply = client.recv_response(request.is_head)
            request.check(reply)
            count += 1
        sender.join()
        if requests[-1].is_last:
            assert client.recv_to_end() == b""
            return count
    return count


@pytest.mark.slow
@pytest.mark.one_way
@pytest.mark.also_inline
def test_a_storm_crosses_no_response(start_server, raw_client, caplog):
    """Each of many clients gets its own responses, whatever the rest do; in the end nothing is left."""
    caplog.set_level("CRITICAL", "aserve.app")  # for requests that are meant to fail
    server = start_server(app, is_checked=False)
    faults, counts = [], []

    def be_client(number: int) -> None:
        choose = random.Random(f"storm {number}")
        tags = (f"{number}-{count}" for count in range(1 << 30))
        try:
            for _ in range(CONVERSATIONS):
                client = raw_client(server)
                counts.append(converse(choose, client, tags))
                client.close()
        except BaseException as exc:
            faults.append(exc)

    threads = [threading.Thread(target=be_client, args=(number,), daemon=True) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "a client waits for ever"
    if faults:
        raise faults[0]
    assert sum(counts) > 100
    server.wait_until_idle()
