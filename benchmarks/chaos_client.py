"""A load of good and bad clients, seeded: each good request carries a token, and its own answer must come back.

    aserve --bind 127.0.0.1:8000 apps:token &                      # in benchmarks/; any server of that app
    python benchmarks/chaos_client.py http://127.0.0.1:8000/
    python benchmarks/chaos_client.py uwsgi://unix:/run/app.sock --mix good=90,malformed=10 --seed 7 --json

Kinds:    good       GET or POST on kept connections, and two requests at once (http)
          slow       a good request in pieces, with pauses between them; the answer is read slowly, too
          malformed  octets that are no request; the answer's status is told, not judged
          truncated  half a request, then the end of it
          reset      half a request, a whole one, or half an answer, and a reset (TCP; a unix socket is closed)
          vanish     the same, and a close; or nothing at all
Judged:   of good and slow ones: lost (no whole answer in time), wrong (another status, octets that are not its own),
          crossed (the answer to another request), doubled (answered twice, or the app was called twice); these make
          the exit status 1. Late ones are told. A request on a kept connection that the server closes without an
          octet of an answer is sent once more, as browsers do, and told as `again`.
Bounds:   --requests, --seconds, --timeout; each client stops at the first of them. Only this machine is loaded.
Owns:     what clients do and how answers are judged. Standard library alone, so that it runs anywhere.
Not here: the app (apps.py: token); servers started beside one another (bench_serve.py --app token --chaos).
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import ipaddress
import json
import math
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from apps import token_answer

KINDS = ("good", "slow", "malformed", "truncated", "reset", "vanish")
JUDGED = ("lost", "wrong", "crossed", "doubled")
MIX = "good=80,slow=4,malformed=4,truncated=4,reset=4,vanish=4"
LISTED = 50  # findings that are told one by one
KEPT_REQUESTS = 10  # at most, on one connection
REACTION_SECONDS = 2.0  # that a server has to say something to a bad request
TRAILING_SECONDS = 0.05  # after the last answer of a connection: does anything follow?
PAUSE_SECONDS = 0.02  # between the pieces of a slow request
PIECES = 12
LARGE_OCTETS = 200_000  # more than a socket's buffers hold at once, so that half an answer can be left
BODY_OCTETS = (0, 1, 100, 5000, 70_000)
NO_REQUESTS = {
    "http": (
        b"\r\n\r\n\r\nGET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60),  # a TLS ClientHello
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        b"G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: %s\r\n" % (b"a" * 100_000) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
    ),
    "uwsgi": (
        b"\x00\x05\x00\x00\xff\xffabc",  # a name longer than the packet
        b"\x00\x02\x00\x00ab",
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    "scgi": (
        b"5:abcde,",  # no name and value
        b"99999999999:a",
        b"abc:d,",
        b"22:CONTENT_LENGTH\0-1\0S\0\x31\0,",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
}


class Target(NamedTuple):
    """Where the server is, and what it speaks."""

    protocol: str  # http, uwsgi, scgi
    host: str
    port: int
    sock: str  # a unix socket's path; empty: TCP
    path: str


class Answer(NamedTuple):
    """A whole response."""

    status: int
    body: bytes
    is_last: bool  # the server keeps the connection no longer


class Unanswered(Exception):
    """No whole answer has come; `nothing`: not an octet of it, and the connection was ended."""

    def __init__(self, why: str, nothing: bool = False) -> None:
        super().__init__(why)
        self.nothing = nothing


def parse_target(url: str) -> Target:
    """
    Return what a URL names: PROTOCOL://HOST:PORT/PATH or PROTOCOL://unix:/path/of/socket.

    Raises:
        ValueError: it is no such URL, or not on this machine: a load of bad requests is an attack elsewhere.
    """
    protocol, separator, rest = url.partition("://")
    if not separator or protocol not in NO_REQUESTS:
        raise ValueError(f"{url!r}: give http://, uwsgi:// or scgi://, and HOST:PORT or unix:PATH")
    if rest.startswith("unix:"):
        return Target(protocol, "localhost", 0, rest[len("unix:") :], "/")
    parts = urlsplit(f"//{rest}")
    if not parts.hostname or not parts.port:
        raise ValueError(f"{url!r}: give a host and a port")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(f"{url!r}: only a server on this machine may be loaded with bad requests")
    return Target(protocol, host, parts.port, "", parts.path or "/")


def parse_mix(text: str) -> dict[str, int]:
    """
    Return the weight of each kind in `good=80,slow=20`.

    Raises:
        ValueError: a kind is not known, or no request would be judged.
    """
    mix = dict.fromkeys(KINDS, 0)
    for part in text.split(","):
        kind, _, weight = part.partition("=")
        if kind not in mix or not weight.isdigit():
            raise ValueError(f"{part!r}: give KIND=WEIGHT; there are {', '.join(KINDS)}")
        mix[kind] = int(weight)
    if not mix["good"] + mix["slow"]:
        raise ValueError(f"{text!r}: without good or slow requests nothing can be judged")
    return mix


# Requests and answers in octets


def build_request(target: Target, query: str, body: bytes | None, is_last: bool) -> bytes:
    """Return a request in the target's protocol; body None: a GET."""
    method = "GET" if body is None else "POST"
    if target.protocol == "http":
        lines = [f"{method} {target.path}?{query} HTTP/1.1", "Host: localhost"]
        lines += [f"Content-Length: {len(body)}"] if body is not None else []
        lines += ["Connection: close"] * is_last
        return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
    variables = {
        "CONTENT_LENGTH": str(len(body or b"")),
        "SCGI": "1",
        "REQUEST_METHOD": method,
        "REQUEST_URI": f"{target.path}?{query}",
        "SCRIPT_NAME": "",
        "PATH_INFO": target.path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
    }
    if target.protocol == "scgi":
        block = "".join(f"{name}\0{value}\0" for name, value in variables.items()).encode()
        return b"%d:%s," % (len(block), block) + (body or b"")
    del variables["SCGI"]
    words = (word.encode() for pair in variables.items() for word in pair)
    block = b"".join(struct.pack("<H", len(word)) + word for word in words)
    return struct.pack("<BHB", 0, len(block), 0) + block + (body or b"")


async def read_answer(reader: asyncio.StreamReader, pause_seconds: float = 0.0) -> Answer:
    """
    Read one answer to its end.

    Raises:
        Unanswered: the connection was ended before, or what came is none.
    """
    head = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        # SCGI begins with a Status field, the others with a status line.
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split()[1])
        if status == 100:
            return await read_answer(reader)
        is_last = fields.get("connection", "").lower() == "close" or first.startswith(("Status:", "HTTP/1.0"))
        if "chunked" in fields.get("transfer-encoding", ""):
            return Answer(status, await _read_chunks(reader), is_last)
        if "content-length" in fields:
            left, pieces = int(fields["content-length"]), []
            while left:
                piece = await reader.read(min(left, 20_000)) if pause_seconds else await reader.readexactly(left)
                if not piece:
                    raise Unanswered(f"the connection was closed {left} octets before the answer's end")
                pieces.append(piece)
                left -= len(piece)
                await asyncio.sleep(pause_seconds)
            return Answer(status, b"".join(pieces), is_last)
        return Answer(status, await reader.read(), True)
    except asyncio.IncompleteReadError as fault:
        nothing = not head and not fault.partial
        raise Unanswered("the connection was closed before the answer's end" if not nothing else "closed", nothing)
    except OSError as fault:
        raise Unanswered(f"{fault.strerror or fault!r}", not head)
    except (ValueError, IndexError, asyncio.LimitOverrunError) as fault:
        raise Unanswered(f"what came is no answer: {fault}; {head[:60]!r}")


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(pieces)


# Judging


class Asked(NamedTuple):
    """A request that must be answered."""

    kind: str
    query: str
    body: bytes | None


class Findings:
    """What has been seen: counts, times, and the first of what is not as it must be."""

    def __init__(self, late_seconds: float) -> None:
        self.run = os.urandom(4).hex()  # the app counts across the runs that a server sees
        self.late_seconds = late_seconds
        self.sent = dict.fromkeys(KINDS, 0)
        self.counts: dict[str, int] = dict.fromkeys(("right", *JUDGED, "late", "again"), 0)
        self.reactions: dict[str, collections.Counter[str]] = {
            kind: collections.Counter() for kind in KINDS if kind not in ("good", "slow")
        }
        self.listed: list[dict[str, str]] = []
        self.times_ms: list[float] = []
        self._answered: set[str] = set()

    @property
    def is_sound(self) -> bool:
        """Whether every request got its own answer, once."""
        return bool(self.counts["right"]) and not any(self.counts[kind] for kind in JUDGED)

    def judge(self, asked: Asked, answer: Answer, seconds: float) -> bool:
        """Count an answer; return whether the connection may be used further: what it carries is known."""
        if answer.status != 200:
            return self.note("wrong", asked, f"status {answer.status}")
        if answer.body == token_answer(asked.query, 1, asked.body or b""):
            self.counts["right"] += 1
            self._answered.add(asked.query)
            if asked.kind == "good":
                self.times_ms.append(seconds * 1000)
                if seconds > self.late_seconds:
                    self.note("late", asked, f"after {seconds:.2f} s")
            return True
        words = answer.body.partition(b"\n")[0].split(b" ")
        query = words[0].decode("latin-1")
        times = int(words[1]) if len(words) == 4 and words[1].isdigit() else 0
        if query == asked.query and times > 1:
            return self.note("doubled", asked, f"the app was called {times} times")
        is_own = query.startswith(asked.query.rpartition("-")[0] + "-")  # the same client's
        if times and is_own and query in self._answered:
            return self.note("doubled", asked, f"the answer to {query} has come once more")
        if times and query != asked.query:
            return self.note("crossed", asked, f"the answer to {query} has come")
        return self.note("wrong", asked, f"{len(answer.body)} octets, {answer.body[:60]!r}")

    def note(self, what: str, asked: Asked, text: str) -> bool:
        """Count and list what is not as it must be; return False."""
        self.counts[what] += 1
        if len(self.listed) < LISTED:
            self.listed.append({"what": what, "kind": asked.kind, "request": asked.query, "seen": text})
        return False


# Clients


class Client:
    """One of those that ask at the same time: what it does is decided by the seed and its number."""

    def __init__(self, target: Target, mix: dict[str, int], seed: int, number: int, findings: Findings, limits: Limits):
        self._target, self._findings, self._limits = target, findings, limits
        self._kinds, self._weights = list(mix), list(mix.values())
        self._random = random.Random(f"{seed} {number}")
        self._name = f"{seed}-{findings.run}-{number}"
        self._serial = 0
        self._connection: Connection | None = None

    async def run(self, requests: int) -> None:
        """Do so many things, until the time is over."""
        try:
            for _ in range(requests):
                if time.monotonic() > self._limits.end:
                    break
                kind = self._random.choices(self._kinds, self._weights)[0]
                self._findings.sent[kind] += 1
                await getattr(self, f"_do_{kind}")()
        finally:
            await self._leave()

    def _ask(self, kind: str) -> Asked:
        """Return the next request with a token of its own."""
        self._serial += 1
        size = LARGE_OCTETS if kind == "slow" else self._random.choice((0, 0, 0, 10, 3000))
        body = None
        if self._random.random() < 0.3:
            body = (b"%d " % self._serial * 70_000)[: self._random.choice(BODY_OCTETS)]
        return Asked(kind, f"token={self._name}-{self._serial}&size={size}", body)

    # Those that are judged

    async def _do_good(self) -> None:
        """Ask on the connection that is kept, or on a new one; sometimes two at once, sometimes for the last time."""
        is_pair = self._target.protocol == "http" and self._random.random() < 0.2
        asked = [self._ask("good") for _ in range(1 + is_pair)]
        is_last = self._random.random() < 1 / KEPT_REQUESTS
        self._findings.sent["good"] += is_pair
        await self._exchange(asked, is_last)
        if is_last:
            await self._leave()

    async def _exchange(self, asked: Sequence[Asked], is_last: bool, may_ask_again: bool = True) -> None:
        """Send requests at once, and judge what comes."""
        is_reused = self._connection is not None
        for number, each in enumerate(asked):
            try:
                connection = self._connection or await self._connect()
                if not number:
                    octets = [
                        build_request(self._target, one.query, one.body, is_last and one is asked[-1]) for one in asked
                    ]
                    started = time.perf_counter()
                    connection.writer.write(b"".join(octets))
                answer = await self._in_time(read_answer(connection.reader))
            except Unanswered as fault:
                await self._drop()
                left = asked[number:]
                if fault.nothing and may_ask_again and (is_reused or number):
                    # It may close a kept connection at any time. It must not have run what it does not answer: then the
                    # app says so.
                    self._findings.counts["again"] += len(left)
                    for one in left:
                        await self._exchange([one], is_last and one is left[-1], may_ask_again=False)
                    return
                for one in left:
                    self._findings.note("lost", one, str(fault))
                return
            may_go_on = self._findings.judge(each, answer, time.perf_counter() - started)
            if answer.is_last or self._target.protocol != "http" or not may_go_on:
                await (self._leave(asked[number]) if may_go_on else self._drop())
                if number + 1 < len(asked):
                    if may_go_on:
                        self._findings.counts["again"] += len(asked) - number - 1
                    await self._exchange(asked[number + 1 :], is_last, may_ask_again=False)
                return

    async def _do_slow(self) -> None:
        """Send a request in pieces, and read slowly what comes."""
        asked = self._ask("slow")
        octets = build_request(self._target, asked.query, asked.body, True)
        step = math.ceil(len(octets) / PIECES)
        connection = None
        try:
            connection = await self._open()
            for start in range(0, len(octets), step):
                connection.writer.write(octets[start : start + step])
                await asyncio.sleep(PAUSE_SECONDS)
            answer = await self._in_time(read_answer(connection.reader, PAUSE_SECONDS))
            self._findings.judge(asked, answer, 0.0)
        except Unanswered as fault:
            self._findings.note("lost", asked, str(fault))
        finally:
            if connection:
                await connection.close()

    # Bad ones

    async def _do_malformed(self) -> None:
        await self._react("malformed", self._random.choice(NO_REQUESTS[self._target.protocol]))

    async def _do_truncated(self) -> None:
        octets = self._bad_request()
        await self._react("truncated", octets[: self._random.randrange(1, len(octets))], ends=True)

    async def _do_reset(self) -> None:
        await self._break_off("reset", is_reset=True)

    async def _do_vanish(self) -> None:
        await self._break_off("vanish", is_reset=False)

    def _bad_request(self) -> bytes:
        """Return a request with a body and a large answer, which nobody waits for."""
        self._serial += 1
        query = f"token={self._name}-{self._serial}&size={LARGE_OCTETS}"
        return build_request(self._target, query, b"x" * self._random.choice(BODY_OCTETS[1:]), False)

    async def _react(self, kind: str, octets: bytes, ends: bool = False) -> None:
        """Send what is no request; note what the server says to it."""
        try:
            connection = await self._open()
        except Unanswered as fault:
            self._findings.reactions[kind][str(fault)] += 1
            return
        try:
            connection.writer.write(octets)
            if ends:
                connection.writer.write_eof()
            answer = await asyncio.wait_for(read_answer(connection.reader), REACTION_SECONDS)
            self._findings.reactions[kind][str(answer.status)] += 1
        except Unanswered as fault:
            self._findings.reactions[kind]["closed" if fault.nothing else "broken off"] += 1
        except asyncio.TimeoutError:  # before OSError, whose kind it is from Python 3.11 on
            self._findings.reactions[kind]["silent"] += 1
        except OSError:
            self._findings.reactions[kind]["closed"] += 1
        finally:
            await connection.close()

    async def _break_off(self, kind: str, is_reset: bool) -> None:
        """Leave: before, in the middle of or behind a request, or in the middle of its answer."""
        octets = self._bad_request()
        where = self._random.choice(("connected", "in the request", "behind the request", "in the answer"))
        sent = {"connected": 0, "in the request": self._random.randrange(1, len(octets))}.get(where, len(octets))
        try:
            connection = await self._open()
        except Unanswered as fault:
            self._findings.reactions[kind][str(fault)] += 1
            return
        try:
            connection.writer.write(octets[:sent])
            await asyncio.wait_for(connection.writer.drain(), REACTION_SECONDS)
            if where == "in the answer":
                await asyncio.wait_for(connection.reader.read(100), REACTION_SECONDS)
        except (OSError, asyncio.TimeoutError):
            pass  # the server has left first, or says nothing: as one likes
        finally:
            self._findings.reactions[kind][where] += 1
            await connection.close(is_reset)

    # Connections

    async def _connect(self) -> Connection:
        self._connection = await self._open()
        return self._connection

    async def _open(self) -> Connection:
        """
        Return a new connection.

        Raises:
            Unanswered: it is refused, or not accepted in time.
        """
        try:
            if self._target.sock:
                opening = asyncio.open_unix_connection(self._target.sock)
            else:
                opening = asyncio.open_connection(self._target.host, self._target.port)
            return Connection(*await asyncio.wait_for(opening, self._limits.timeout_seconds))
        except asyncio.TimeoutError:
            raise Unanswered("not connected in time")
        except OSError as fault:
            raise Unanswered(f"not connected: {fault.strerror or fault!r}")

    async def _in_time(self, answer: Awaitable[Answer]) -> Answer:
        try:
            return await asyncio.wait_for(answer, self._limits.timeout_seconds)
        except asyncio.TimeoutError:
            raise Unanswered(f"no answer in {self._limits.timeout_seconds:g} s")

    async def _leave(self, asked: Asked | None = None) -> None:
        """Close the kept connection, and look whether anything follows that nobody has asked for."""
        if not self._connection:
            return
        try:
            more = await asyncio.wait_for(self._connection.reader.read(1000), TRAILING_SECONDS)
        except (OSError, asyncio.TimeoutError):
            more = b""
        await self._drop()
        # A server that tires of a kept connection may say so before it closes it: RFC 9110 15.5.9.
        if more and not more.startswith((b"HTTP/1.1 408", b"HTTP/1.0 408")):
            last = asked or Asked("good", f"token={self._name}-{self._serial}", None)
            self._findings.note("doubled", last, f"more follows the last answer: {more[:60]!r}")

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            await connection.close()


class Limits(NamedTuple):
    """How long a run and a request may take."""

    end: float  # of time.monotonic()
    timeout_seconds: float


class Connection(NamedTuple):
    """A connection's two halves."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self, is_reset: bool = False) -> None:
        """End it: in order, or by a reset."""
        if is_reset:
            sock = self.writer.get_extra_info("socket")
            if sock is not None and sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        else:
            self.writer.close()
        try:
            await asyncio.wait_for(self.writer.wait_closed(), REACTION_SECONDS)
        except (OSError, asyncio.TimeoutError):
            self.writer.transport.abort()  # what it cannot send nobody reads


async def run(
    target: Target, mix: dict[str, int], seed: int, clients: int, requests: int, seconds: float,
    timeout_seconds: float = 10.0, late_seconds: float = 1.0,
) -> dict[str, Any]:  # fmt: skip
    """Load the server; return what was seen, as it is printed by --json."""
    findings = Findings(late_seconds)
    started = time.monotonic()
    limits = Limits(started + seconds, timeout_seconds)
    shares = [requests // clients + (number < requests % clients) for number in range(clients)]
    crowd = [Client(target, mix, seed, number, findings, limits) for number in range(clients)]
    await asyncio.gather(*(client.run(share) for client, share in zip(crowd, shares)))
    took = time.monotonic() - started
    # The bad ones are gone: does it still serve?
    await Client(target, parse_mix("good=1"), seed, clients, findings, limits._replace(end=math.inf)).run(1)
    times = sorted(findings.times_ms)
    return {
        "target": target.protocol + (" on a unix socket" if target.sock else ""),
        "seed": seed,
        "mix": mix,
        "clients": clients,
        "seconds": round(took, 3),
        "sent": findings.sent,
        **findings.counts,
        "rps": round(findings.counts["right"] / took, 1),
        "p50_ms": round(times[len(times) // 2], 3) if times else None,
        "p99_ms": round(times[int(len(times) * 0.99)], 3) if times else None,
        "reactions": {kind: dict(seen) for kind, seen in findings.reactions.items()},
        "findings": findings.listed,
        "is_sound": findings.is_sound,
    }


def format_report(seen: dict[str, Any]) -> str:
    """Return what was seen, for people."""
    lines = [
        f"seed {seen['seed']}, {seen['clients']} clients, {seen['seconds']:.1f} s: "
        + ", ".join(f"{count} {kind}" for kind, count in seen["sent"].items() if count),
        f"right {seen['right']} ({seen['rps']:.0f} a second), p50 {seen['p50_ms']} ms, p99 {seen['p99_ms']} ms; "
        + ", ".join(f"{kind} {seen[kind]}" for kind in (*JUDGED, "late", "again")),
    ]
    lines += [
        f"{kind}: " + ", ".join(f"{what} {count}" for what, count in sorted(reactions.items()))
        for kind, reactions in seen["reactions"].items()
        if reactions
    ]
    lines += [f"{each['what']}: {each['kind']} {each['request']}: {each['seen']}" for each in seen["findings"]]
    return "\n".join([*lines, "every good request got its answer" if seen["is_sound"] else "FAULTS"])


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    return read


def _read(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as fault:
            raise argparse.ArgumentTypeError(str(fault))

    return read


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 all got their answers, 1 not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=_read(parse_target), help="PROTOCOL://HOST:PORT/ or PROTOCOL://unix:PATH")
    parser.add_argument("--mix", type=_read(parse_mix), default=MIX, help=f"weights of the kinds ({MIX})")
    parser.add_argument("--seed", type=int, default=1, help="of what is sent (1)")
    parser.add_argument("--clients", type=_number(int), default=50, help="at the same time (50)")
    parser.add_argument("--requests", type=_number(int), default=10_000, help="at most, good and bad (10000)")
    parser.add_argument("--seconds", type=_number(float), default=30.0, help="after which no more begin (30)")
    parser.add_argument("--timeout", type=_number(float), default=10.0, help="seconds until a request is lost (10)")
    parser.add_argument("--late", type=_number(float), default=1.0, help="seconds until an answer is late (1)")
    parser.add_argument("--json", action="store_true", help="print what was seen as JSON, on one line")
    args = parser.parse_args(argv)
    seen = asyncio.run(
        run(args.target, args.mix, args.seed, args.clients, args.requests, args.seconds, args.timeout, args.late)
    )
    print(json.dumps(seen) if args.json else format_report(seen))
    return 0 if seen["is_sound"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
