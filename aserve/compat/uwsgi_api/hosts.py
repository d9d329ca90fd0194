"""The state that the processes of all hosts share, in place of one host's.

Owns:     Hosts; making it.
Thread:   made by the main thread; then any.
Not here: each of its parts (shared_caches.py, shared_locks.py, turns.py), the connections (features/sharing/store.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.named_tuple import NamedTuple
from ...features.sharing.leases import Leases
from ...features.sharing.settings import Shared
from ...features.sharing.store import Store
from .settings import CacheSpec
from .shared_caches import SharedCache
from .shared_locks import SharedLocks
from .turns import OwnTurns


class Hosts(NamedTuple):
    """The shared state of all hosts."""

    store: Store
    caches: dict[str, SharedCache]
    locks: SharedLocks
    turns: OwnTurns


def join(specs: Sequence[CacheSpec], shared: Shared) -> Hosts:
    """Return the shared state; connections are made at first use."""
    store = Store(shared)
    leases = Leases(store)
    caches = {spec.name: SharedCache(spec, store) for spec in specs}
    return Hosts(store, caches, SharedLocks(store, leases), OwnTurns(store, leases))
