"""The fault-injecting client finds a wrong server's faults, and nothing at a right server; the requests are bounded and repeatable."""

import asyncio

import pytest
from harness.benchmarks import modules

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

apps, chaos_client = modules("apps", "chaos_client")
GOOD_ONLY = chaos_client.parse_mix("good=1")


class WrongServer:
    """A tiny server of the app `token`, right but for a fault at every fifth request; `limit`: requests a connection."""

    def __init__(self, fault: str, limit: int = 1000) -> None:
        self._fault, self._limit = fault, limit
        self._count = 0
        self._last = "token=nobody&size=0"
        self._times: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(self._limit):
                if not await self._answer(reader, writer):
                    break
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read and answer a request; return whether the connection is kept."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if not head.startswith(("GET /?", "POST /?")):
            return False
        _, _, length = head.lower().partition("content-length: ")
        body = await reader.readexactly(int(length.split("\r\n")[0])) if length else b""
        query = head.split()[1].partition("?")[2]
        self._count += 1
        self._times[query] = self._times.get(query, 0) + 1
        fault = self._fault if self._count % 5 == 0 else ""
        if fault == "silent":
            await reader.read()  # until the client gives up
            return False
        if fault == "unasked" or (fault == "unasked again" and self._times[query] == 1):
            return False
        said = self._last if fault == "crossed" else query
        answer = apps.token_answer(said, self._times[query] + (fault == "ran twice"), body)
        if fault == "garbled":
            answer = b"x" * len(answer)
        self._last = query
        status = "500 No" if fault == "status" else "200 OK"
        octets = f"HTTP/1.1 {status}\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer
        if fault == "cut":
            octets = octets[:-1]
        writer.write(octets * (2 if fault == "twice" else 1))
        await writer.drain()
        return fault != "cut" and "close" not in head


def load(fault: str, mix=GOOD_ONLY, requests=200, limit=1000, **settings):
    """Return the client's view of such a server."""

    async def scenario():
        server = await asyncio.start_server(WrongServer(fault, limit).serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            target = chaos_client.parse_target(f"http://127.0.0.1:{port}/")
            return await chaos_client.run(target, mix, 7, 4, requests, 60.0, **settings)

    return asyncio.run(scenario())


def test_nothing_is_found_at_a_right_server():
    """Every good request amid bad requests counts as right, and the kinds come by the mix."""
    seen = load("", chaos_client.parse_mix(chaos_client.MIX))
    assert seen["is_sound"], seen
    assert seen["findings"] == []
    assert seen["right"] == seen["sent"]["good"] + seen["sent"]["slow"]
    assert all(seen["sent"].values()), seen["sent"]
    assert seen["sent"]["good"] > 100
    assert sum(seen["reactions"]["malformed"].values()) == seen["sent"]["malformed"]


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("crossed", "crossed"),
        ("twice", "doubled"),
        ("ran twice", "doubled"),
        ("cut", "lost"),
        ("silent", "lost"),
        ("status", "wrong"),
        ("garbled", "wrong"),
    ],
)
def test_a_fault_is_found(fault, found):
    """A wrong server's wrong answers are told, by their faults."""
    seen = load(fault, timeout_seconds=0.5 if fault == "silent" else 30.0, requests=40 if fault == "silent" else 200)
    assert not seen["is_sound"]
    assert seen[found], seen
    assert any(each["what"] == found for each in seen["findings"])
    if fault != "silent":  # a busy machine may not answer the rest in half a second either
        assert sum(seen[what] for what in chaos_client.JUDGED) >= 0.1 * seen["sent"]["good"]
        assert seen["right"] >= 0.4 * seen["sent"]["good"]


def test_a_request_that_was_run_but_not_answered_is_found():
    """A close behind the app's call makes the second try a second call."""
    seen = load("unasked again")
    assert seen["doubled"]
    assert not seen["is_sound"]
