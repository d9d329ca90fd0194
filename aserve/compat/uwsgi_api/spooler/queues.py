"""A queue of jobs that all hosts share, over Redis or Valkey, in place of a folder (folder.py).

Owns:     Queue; the keys of its jobs, and their leases; QueuedJob, which has the methods of Job.
Thread:   any; `put` many threads and processes at the same time.
Not here: doing a job (runner.py), the app's functions (functions.py), leases as such (features/sharing/leases.py).

The keys: a sorted set of the jobs' names, by due time; a hash of their octets, in the form of uWSGI's files; a hash of the holders'
tokens. A process that takes a job makes it due again in ten seconds, and renews that while it does the job: so another host takes over
the job of a host that is gone. Only the server's clock counts. A job is removed when it is done; so one may be done twice, and none is
lost as long as the server keeps its data.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import time
from collections.abc import Mapping
from typing import Callable

from ....features.sharing.leases import LEASE_SECONDS, Lease, Leases, new_token, tell_lost
from ....features.sharing.store import Store, StoreError
from .folder import LAST, DueJob, growing_seconds, job_of, name_of, parse_job

logger = logging.getLogger("aserve")

MAX_LOOK = 1000  # the jobs due for longest, which are then sorted by priority. Guess
AGAIN_SECONDS = 0.5  # between two tries to remove a job that is done

# The keys of all scripts: due times, octets, holders' tokens. Scripts of a running job work also when the memory is full: doing jobs
# frees it.
_ALWAYS = "#!lua flags=allow-oom\n"
_NOW = "local time = redis.call('TIME') local now = time[1] + time[2] / 1000000\n"
_MINE = "if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end\n"
_PUT = (
    _NOW + "local at = tonumber(ARGV[3]) if at < now then at = now end\n"
    "redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) redis.call('ZADD', KEYS[1], at, ARGV[1]) return 1"
)
_DUE = (
    _NOW + "local next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)\n"
    "return {redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]), tostring((next[2] or 1e12) - now)}"
)
_TAKE = (
    _ALWAYS + _NOW + "local due = redis.call('ZSCORE', KEYS[1], ARGV[1])\n"
    "if not due or tonumber(due) > now then return nil end\n"
    "redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1]) redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])\n"
    "return redis.call('HGET', KEYS[2], ARGV[1])"
)
_PUT_OFF = _ALWAYS + _MINE + _NOW + "redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1]) return 1"
_RENEW = (  # A missing job is just being removed; `remove` reports it if another process has done it.
    _ALWAYS
    + _NOW
    + "local due = redis.call('ZSCORE', KEYS[1], ARGV[1]) if not due then return 1 end\n"
    + _MINE
    + "if tonumber(due) < now + ARGV[3] then redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1]) end return 1"
)
_REMOVE = (
    _MINE + "redis.call('ZREM', KEYS[1], ARGV[1]) redis.call('HDEL', KEYS[2], ARGV[1])\n"
    "redis.call('HDEL', KEYS[3], ARGV[1]) return 1"
)


class Queue:
    """One queue, in one process."""

    look_seconds = 0.5  # how often to look for jobs, since there is no wake-up. Guess

    def __init__(self, name: str, store: Store, leases: Leases) -> None:
        """`name`: as in --spooler."""
        self.name = name
        self._store = store
        self._leases = leases
        self._keys = [store.key("jobs", name.partition(":")[2], part) for part in ("due", "octets", "taken")]

    # Called by the app

    def put(self, values: Mapping[bytes, bytes], body: bytes = b"", at: float = 0.0, priority: str = "") -> str:
        """
        Add a job; return its path when the server has it.

        Raises:
            ValueError: see folder.job_of.
            StoreError: no answer, or the memory is full: the job may have been added or not.
        """
        octets = job_of(values, body, priority)
        name = f"{int(priority or LAST):010}_{name_of(max(at, time.time()))}"
        self._store.run(_PUT, self._keys, name, octets, repr(at))
        return self._path(name)

    def paths(self) -> list[str]:
        """
        Return the paths of all jobs.

        Raises:
            StoreError: the server is away.
        """
        return [self._path(name.decode()) for name in self._store.ask("ZRANGE", self._keys[0], 0, -1)]

    def read(self, path: str) -> tuple[dict[bytes, bytes], bytes]:
        """
        Return values and body of a job.

        Raises:
            StoreError: the server is away.
            ValueError: there is no such job.
        """
        return parse_job(self._store.ask("HGET", self._keys[1], _name_in(path)) or b"")

    def _path(self, name: str) -> str:
        return f"{self.name}/{name}"

    # Called by the process that does the jobs

    def register(self, poll: select.poll) -> None:
        """Do nothing: `look_seconds` is short."""

    def jobs(self, tell: Callable[[str, str, OSError], object]) -> list[DueJob]:
        """Return the due jobs, the lowest priority number first, and the time of the next one; none if the server is away."""
        try:
            names, rest = self._store.run(_DUE, self._keys, MAX_LOOK)
        except StoreError:
            return []
        now = time.time()
        found = [DueJob(int(name[:10]), 0.0, self._path(name.decode())) for name in names]
        return [*sorted(found, key=lambda due: due.priority), DueJob(LAST, now + float(rest), "")]

    def take(self, path: str, now: float) -> QueuedJob | None:
        """
        Take a job and return it; None: another process does it, or has done it, or the server is away.

        Raises:
            ValueError: the octets are no job; it stays, and is tried again in an hour.
        """
        words, since = (_name_in(path), new_token()), time.monotonic()
        try:
            octets = self._store.run(_TAKE, self._keys, *words, repr(LEASE_SECONDS))
        except StoreError:  # if the server has given it to us all the same, it is due again soon
            return None
        if octets is None:
            return None

        def run(script: str, *more: str) -> bool:
            return bool(self._store.run(script, self._keys, *words, *more))

        job = QueuedJob(path, run, self._leases, since)
        try:
            job.values, job.body = parse_job(octets)
        except ValueError:
            with contextlib.closing(job):  # also on a StoreError: the lease must not be renewed for ever
                job.put_off(now, 3600.0)
            raise
        return job

    def close(self) -> None:
        """Do nothing: the connections belong to the process."""

    def warn(self) -> None:
        """Log settings of the server that could lose jobs."""
        with contextlib.suppress(StoreError):
            told = self._store.ask("INFO").decode("latin-1")
            if "\naof_enabled:0" in told:
                logger.warning(
                    "%s: appendonly is off at %s; jobs of the last minutes are lost with it",
                    self.name,
                    self._store.name,
                )
            if "\nmaxmemory_policy:allkeys" in told:
                logger.warning(
                    "%s: maxmemory-policy allkeys-... at %s may remove jobs; volatile-... does not",
                    self.name,
                    self._store.name,
                )


class QueuedJob:
    """A job that this process does, under its lease."""

    values: dict[bytes, bytes]
    body: bytes

    def __init__(self, path: str, run: Callable[..., bool], leases: Leases, since: float) -> None:
        """`run` runs a script on the server, for this job."""
        self.path = path
        self.next_at = math.inf  # when it is due again: never
        self._run = run
        self._leases = leases
        self._lease = leases.keep(
            Lease(f"the job {path}", lambda: run(_RENEW, repr(LEASE_SECONDS)), lambda: True, since)
        )

    def put_off(self, now: float, seconds: float | None = None) -> float:
        """Put the job off; see Job.put_off. Without `seconds`, by at least the duration of a lease."""
        wanted = growing_seconds(self.path, now) if seconds is None else seconds
        self._tell_lost(self._run(_PUT_OFF, repr(max(wanted, LEASE_SECONDS) if seconds is None else wanted)))
        self.next_at = now + wanted
        return wanted

    def remove(self) -> None:
        """Remove the job, which is done; wait until the server has confirmed that, or it would be done again."""
        while True:
            try:
                self._tell_lost(self._run(_REMOVE))
                break
            except StoreError:
                time.sleep(AGAIN_SECONDS)
        self.next_at = math.inf

    def close(self) -> None:
        """Stop renewing, so that others can do the job when it is due."""
        self._leases.drop(self._lease)

    def _tell_lost(self, is_mine: bool) -> None:
        if not is_mine and self._leases.drop(self._lease):
            tell_lost(self._lease)


def _name_in(path: str) -> str:
    return path.partition("/")[2]
