"""Clients that send requests all the time, while the server is changed: the answered ones, their server, and the ends of the rest."""

import collections
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .client import RawClient, Reply
from .waiting import PATIENCE_SECONDS, wait_until

KINDS = ("kept", "fresh")
REFUSED_SECONDS = 0.01  # until the next try, after a refusal
# Between two requests of a client: events of the server need the CPU, too, and take long if clients have all of it.
PAUSE_SECONDS = 0.005


class Failure(NamedTuple):
    """A request without its proper answer."""

    what: str  # "refused", "reset", "closed", "timed out", or "status 502" and the like
    kind: str  # of the client
    has_begun: bool  # octets of a response had come
    when: str  # as in the log
    text: str


class Load:
    """Threads that send one request after another, after a pause each; a client goes on after a failure."""

    def __init__(
        self,
        connect: Callable[[], RawClient],
        path: str = "/",
        kinds: tuple[str, ...] = KINDS * 2,
        pause_seconds: float = PAUSE_SECONDS,
        body: bytes = b"",
    ) -> None:
        """With a `body` each request is a POST."""
        self._connect = connect
        self._path = path
        self._sent: dict[str, Any] = {"method": "POST", "body": body} if body else {}
        self._pause_seconds = pause_seconds
        self._is_over = False
        self._lock = threading.Lock()
        self.failures: list[Failure] = []
        self.bodies: collections.Counter[bytes] = collections.Counter()
        self.connection_count = 0  # of clients with kept ones
        self._threads = [threading.Thread(target=self._run, args=(kind,), daemon=True) for kind in kinds]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        """The number of answered requests."""
        with self._lock:
            return sum(self.bodies.values())

    @property
    def first_words(self) -> set[bytes]:
        """The first words of response bodies."""
        with self._lock:
            return {body.split()[0] for body in self.bodies}

    def wait_for(self, word: bytes) -> None:
        """Return once the body of a response has begun with this word: a client may rest while the server is changed."""
        wait_until(lambda: word in self.first_words)

    def go_on(self, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Return once so many more have been answered, or one has failed."""
        until = self.count + count
        wait_until(lambda: self.count >= until or self.failures, seconds)

    def stop(self) -> None:
        """Send no more; every sent request has its answer, or is a failure."""
        self._is_over = True
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), "a client still waits for its answer"

    def _run(self, kind: str) -> None:
        while not self._is_over:
            try:
                client = self._connect()
            except OSError as exc:
                self._fail(exc, kind)
                time.sleep(REFUSED_SECONDS)
                continue
            with self._lock:
                self.connection_count += kind == "kept"
            with contextlib.closing(client):
                self._converse(client, kind)
            time.sleep(self._pause_seconds)

    def _converse(self, client: RawClient, kind: str) -> None:
        """Ask on one connection, as long as it lasts."""
        while True:
            try:
                reply = client.fetch(self._path, *(["Connection: close"] if kind == "fresh" else []), **self._sent)
            except (OSError, RawClient.Truncated) as exc:
                self._fail(exc, kind)
                return
            self._note(reply, kind)
            if self._is_over or kind == "fresh" or reply.get("Connection") == "close":
                return
            time.sleep(self._pause_seconds)

    def _note(self, reply: Reply, kind: str) -> None:
        with self._lock:
            if reply.status == 200:
                self.bodies[reply.body] += 1
            else:
                self.failures.append(Failure(f"status {reply.status}", kind, True, _now(), repr(reply)))

    def _fail(self, exc: Exception, kind: str) -> None:
        with self._lock:
            self.failures.append(Failure(_name(exc), kind, bool(getattr(exc, "octets", b"")), _now(), repr(exc)))


def _now() -> str:
    return time.strftime("%H:%M:%S") + f"{time.time() % 1:.3f}"[1:]


def _name(exc: Exception) -> str:
    """Return a request's end in a word."""
    if isinstance(exc, RawClient.Truncated):
        return "reset" if exc.is_reset else "closed"
    if isinstance(exc, (ConnectionRefusedError, FileNotFoundError)):  # the latter: of a unix socket
        return "refused"
    # Before Python 3.10 the exception of connect() is not yet the same as TimeoutError.
    return "timed out" if isinstance(exc, (TimeoutError, socket.timeout)) else "reset"


@contextlib.contextmanager
def load(
    connect: Callable[[], RawClient], path: str = "/", kinds: tuple[str, ...] = KINDS * 2, **more: Any
) -> Iterator[Load]:
    """Ask while the block runs; afterwards, no request has failed. `more`: see Load."""
    running = Load(connect, path, kinds, **more)
    try:
        yield running
    finally:
        running.stop()
    assert running.failures == [], running.failures[:5]
