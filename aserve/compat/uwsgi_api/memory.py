"""The memory that all processes of a server share for `import uwsgi`.

Owns:     Memory: the file, its layout and its locks; the memory of this process.
Thread:   made by the main thread, before the processes that share it are forked; then any.
Not here: its content (caches.py, signals.py, tallies.py, ring.py), files in memory as such (core/memory_file.py).

The death of a worker loses nothing: the supervisor keeps the file over reloads, recycling and, by its descriptor, an upgrade of
the supervisor itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Union

from ...core.memory_file import KEPT, map_memory_file, open_memory_file
from ...core.named_tuple import NamedTuple
from ...features.sharing.settings import Shared
from .caches import Cache, bytes_of
from .locks import Locks
from .ring import Ring
from .ring import bytes_of as ring_bytes
from .settings import AREA, CacheSpec, Extras, parse_cache, parse_queue
from .tallies import SIZE as TALLIES_BYTES
from .tallies import Tallies

if TYPE_CHECKING:
    from .hosts import Hosts
    from .shared_caches import SharedCache
    from .shared_locks import SharedLocks

    AnyCache = Union[Cache, SharedCache]

NAME = "aserve-uwsgi"  # of the file, as seen in /proc
FORM = 2  # raise it when the layout changes
HEAD_BYTES = 4096  # the form and the caches, as text
SIGNAL_COUNT = 256  # uWSGI's
SIGNAL_BYTES = 64
SIGNALS, TALLIES, QUEUE, METRICS, AREA_NAME = (
    "/signals",
    "/tallies",
    "/queue",
    "/metrics",
    "/area/{}",
)  # places; no cache has such a name


NOTHING = Extras()


class MemoryRange(NamedTuple):
    """A range of the memory."""

    offset: int
    size: int


class Memory:
    """One file, mapped."""

    def __init__(self, specs: Sequence[CacheSpec], fd: int, extras: Extras = NOTHING) -> None:
        """Map the file, which has this form and these caches."""
        self.fd = fd
        self.octets = map_memory_file(fd)
        self.locks = Locks(fd)
        self.app_locks: Locks | SharedLocks = self.locks
        places = _places(specs, extras)
        self.signals = places[SIGNALS]
        self.tallies = Tallies(self.octets, places[TALLIES].offset)
        self.caches: Mapping[str, AnyCache] = {
            spec.name: Cache(spec, self.octets, places[spec.name].offset, self.locks) for spec in specs
        }
        self.ring: Ring | None = None
        if extras.queue:
            self.ring = Ring(parse_queue(extras.queue), self.octets, places[QUEUE].offset, self.locks)
        self.areas = [places[AREA_NAME.format(number)] for number in range(len(extras.areas))]
        # By name, the place of a number of 64 bits.
        self.metrics = {name: places[METRICS].offset + 8 * number for number, name in enumerate(extras.metrics)}
        self.hosts: Hosts | None = None  # the state shared with other hosts

    def join(self, hosts: Hosts) -> None:
        """Share with other hosts from now on: their caches and app locks replace this memory's."""
        self.caches, self.app_locks, self.hosts = hosts.caches, hosts.locks, hosts

    @classmethod
    def open(cls, texts: Sequence[str], fd: int | None = None, extras: Extras = NOTHING) -> Memory:
        """
        Make the memory with the caches of `--uwsgi-cache`; or take over the file of the previous process, if its form and caches are the same.

        Raises:
            OSError: there is not enough memory, or no descriptor.
        """
        specs = [parse_cache(text) for text in texts]
        head = f"{FORM} {specs!r} {extras!r}".encode()
        if len(head) > HEAD_BYTES:
            raise OSError(0, f"{len(specs)} caches are too many, or areas and metrics beside them")
        if fd is None or os.pread(fd, len(head) + 1, 0) != head + b"\0":
            if fd is not None:
                os.close(fd)
            fd = open_memory_file(NAME)
            last = [*_places(specs, extras).values()][-1]
            os.truncate(fd, last.offset + last.size)
            os.pwrite(fd, head, 0)
        return cls(specs, fd, extras)


def _places(specs: Sequence[CacheSpec], extras: Extras) -> dict[str, MemoryRange]:
    """Return the ranges of the tables, of the caches, and of what else there is, by name."""
    sizes = {SIGNALS: SIGNAL_COUNT * SIGNAL_BYTES, TALLIES: TALLIES_BYTES}
    sizes.update((spec.name, bytes_of(spec)) for spec in specs)
    sizes.update((AREA_NAME.format(number), int(str(AREA.parse(text)))) for number, text in enumerate(extras.areas))
    sizes[METRICS] = 8 * len(extras.metrics)
    if extras.queue:
        sizes[QUEUE] = ring_bytes(parse_queue(extras.queue))
    places, offset = {}, HEAD_BYTES
    for name, size in sizes.items():
        places[name] = MemoryRange(offset, size)
        offset += -(-size // 8) * 8
    return places


_memory: Memory | None = None


def share(
    texts: Sequence[str], fd: int | None = None, shared: Shared | None = None, extras: Extras = NOTHING
) -> Memory:
    """
    Make the memory of this process and of its future children, once. With `shared`, caches and locks are shared with other
    hosts.

    Raises:
        OSError: see Memory.open.
    """
    global _memory
    if _memory is None:
        _memory = Memory.open(texts if shared is None else (), fd, extras)
        if shared is not None:
            from .hosts import join  # imports the package redis, too

            _memory.join(join([parse_cache(text) for text in texts], shared))
        KEPT[NAME] = _memory.fd
    return _memory


def shared() -> Memory:
    """
    Return the memory of this process.

    Raises:
        RuntimeError: there is none.
    """
    if _memory is None:
        raise RuntimeError("this server was started without `import uwsgi`; start it anew with --uwsgi-module on")
    return _memory
