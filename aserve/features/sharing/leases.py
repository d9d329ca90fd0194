"""Leases: rights held by one process of all hosts, until a release, or ten seconds without a renewal.

Owns:     Lease; Leases of this process, the thread of renewals, and the message after a loss.
Thread:   any takes and releases; a second thread renews.
Spec:     https://redis.io/docs/latest/develop/use/patterns/distributed-locks/, for one server: a unique token, and an expiry.
Not here: the uses of leases (compat/uwsgi_api/shared_locks.py, compat/uwsgi_api/turns.py, compat/uwsgi_api/spooler/queues.py).

A dying host cannot release leases, so leases expire. The price: a holder can lose a lease, at a long standstill of the process or the server, or
when the server loses data. Nothing can prevent the loss; the log says so, and the release returns False.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import Callable

from ...core.forks import weakly
from ...workers.threads import Watcher
from .store import Store, StoreError

logger = logging.getLogger("aserve")

LEASE_SECONDS = 10.0  # Guess: a live process never stands still so long; after a death others can wait
RENEW_SECONDS = 3.0
AGAIN_SECONDS = 0.5  # after a renewal without an answer

_RENEW = """\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_LET_GO = """\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


def milliseconds() -> int:
    """Return the duration of a lease in milliseconds, for the server."""
    return int(LEASE_SECONDS * 1000)


def new_token() -> str:
    """Return a unique token."""
    return os.urandom(12).hex()


class Lease:
    """A lease of this process, now or before."""

    def __init__(self, name: str, renew: Callable[[], object], let_go: Callable[[], object], since: float) -> None:
        """`renew` and `let_go` return whether the lease still existed; `since`: monotonic time before the request."""
        self.name = name
        self.renew = renew
        self.let_go = let_go
        self.until = since + LEASE_SECONDS


class Leases:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._forget()
        os.register_at_fork(after_in_child=weakly(self._forget))
        atexit.register(weakly(self.end))

    def _forget(self) -> None:
        """Begin anew in a forked process: the leases are the parent's."""
        self._held: dict[Lease, bool] = {}
        self._lock = threading.RLock()  # reentrant: a finalizer of the app's may take a lease while the thread starts
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def take(self, key: bytes, name: str) -> Lease | None:
        """
        Take a lease; None: another process holds it.

        Raises:
            StoreError: no answer, or a refusal. A lease taken by the server all the same expires.
        """
        token, since = new_token(), time.monotonic()
        if not self._store.ask("SET", key, token, "NX", "PX", milliseconds()):
            return None
        return self.hold(key, token, name, since)

    def hold(self, key: bytes, token: str, name: str, since: float) -> Lease:
        """Return the server's lease of this token, and renew the lease from now on; see Lease for `since`."""

        def renew() -> object:
            return self._store.run(_RENEW, [key], token, milliseconds())

        return self.keep(Lease(name, renew, lambda: self._store.run(_LET_GO, [key], token), since))

    def keep(self, lease: Lease) -> Lease:
        """Renew a lease from now on."""
        self._held[lease] = True
        with self._lock:
            if self._thread is None:
                self._thread = Watcher(self._run, "aserve-leases")
                try:
                    self._thread.start()
                except RuntimeError:  # no thread can start: the lease expires and is logged as lost
                    self._thread = None
        return lease

    def let_go(self, lease: Lease) -> bool:
        """Release a lease; return False after an earlier loss, which is logged: another process may have held the lease meanwhile."""
        if not self.drop(lease):
            return False
        try:
            is_there = bool(lease.let_go())
        except StoreError:  # the lease expires, and is ours until then
            is_there = time.monotonic() < lease.until
        if not is_there:
            tell_lost(lease)
        return is_there

    def drop(self, lease: Lease) -> bool:
        """Stop renewing a lease; return False after an earlier loss, already logged."""
        return self._held.pop(lease, None) is not None

    def let_go_of(self, name: str) -> None:
        """Release the leases of this name."""
        for lease in self._held.copy():
            if lease.name == name:
                self.let_go(lease)

    def end(self) -> None:
        """Release all leases, and renew none from now on: the process ends."""
        self._ended.set()
        for lease in self._held.copy():
            self.let_go(lease)

    # The renewing thread

    def _run(self) -> None:
        seconds = RENEW_SECONDS
        while not self._ended.wait(seconds):
            with self._lock:
                if not self._held:
                    self._thread = None  # the next lease starts another thread
                    return
            seconds = RENEW_SECONDS if self.renew() else AGAIN_SECONDS

    def renew(self) -> bool:
        """Renew all leases; return False if the server has not answered for one."""
        is_answered = True
        for lease in self._held.copy():
            since = time.monotonic()
            try:
                is_there = bool(lease.renew())
                lease.until = since + LEASE_SECONDS if is_there else lease.until
            except StoreError:
                is_answered = False
                is_there = time.monotonic() < lease.until
            if not is_there and self.drop(lease):  # otherwise released meanwhile
                tell_lost(lease)
        return is_answered


def tell_lost(lease: Lease) -> None:
    logger.error(
        "%s is lost: it was not renewed in time, or the server has forgotten it; another host may have it", lease.name
    )
