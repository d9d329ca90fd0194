"""The locks of `uwsgi.lock` between hosts: leases.

Owns:     SharedLocks, which has the app's methods of Locks (locks.py).
Thread:   any.
Not here: leases as such, and the message when one is lost (features/sharing/leases.py).
"""

from __future__ import annotations

import os
import time

from ...core.forks import weakly
from ...features.sharing.leases import Lease, Leases
from ...features.sharing.store import Store
from .locks import check_lock

# The pause between two tries for a lock: a round trip takes a fraction of a millisecond. Guess.
FIRST_SECONDS, MAX_SECONDS = 0.001, 0.05


class SharedLocks:
    """The shared locks of one process."""

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._forget()
        os.register_at_fork(after_in_child=weakly(self._forget))

    def _forget(self) -> None:
        """Begin anew in a forked process: its parent's threads, which would release their locks, do not exist here."""
        self._first: dict[int, object] = {}  # the thread of this process that holds a lock, or waits for it
        self._taken: dict[int, Lease] = {}

    def lock(self, number: int) -> None:
        """
        Wait until this lock is free, and take it.

        Raises:
            ValueError: there is no such lock.
            StoreError: the server is away.
        """
        number = check_lock(number)
        us, seconds, name = object(), FIRST_SECONDS, f"uwsgi.lock({number})"
        try:
            while True:
                if self._first.setdefault(number, us) is us:
                    lease = self._leases.take(self._key(number), name)
                    if lease is not None:
                        self._taken[number] = lease
                        return
                time.sleep(seconds)
                seconds = min(2 * seconds, MAX_SECONDS)
        except BaseException:
            if self._first.get(number) is us:
                self._taken.pop(number, None)
                self._leases.let_go_of(name)  # --request-timeout may interrupt just after the lock was taken
                self._first.pop(number, None)
            raise

    def unlock(self, number: int) -> None:
        """
        Release this lock, if a thread of this process holds it.

        Raises:
            ValueError: there is no such lock.
            RuntimeError: the lock was lost meanwhile.
        """
        number = check_lock(number)
        lease = self._taken.get(number)
        if lease is None:
            return
        try:
            is_ours = self._leases.let_go(lease)
        finally:
            self._leases.drop(lease)  # also if --request-timeout has interrupted the release
            if self._taken.get(number) is lease:  # or another thread has unlocked it, too, and a third one holds it
                self._taken.pop(number, None)
                self._first.pop(number, None)
        if not is_ours:
            raise RuntimeError(f"uwsgi.unlock: lock {number} was lost before; another host may have had it meanwhile")

    def is_locked(self, number: int) -> bool:
        """
        Whether any process of any host holds this lock.

        Raises:
            ValueError: there is no such lock.
            StoreError: the server is away.
        """
        number = check_lock(number)
        return bool(self._store.ask("EXISTS", self._key(number)))

    def _key(self, number: int) -> bytes:
        return self._store.key("lock", str(number))
