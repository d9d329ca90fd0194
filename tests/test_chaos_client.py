"""The fault-injecting client finds what a wrong server does, and nothing at a right one; its requests are bounded and repeatable."""

from __future__ import annotations

import asyncio
import json

import pytest
from harness.benchmarks import modules

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

apps, chaos_client = modules("apps", "chaos_client")
GOOD_ONLY = chaos_client.parse_mix("good=1")


class WrongServer:
    """A tiny server of the app `token`, right but for one fault at every fifth request; `limit`: requests a connection."""

    def __init__(self, fault: str, limit: int = 1000) -> None:
        self._fault, self._limit = fault, limit
        self._count = 0
        self._last = "token=nobody&size=0"
        self._times: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            for _ in range(self._limit):
                if not await self._answer(reader, writer):
                    break
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; return whether the connection is kept."""
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
    """Return what the client has seen at such a server."""

    async def scenario():
        server = await asyncio.start_server(WrongServer(fault, limit).serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            target = chaos_client.parse_target(f"http://127.0.0.1:{port}/")
            return await chaos_client.run(target, mix, 7, 4, requests, 60.0, **settings)

    return asyncio.run(scenario())


def test_nothing_is_found_at_a_right_server():
    """Every good request amid bad ones counts as right, and the kinds come as the mix says."""
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
    """Of a wrong server's answers those are told that are wrong, by what is wrong with them."""
    seen = load(fault, timeout_seconds=0.5 if fault == "silent" else 30.0, requests=40 if fault == "silent" else 200)
    assert not seen["is_sound"]
    assert seen[found], seen
    assert any(each["what"] == found for each in seen["findings"])
    if fault != "silent":  # a busy machine may not answer the others in half a second either
        assert sum(seen[what] for what in chaos_client.JUDGED) >= 0.1 * seen["sent"]["good"]
        assert seen["right"] >= 0.4 * seen["sent"]["good"]


def test_a_kept_connection_may_be_closed_between_requests():
    """A request that meets a close without an octet of an answer is sent once more; right, if the app has not seen it."""
    seen = load("", limit=3)
    assert seen["is_sound"], seen["findings"]
    assert seen["again"]


def test_a_request_that_was_run_but_not_answered_is_found():
    """A server that closes behind the app's call makes the second try a second call."""
    seen = load("unasked again")
    assert seen["doubled"]
    assert not seen["is_sound"]


def test_late_answers_are_told_and_not_judged():
    """Late is no fault: it depends on the machine."""
    seen = load("", late_seconds=0.0)
    assert seen["late"] == seen["right"]
    assert seen["is_sound"]


def test_a_seed_decides_what_is_sent():
    """Two runs of one seed send the same, and another seed something else."""
    mix = chaos_client.parse_mix("good=50,reset=25,vanish=25")
    first, second = (load("", mix)["sent"] for _ in range(2))
    assert first == second
    assert first["reset"] and first["vanish"]


def test_the_count_of_requests_is_a_bound():
    """No more is done than was asked for; each client does its share."""
    seen = load("", chaos_client.parse_mix("good=1,vanish=1"), requests=30)
    assert 30 + 1 <= sum(seen["sent"].values()) <= 30 * 2 + 2  # one when all is over; two at once are one thing to do


def test_a_server_that_is_not_there_loses_all():
    """Nobody listens: exit status 1, and JSON that says why."""
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda text: printed.append(text))
        status = chaos_client.main(["http://127.0.0.1:1/", "--requests", "3", "--clients", "1", "--json"])
    seen = json.loads(printed[0])
    assert status == 1
    assert seen["lost"] == seen["sent"]["good"] + seen["sent"]["slow"]
    assert "not connected" in seen["findings"][0]["seen"]


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:80/", "ftp://127.0.0.1:21/", "http://127.0.0.1/", "127.0.0.1:80", "http://example.org:80/"]
)
def test_only_this_machine_is_loaded(url):
    """A target elsewhere, or one that is none, is refused."""
    with pytest.raises(ValueError):
        chaos_client.parse_target(url)


@pytest.mark.parametrize("text", ["good", "good=0", "malformed=1", "bad=1", "good=-1"])
def test_a_mix_that_judges_nothing_is_refused(text):
    """So is a kind that is not known."""
    with pytest.raises(ValueError):
        chaos_client.parse_mix(text)


@pytest.mark.parametrize("protocol", ["http", "uwsgi", "scgi"])
def test_requests_are_whole(protocol):
    """What is sent has the token and the body, in each protocol."""
    target = chaos_client.parse_target(f"{protocol}://unix:/run/x")
    octets = chaos_client.build_request(target, "token=a-1&size=0", b"the body", True)
    assert octets.endswith(b"the body")
    assert b"token=a-1&size=0" in octets
    assert b"8" in octets


def test_the_report_is_for_people():
    """It has the counts, what was found, and a verdict."""
    text = chaos_client.format_report(load("crossed", requests=20))
    assert "crossed: good token=7-" in text
    assert text.endswith("FAULTS")
    assert chaos_client.format_report(load("", requests=20)).endswith("every good request got its answer")
