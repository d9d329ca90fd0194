"""Chooses the process of all hosts that runs a tick of a timer, or a minute of cron.

Owns:     OwnTurns: the ticks that this process knows to be settled, and claiming the next one.
Thread:   the clock's (signals.py).
Not here: schedules (schedules.py), leases as such (features/sharing/leases.py), running functions (signals.py).

The server has the last tick of each schedule that a process has taken, with its token; and, while the function runs, a lease. A process
takes a due tick, atomically, if it is not taken and the function does not run. Without an answer it asks again: the token shows whether
the tick is already its own.
"""

from __future__ import annotations

import time

from ...features.sharing.leases import Lease, Leases, milliseconds, new_token
from ...features.sharing.store import Store, StoreError
from .schedules import Cron, Ticks, identity_of

KEPT_SECONDS = 30 * 24 * 3600  # how long the last tick of an unused schedule is kept. Guess
# A tick that is further ahead was taken by a host whose clock was wrong: it must not stop the others until then. Guess.
AHEAD_SECONDS = 3600
TAKEN, SETTLED, RUNS = 1, 0, -1

_FIRST = """\
local last = redis.call('GET', KEYS[1])
if last then return tonumber(string.match(last, '^%d+')) end
redis.call('SET', KEYS[1], ARGV[1] .. ' -', 'EX', ARGV[2])
return tonumber(ARGV[1])
"""
_TAKE = """\
local tick, token = tonumber(ARGV[1]), ARGV[2]
local last = redis.call('GET', KEYS[1])
if last then
  local number, by = string.match(last, '^(%d+) (.*)')
  number = tonumber(number)
  if number >= tick and number <= tick + tonumber(ARGV[5]) and not (number == tick and by == token) then return 0 end
end
local runs = redis.call('GET', KEYS[2])
if runs and runs ~= token then return -1 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token, 'EX', ARGV[4])
redis.call('SET', KEYS[2], token, 'PX', ARGV[3])
return 1
"""


class OwnTurns:
    """The turns of one process."""

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self.leases = leases
        self._settled: dict[str, float] = {}  # the last tick that is taken or past, by the name of the schedule
        self._tokens: dict[str, str] = {}  # of ticks that were requested

    def is_due(self, name: str, schedule: Ticks | Cron, now: float) -> bool:
        """Whether there may be a tick to claim: one that this process does not know to be settled."""
        settled = self._settled.get(name)
        return settled is not None and schedule.next(settled, now) is not None

    def take(self, name: str, schedule: Ticks | Cron, now: float) -> Lease | None:
        """Claim the due tick. None: no tick is due, another process has it, or Redis does not answer."""
        key, first = self._store.key("turn", f"{name}:{identity_of(schedule)}"), int(schedule.first(now))
        ahead = int(AHEAD_SECONDS / schedule.unit_seconds) + 1
        try:
            if name not in self._settled:
                self._settled[name] = self._store.run(_FIRST, [key], first, KEPT_SECONDS)
            if self._settled[name] > first + ahead:  # or this host's clock was wrong, and was set back
                self._settled[name] = first
            tick = schedule.next(self._settled[name], now)
            if tick is None:
                return None
            token, since = self._tokens.setdefault(name, new_token()), time.monotonic()
            keys = [key, key + b":runs"]
            found = self._store.run(_TAKE, keys, int(tick), token, milliseconds(), KEPT_SECONDS, ahead)
        except StoreError:
            return None
        if found == RUNS:
            return None
        self._settled[name] = tick
        del self._tokens[name]
        return self.leases.hold(keys[1], token, f"the turn of {name}", since) if found == TAKEN else None
