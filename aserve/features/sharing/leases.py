"""Leases: what one process of all hosts has, until it lets go, or has not been heard of for ten seconds.

Owns:     Lease; Leases: those of this process, the thread that renews them, and what is said when one is lost.
Thread:   any takes and lets go; a thread of its own renews.
Spec:     https://redis.io/docs/latest/develop/use/patterns/distributed-locks/, for one server: a token of its own, and an end.
Not here: what a lease is for (uwsgi_api/shared_locks.py, uwsgi_api/turns.py, uwsgi_api/spooler/queues.py).

A host that dies cannot let go, so what it had ends by itself. The other side of that: who has a lease can lose it, when the process
stands still for long, or the server does, or forgets. Nothing can prevent that; it is told, in the log and to who lets go.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from typing import Callable

from ...core.forks import weakly
from .store import Store, StoreError

logger = logging.getLogger("aserve")

LEASE_SECONDS = 10.0  # Guess: a process does not stand still for so long, and others can wait for that of a dead one
RENEW_SECONDS = 3.0
AGAIN_SECONDS = 0.5  # after a renewal that nobody answered

_RENEW = """\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_LET_GO = """\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


def milliseconds() -> int:
    """Return how long a lease is, as the server counts."""
    return int(LEASE_SECONDS * 1000)


def new_token() -> str:
    """Return what nobody else has."""
    return os.urandom(12).hex()


class Lease:
    """One that this process has, or had."""

    def __init__(self, name: str, renew: Callable[[], object], let_go: Callable[[], object], since: float) -> None:
        """`renew` and `let_go` return whether it was still there; `since`: of the monotonic clock, before it was asked for."""
        self.name = name
        self.renew = renew
        self.let_go = let_go
        self.until = since + LEASE_SECONDS


class Leases:
    """Those of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forget()
        os.register_at_fork(after_in_child=weakly(self._forget))
        atexit.register(weakly(self.end))

    def _forget(self) -> None:
        """Begin anew, in a process that was forked: they are its parent's."""
        self._held: dict[Lease, bool] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def take(self, key: bytes, name: str) -> Lease | None:
        """
        Take a lease; None: somebody has it.

        Raises:
            StoreError: nobody answers, or it is refused. It may be taken then, and ends by itself.
        """
        token, since = new_token(), time.monotonic()
        if not self._store.ask("SET", key, token, "NX", "PX", milliseconds()):
            return None
        return self.hold(key, token, name, since)

    def hold(self, key: bytes, token: str, name: str, since: float) -> Lease:
        """Return the lease that is there by this token, and renew it from now on; see Lease for `since`."""

        def renew() -> object:
            return self._store.run(_RENEW, [key], token, milliseconds())

        return self.keep(Lease(name, renew, lambda: self._store.run(_LET_GO, [key], token), since))

    def keep(self, lease: Lease) -> Lease:
        """Renew it from now on."""
        self._held[lease] = True
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="aserve-leases", daemon=True)
                # Without room for a thread the lease ends by itself, and is told to be lost.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._thread = thread
        return lease

    def let_go(self, lease: Lease) -> bool:
        """Let a lease go; return False if it was lost before: others may have had it meanwhile, which is told in the log."""
        if not self.drop(lease):
            return False
        try:
            is_there = bool(lease.let_go())
        except StoreError:  # it ends by itself, and is ours until then
            is_there = time.monotonic() < lease.until
        if not is_there:
            tell_lost(lease)
        return is_there

    def drop(self, lease: Lease) -> bool:
        """Renew it no more; return False if it was lost before, which was told."""
        return self._held.pop(lease, None) is not None

    def let_go_of(self, name: str) -> None:
        """Let those of this name go."""
        for lease in self._held.copy():
            if lease.name == name:
                self.let_go(lease)

    def end(self) -> None:
        """Let all of them go, and renew none from now on: the process ends."""
        self._ended.set()
        for lease in self._held.copy():
            self.let_go(lease)

    # The thread that renews them

    def _run(self) -> None:
        seconds = RENEW_SECONDS
        while not self._ended.wait(seconds):
            with self._lock:
                if not self._held:
                    self._thread = None  # who takes one from now on starts another
                    return
            seconds = RENEW_SECONDS if self.renew() else AGAIN_SECONDS

    def renew(self) -> bool:
        """Renew all of them; return False if somebody has not answered."""
        is_answered = True
        for lease in self._held.copy():
            since = time.monotonic()
            try:
                is_there = bool(lease.renew())
                lease.until = since + LEASE_SECONDS if is_there else lease.until
            except StoreError:
                is_answered = False
                is_there = time.monotonic() < lease.until
            if not is_there and self.drop(lease):  # otherwise it was let go meanwhile
                tell_lost(lease)
        return is_answered


def tell_lost(lease: Lease) -> None:
    """Log it."""
    logger.error(
        "%s is lost: it was not renewed in time, or the server has forgotten it; another host may have it", lease.name
    )
