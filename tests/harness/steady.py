"""Requests at a steady rate, whatever the fate of earlier ones: the answered ones, their hosts and delays, and the ends of the rest.

`load.py` has clients that ask after each answer, so they ask a host at a standstill only once. These come like the world's: the time of an answer
counts from when its request was due.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from .waiting import wait_until

LATE_SECONDS = 1.0  # Guess: when a user presses the key again
ANSWER_SECONDS = 40.0  # then a client has had enough; longer than any time-out of a balancer's here
UPLOAD_OCTETS = LARGE_OCTETS = 1 << 20
UPLOAD_SECONDS = READ_SECONDS = 2.0  # the time of an upload, and of a slow reader
PIECES = 16
UPLOAD = bytes(range(256)) * (UPLOAD_OCTETS // 256)
QUICK = ("get", "post")
PATIENCE_SECONDS = 60.0
LONG = (*QUICK, *QUICK, *QUICK, *QUICK, "upload", "reader")
BUFFER_OCTETS = 1 << 15


class Ask(NamedTuple):
    """One request's fate."""

    number: int
    kind: str  # get, post, upload, reader
    due: float  # seconds since the first
    seconds: float  # until its answer, or its failure
    what: str  # "answered", "status 502" and the like, "closed", "reset", "refused", "timed out", "wrong"
    host: bytes = b""  # in the answer's words: a version and a name

    @property
    def name(self) -> str:
        """Its name in the logs of hosts and balancers."""
        return f"{self.kind}-{self.number}"

    @property
    def is_answered(self) -> bool:
        """Tell whether the answer came, and was right."""
        return self.what == "answered"


class Steady:
    """A thread that sends; half of the quick requests come on kept connections, and half on fresh ones."""

    def __init__(
        self, address: tuple[str, int], rate: float = 40, kinds: tuple[str, ...] = QUICK, is_kept: bool = False
    ) -> None:
        self.rate = rate
        self.asks: list[Ask] = []
        self.marks: dict[str, str] = {}  # events, by time
        self._address, self._kinds, self._is_kept = address, kinds, is_kept
        self._idle: collections.deque[_Connection] = collections.deque()
        self._is_over = False
        self._begin = time.monotonic()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send()), daemon=True)
        self._thread.start()

    # Events meanwhile

    @property
    def now(self) -> float:
        """Seconds since the first request."""
        return time.monotonic() - self._begin

    def mark(self, what: str) -> float:
        """Note that an event happens now; return the time."""
        when = self.now
        self.marks[f"{when:.1f}"] = what
        return when

    def answered_since(self, when: float) -> list[Ask]:
        """Return answered requests due since then."""
        return [ask for ask in list(self.asks) if ask.due >= when and ask.is_answered]

    def more(self, seconds: float) -> None:
        """Go on for so long, and until most of the due requests are answered."""
        when = self.now
        wanted = 0.8 * seconds * self.rate  # a host may be gone, and keep its share
        wait_until(
            lambda: self.now >= when + seconds and len(self.answered_since(when)) >= wanted,
            PATIENCE_SECONDS,
            self.explain,
        )

    def wait_for_host(self, host: str) -> None:
        """Go on until a request due from now on is answered by this version and host."""
        when = self.now
        wait_until(
            lambda: host.encode() in {ask.host for ask in self.answered_since(when)}, PATIENCE_SECONDS, self.explain
        )

    def explain(self) -> str:
        """Return the fate of requests, by host and end."""
        return str(collections.Counter((ask.what, ask.host) for ask in list(self.asks)))

    def stop(self) -> None:
        """Send no more; each sent one has its answer, or has failed."""
        self._is_over = True
        self._thread.join(2 * ANSWER_SECONDS)
        assert not self._thread.is_alive(), "a client still waits for its answer"
        self.asks.sort()

    # Sending

    async def _send(self) -> None:
        tasks: set[asyncio.Task[None]] = set()
        loop, number, begin = asyncio.get_running_loop(), 0, time.monotonic()
        self._begin = begin
        while not self._is_over:
            await asyncio.sleep(max(0.0, begin + number / self.rate - time.monotonic()))
            task = loop.create_task(self._ask(number, self._kinds[number % len(self._kinds)], number / self.rate))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
        while tasks:
            await asyncio.wait(set(tasks))
        for connection in self._idle:
            connection.close()

    async def _ask(self, number: int, kind: str, due: float) -> None:
        what, host = "timed out", b""
        with contextlib.suppress(asyncio.TimeoutError):
            what, host = await asyncio.wait_for(self._converse(number, kind), ANSWER_SECONDS)
        self.asks.append(Ask(number, kind, due, self.now - due, what, host))

    async def _converse(self, number: int, kind: str) -> tuple[str, bytes]:
        is_kept = kind in QUICK and (self._is_kept or number // len(self._kinds) % 2 == 0)
        connection = self._kept() if is_kept else None
        try:
            connection = connection or await _Connection.open(self._address, kind)
            status, body = await connection.fetch(f"{kind}-{number}", kind, is_kept)
        except ConnectionRefusedError:
            return "refused", b""
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return "closed", b""
        except OSError:
            return "reset", b""
        finally:
            if connection and connection.may_go_on:
                connection.may_go_on = False
                self._idle.append(connection)
            elif connection:
                connection.close()
        if status != 200:
            return f"status {status}", b""
        host, _, rest = body[:200].partition(b" | ")
        return ("answered" if rest.startswith(_expected(kind)) and len(body) >= _least(kind) else "wrong"), host

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.popleft()
            if not connection.is_at_end:
                return connection
            connection.close()
        return None


def _expected(kind: str) -> bytes:
    return b"%d %d" % (
        (UPLOAD_OCTETS, zlib.crc32(UPLOAD))
        if kind == "upload"
        else (4, zlib.crc32(b"body"))
        if kind == "post"
        else (0, 0)
    )


def _least(kind: str) -> int:
    return LARGE_OCTETS if kind == "reader" else 0


class _Connection:
    """A client's, from connect to close."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.may_go_on = False  # the last response was whole, and allows another

    @classmethod
    async def open(cls, address: tuple[str, int], kind: str) -> _Connection:
        """Connect; a slow reader has small buffers, so that the octets wait on the other side."""
        sock = socket.socket()
        sock.setblocking(False)
        if kind == "reader":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_OCTETS)
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
            return cls(*await asyncio.open_connection(sock=sock, limit=BUFFER_OCTETS))
        except BaseException:
            sock.close()
            raise

    @property
    def is_at_end(self) -> bool:
        """Tell whether the other side has closed."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Close at once."""
        self._writer.transport.abort()

    async def fetch(self, name: str, kind: str, is_kept: bool) -> tuple[int, bytes]:
        """Send a request; return the status and the body."""
        lines = [f"{'GET' if kind in ('get', 'reader') else 'POST'} /{kind}?{name} HTTP/1.1", "Host: test"]
        lines += [] if is_kept else ["Connection: close"]
        body = {"post": b"body", "upload": UPLOAD}.get(kind, b"")
        lines += [f"Content-Length: {len(body)}"] if body else []
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        if kind == "upload":
            sending = asyncio.ensure_future(self._upload())
            try:
                return await self._receive(kind)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await sending
        self._writer.write(body)
        return await self._receive(kind)

    async def _upload(self) -> None:
        for at in range(0, UPLOAD_OCTETS, UPLOAD_OCTETS // PIECES):
            self._writer.write(UPLOAD[at : at + UPLOAD_OCTETS // PIECES])
            await self._writer.drain()
            await asyncio.sleep(UPLOAD_SECONDS / PIECES)

    async def _receive(self, kind: str) -> tuple[int, bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status_line, *lines = head.split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        pieces = []
        async for piece in self._pieces(fields):
            pieces.append(piece)
            if kind == "reader":
                await asyncio.sleep(READ_SECONDS * len(piece) / LARGE_OCTETS)
        self.may_go_on = fields.get("connection") != "close" and (
            "content-length" in fields or "transfer-encoding" in fields
        )
        return int(status_line.split()[1]), b"".join(pieces)

    async def _pieces(self, fields: dict[str, str]) -> Any:
        """Yield the body on arrival."""
        if "transfer-encoding" in fields:
            while True:
                left = int(await self._reader.readuntil(b"\r\n"), 16)
                async for piece in self._exactly(left):
                    yield piece
                await self._reader.readexactly(2)
                if not left:
                    return
        elif "content-length" in fields:
            async for piece in self._exactly(int(fields["content-length"])):
                yield piece
        else:
            yield await self._reader.read()

    async def _exactly(self, left: int) -> Any:
        while left:
            piece = await self._reader.read(min(left, BUFFER_OCTETS))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece


@contextlib.contextmanager
def steady(address: tuple[str, int], **how: Any) -> Iterator[Steady]:
    """Ask while the block runs."""
    running = Steady(address, **how)
    try:
        yield running
    finally:
        running.stop()


# Figures


def summary(asks: list[Ask], begun: collections.Counter[str]) -> dict[str, Any]:
    """Return the kept results of a run: counts, times, and events in each second; begun: how often apps have begun each.

    failed: a balancer has answered in place of a host; lost: no answer; late: answered after more than a second; doubled: an app has begun an
    unrepeatable request more than once.
    """
    quick = [ask for ask in asks if ask.kind in QUICK]
    failed = [ask for ask in asks if ask.what.startswith("status")]
    lost = [ask for ask in asks if not ask.is_answered and not ask.what.startswith("status")]
    seconds = range(int(max((ask.due for ask in asks), default=0)) + 1)
    by_second = [[ask for ask in quick if int(ask.due) == second] for second in seconds]
    return {
        "requests": len(asks),
        "answered": sum(ask.is_answered for ask in asks),
        "failed": len(failed),
        "lost": len(lost),
        "late": sum(ask.is_answered and ask.kind in QUICK and ask.seconds > LATE_SECONDS for ask in asks),
        "doubled": sum(begun[ask.name] > 1 for ask in asks if ask.kind in ("post", "upload")),
        "p50_ms": percentile(quick, 0.5),
        "p99_ms": percentile(quick, 0.99),
        "worst_ms": percentile(quick, 1),
        "answered_each": [sum(ask.is_answered for ask in each) for each in by_second],
        "failed_each": [sum(not ask.is_answered for ask in each) for each in by_second],
        "p99_ms_each": [percentile(each, 0.99) for each in by_second],
        "hosts_each": [len({ask.host for ask in each if ask.is_answered}) for each in by_second],
    }


def percentile(asks: list[Ask], share: float) -> int | None:
    """Return the time in ms not exceeded by this share of the answers; None: there were none."""
    times = sorted(ask.seconds for ask in asks if ask.is_answered)
    return round(1000 * times[min(len(times) - 1, int(share * len(times)))]) if times else None
