"""The hosts' common Redis or Valkey: one command, one answer, or a fault within a bounded time.

Owns:     Store: this process's connections, failing calls while the server is away, and the two lines in the log.
Thread:   any; while the server is away, a second thread probes the server.
Spec:     https://redis.io/docs/latest/develop/reference/protocol-spec/, by the package redis.
Not here: the data there (uwsgi_api/, spooler/), leases (leases.py), the URL's grammar (settings.py).

A call is sent once, and never again: a command without an answer may have been executed. A call waits at most a second for a connection and a
second for the answer. The first wait in vain is logged, and from then on each call fails at once, until the thread has had an answer: so no request
waits for a server known to be away.

The package's own pool is not used. --request-timeout may raise in a thread between a command and the answer, and the next call on that connection
would get the wrong answer: here a connection goes back only after the answer is read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Union

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import MasterDownError, ReadOnlyError, RedisError, ResponseError
from redis.retry import Retry

from ...core.forks import weakly
from ...core.log_once import LogOnce
from ...settings.secrecy import show_url
from ...workers.threads import Watcher
from .settings import Shared

logger = logging.getLogger("aserve")
# A connection of the package; half of the methods have no types, so Any here.
Word = Union[bytes, str, int]

CONNECT_SECONDS = ANSWER_SECONDS = 1.0  # Guess: on a local network an answer takes a millisecond
PROBE_SECONDS = 1.0  # between two probes of an absent server. Guess
# A firewall may drop an idle connection without notice to either end. Guess.
IDLE_SECONDS = 30.0
MAX_IDLE = 64  # kept connections: more threads seldom call at once. Guess
SCAN_COUNT = 1000  # keys per step
_UNABLE = (ReadOnlyError, MasterDownError)  # the server answers, but cannot write: as good as away


class StoreError(OSError):
    """A call failed, executed or not."""


class Away(StoreError, ConnectionError):
    """The server does not answer."""


class Store:
    def __init__(self, shared: Shared) -> None:
        self.name = show_url(shared.url)
        self._prefix = f"{shared.prefix}:".encode()
        self._maker = ConnectionPool.from_url(
            shared.url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=ANSWER_SECONDS, socket_keepalive=True,
            retry=Retry(NoBackoff(), 0), protocol=2,
        )  # fmt: skip
        if shared.url.startswith("unix:"):
            self._maker.connection_kwargs.pop("socket_keepalive")
        self._refusals: dict[str, LogOnce] = {}
        self._forget()
        os.register_at_fork(after_in_child=weakly(self._forget))

    def _forget(self) -> None:
        """Begin anew in a forked process: the connections are the parent's, and the thread was not forked."""
        self._idle: deque[tuple[float, Any]] = deque()
        self._lock = threading.RLock()  # reentrant: a log handler of the app's may call the store
        self._away_since: float | None = None
        self._ended = threading.Event()

    def key(self, *parts: bytes | str) -> bytes:
        """Return a key: the prefix and these parts."""
        return self._prefix + b":".join(part.encode() if isinstance(part, str) else part for part in parts)

    # From any thread

    def ask(self, *command: Word) -> Any:
        """
        Send a command; return the answer.

        Raises:
            Away: no answer; the command may have been executed or not.
            StoreError: the server refused the command.
        """
        if self._away_since is not None:
            raise Away(f"{self.name} is away")
        try:
            return self._converse(command)
        except Away as fault:
            self._note_away(fault)
            raise

    def run(self, script: str, keys: list[bytes], *arguments: Word) -> Any:
        """
        Run a script on the server, atomically; return the result.

        Raises:
            Away, StoreError: see `ask`.
        """
        return self.ask("EVAL", script, len(keys), *keys, *arguments)

    def scan(self, start: bytes) -> Iterator[list[bytes]]:
        """
        Yield the keys with this prefix, in pieces; keys changed meanwhile may be missing.

        Raises:
            Away, StoreError: see `ask`.
        """
        cursor, pattern = b"0", re.sub(rb"[*?\[\]\\^]", rb"\\\g<0>", start) + b"*"
        while True:
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
            yield keys
            if cursor == b"0":
                return

    # One conversation

    def _converse(self, command: tuple[Word, ...]) -> Any:
        connection: Any = None
        try:
            connection = self._take()
            connection.send_command(*command, check_health=False)
            answer = connection.read_response()
        except BaseException as fault:
            if connection is not None and isinstance(fault, ResponseError) and not isinstance(fault, _UNABLE):
                self._put_back(connection)
                raise self._refused(command, fault) from None
            if connection is not None:
                connection.disconnect()
            if isinstance(fault, (RedisError, OSError)):
                raise Away(f"{self.name} is away: {fault}") from None
            raise
        self._put_back(connection)
        return answer

    def _take(self) -> Any:
        """Take an idle connection without unread data, or make a new one."""
        while True:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                break
            try:
                if time.monotonic() - since < IDLE_SECONDS and not connection.can_read(0):
                    return connection
            except (RedisError, OSError):  # a closed connection
                pass
            connection.disconnect()
        # Not the pool's make_connection: the pool counts all connections ever made, and from redis 8 on makes at most 100.
        new: Any = self._maker.connection_class(**self._maker.connection_kwargs)
        try:
            new.connect()
        except ResponseError as fault:  # of AUTH or SELECT
            raise Away(f"{self.name} is away: {fault}") from None
        return new

    def _put_back(self, connection: Any) -> None:
        if len(self._idle) < MAX_IDLE:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.disconnect()

    def _refused(self, command: tuple[Word, ...], fault: ResponseError) -> StoreError:
        text = str(fault)
        self._refusals.setdefault(text[:20], LogOnce(logger, logging.ERROR)).log(
            "%s refuses %s: %s", self.name, command[0], text
        )
        return StoreError(f"{self.name} refuses {command[0]!s}: {text}")

    # While the server is away

    def _note_away(self, fault: Away) -> None:
        with self._lock:
            if self._away_since is not None:
                return
            thread = Watcher(self._wait, "aserve-shared")
            try:
                thread.start()  # first: without the thread the note would never be taken back
            except RuntimeError:  # the interpreter ends, or no thread can start
                return
            self._away_since = time.monotonic()
            text = "%s; until it is back the cache of `uwsgi` is empty, its locks and jobs raise ConnectionError, and cron waits"
            logger.warning(text, fault)
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):  # another thread may have taken the last
            while True:
                self._idle.pop()[1].disconnect()

    def end(self) -> None:
        """Close the idle connections, and stop probing."""
        self._ended.set()
        self.close()

    def _wait(self) -> None:
        """Wait until the server answers and accepts writes, or until `end`."""
        while not self._is_back():  # first without a pause: perhaps only one connection has failed
            if self._ended.wait(PROBE_SECONDS):
                return
        with self._lock:
            since, self._away_since = self._away_since, None
            logger.warning("%s is back, after %.0f s", self.name, time.monotonic() - (since or time.monotonic()))

    def _is_back(self) -> bool:
        try:
            self._converse(("SET", self.key("is-back"), b"1", "PX", 1000))
        except Away:
            return False
        except StoreError:  # the server answers; other errors are logged by `ask`
            pass
        return True
