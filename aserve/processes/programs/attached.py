"""Programs beside the workers: started, kept and ended with the workers, or run at times (--attach, --cron, --spooler).

Owns:     Attached: when each program begins, the delay before the next start, ending, handing down over the supervisor's exec.
Thread:   the supervisor's only one.
States:   below.
Not here: the list (Supervision.programs), forking (programs.py), times (settings/crontab.py), the end of a reload, and of the server (acts.py).

```
            start_due                  it ends
   WAITING -----------> RUNNING ---------------------> WAITING, for the time of its back-off
                           |  SIGTERM, as for a reload
                           +--------> ENDING --------> WAITING, for nothing; or it is forgotten
```

A program of --cron is SCHEDULED instead of WAITING: the program begins at the minute, and the end of the program is the end of the run. A reload
lets a run go on, and new settings count for the next run. The last checked minute is passed on over the supervisor's exec: so no run happens twice.

A program writes to our standard error directly: the supervisor reads no output. So a program with much output costs nothing here, a line of output is
a line of the log, and nothing is lost or stops the program when the supervisor ends, or becomes new code. Standard output goes there, too, as ours
may be the access log.

SIGTERM goes to the program alone, which can tell further processes; SIGKILL goes to the program's whole group, also to processes left
behind (KillMode=mixed of systemd). If the supervisor dies, the kernel sends the program SIGTERM: the next supervisor
starts the program again, and there must not be two.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import Any, Callable

from ...core.errors import DONE
from ...core.tally import ATTACHED_RESTARTS, CRON_RUNS
from ...lifecycle.program import Program, environ_for
from ...settings import EngineSettings
from ...settings.crontab import MINUTE, last_due, parse_times
from ..children.command import Command
from ..children.poller import Timer, Timers
from ..children.signal_pipe import SignalPipe
from ..fleet.backoff import Backoff
from .programs import send_signal, start_program

logger = logging.getLogger("aserve")

# If the clock goes back by more, the clock was wrong before, and is followed; if by less, commands wait for the clock. As cron does.
SET_BACK_MINUTES = 180

State = dict[str, Any]


def _ignore() -> None:
    """Do nothing."""


class _Managed:
    """A program of the settings, or a program that still runs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.backoff = Backoff()
        self.pid = 0  # 0: the program does not run
        self.began_at = 0.0
        self.words: tuple[str, ...] = ()  # of the running process: `program` may be of newer settings
        self.deadline: Timer | None = None  # the limit for the end, after SIGTERM
        self.is_out_of_reach = False  # another user's process: SIGKILL was refused
        self.restarts = 0
        self.last_end = ""
        self.looked_at = time.time() // MINUTE  # --cron: the last checked minute
        self.is_due = not program.when

    def __str__(self) -> str:
        kind = "" if self.program.when else "attached "
        return f"{kind}{self.program.name}" + (f" (pid {self.pid})" if self.pid else "")

    @property
    def state(self) -> str:
        """The state, in a word."""
        if not self.pid:
            return "waiting" if self.is_due else "scheduled"
        return "ending" if self.deadline is not None else "running"

    def become(self, program: Program) -> None:
        """Use this program from the next start on."""
        if program.when and program.words != self.program.words:
            self.is_due = False  # the minute was the old program's
        self.program = program

    def is_place_of(self, other: _Managed) -> bool:
        """Whether the command run by `other` is now under this name, and does not run here."""
        is_free = self.deadline is None and not (self.pid and self.words == other.words)
        return bool(self.program.when) and self.program.words == other.words and is_free

    def swap_run(self, other: _Managed) -> None:
        """Exchange the running processes with `other`."""
        self.pid, other.pid = other.pid, self.pid
        self.began_at, other.began_at = other.began_at, self.began_at
        self.words, other.words = other.words, self.words

    def take_due(self) -> bool:
        """Look at the clock; return whether a minute of the times has come since the last look."""
        if not self.program.when:
            return False
        now = time.time()
        minute = now // MINUTE
        if minute < self.looked_at - SET_BACK_MINUTES:
            self.looked_at = minute
        if minute <= self.looked_at:
            return False
        before, self.looked_at = self.looked_at, minute
        return last_due(parse_times(self.program.when).names, before, now) is not None


class Attached:
    """All programs, by name."""

    _config: EngineSettings  # see `follow`

    def __init__(
        self,
        command: Command,
        signals: SignalPipe,
        timers: Timers,
        count: Callable[[str, str], None],
        programs_of: Callable[[EngineSettings], Sequence[Program]],
    ) -> None:
        """`programs_of` returns the programs of settings, with unique names."""
        self._command = command  # of the start of this process
        self._signals = signals
        self._timers = timers
        self._count = count  # see Tally.count
        self._by_name: dict[str, _Managed] = {}
        self._forgotten: list[_Managed] = []  # without a name in the settings, and still running
        self._programs_of = programs_of
        self._is_ending = False  # all ends: no program is started any more
        self._on_cut = _ignore  # see `end`

    def __len__(self) -> int:
        """Return how many programs run, and are to be waited for: at the end without unkillable programs."""
        return sum(1 for one in self._all() if one.pid and not (self._is_ending and one.is_out_of_reach))

    def _all(self) -> list[_Managed]:
        return [*self._by_name.values(), *self._forgotten]

    # The list of programs

    def follow(self, config: EngineSettings) -> None:
        """Run the programs of these settings from now on; running programs go on."""
        self._config = config
        programs = {program.name: program for program in self._programs_of(config)}
        gone = [self._by_name.pop(name) for name in list(self._by_name) if name not in programs]
        for name, program in programs.items():
            self._by_name.setdefault(name, _Managed(program)).become(program)
        self._let_go(gone)

    def _let_go(self, gone: Sequence[_Managed]) -> None:
        """End programs no longer named by the settings, but for a command of --cron under a new name."""
        for one in [*gone, *(one for one in self._by_name.values() if one.words != one.program.words)]:
            for other in self._by_name.values() if one.pid and one.program.when and one.deadline is None else ():
                if other.is_place_of(one):
                    other.swap_run(one)
                    break
        for one in gone:
            if one.pid:
                self._forgotten.append(one)
                self._tell_to_end(one)

    def renew(self, config: EngineSettings) -> None:
        """Restart all programs, with these settings: the workers have new code."""
        if self._is_ending:
            return
        before = {one for one in self._by_name.values() if one.pid and not one.program.when}
        if config is not self._config:  # else no source of the settings has changed
            self.follow(config)
        for one in self._by_name.values():
            one.backoff.reset()
            if one in before:
                logger.info("%s is started anew: workers are new", one)
                self._tell_to_end(one)

    # Beginning

    def start_due(self) -> None:
        """Start the programs whose time has come."""
        if self._is_ending:
            return
        now = time.monotonic()
        for one in self._by_name.values():
            if one.take_due():
                self._on_due(one)
            if one.is_due and not one.pid and one.backoff.due_at <= now and not self._would_be_one_too_many(one):
                self._start(one, now)

    def _on_due(self, one: _Managed) -> None:
        """Begin a command at the minute, unless the last run goes on; before a reload the name may have run a different command."""
        one.is_due = not one.pid or one.words != one.program.words
        if not one.is_due:
            self._count(CRON_RUNS, 'result="skipped"')
            logger.warning(
                "%s still runs, after %.0f s: it is not begun once more", one, time.monotonic() - one.began_at
            )

    def _would_be_one_too_many(self, one: _Managed) -> bool:
        """Whether a process of older settings, under this name or a different name, must end first: there must not be two."""
        words = one.program.words  # several may have the same, as spoolers do
        running = sum(1 for other in self._all() if other.pid and other.words == words)
        wanted = sum(1 for other in self._by_name.values() if other.program.words == words)
        return running >= wanted or any(other.program.name == one.program.name for other in self._forgotten)

    def _start(self, one: _Managed, now: float) -> None:
        environ, own = environ_for(self._config, self._command.environ), one.program.own
        folder = self._command.start.whole(self._config.chdir or "")
        kept: Sequence[int] = ()
        if own is not None:
            folder, kept = self._command.start.whole(""), own.fds
            environ.update(own.variables())
        try:
            one.pid = start_program(one.program, environ, folder or None, self._signals, kept)
        except OSError as exc:
            seconds = self._delay(one)
            logger.error("%s could not be forked: %s; the next try is in %.1f s", one, exc.strerror or exc, seconds)
            return
        one.began_at, one.words, one.is_out_of_reach = now, one.program.words, False
        one.is_due = not one.program.when
        logger.info("%s has begun: %s", one, one.program)

    def _delay(self, one: _Managed) -> float:
        seconds = one.backoff.fail(time.monotonic())
        self._timers.wake_after(seconds)
        return seconds

    # Ending

    def _tell_to_end(self, one: _Managed) -> None:
        if one.deadline is None:
            _ask_to_end(one)
            self._await_end(one, self._config.drain_seconds)

    def _await_end(self, one: _Managed, seconds: float) -> None:
        one.deadline = self._timers.after(seconds, self._on_deadline, one)

    def _on_deadline(self, one: _Managed) -> None:
        logger.error(
            "%s had not ended %g s after SIGTERM (--drain-timeout); ending it", one, self._config.drain_seconds
        )
        _kill(one)
        self._on_cut()

    def end(self, on_cut: Callable[[], None] = _ignore) -> None:
        """Let all programs end within --drain-timeout, and call `on_cut` for each killed program; no program is started any more."""
        self._is_ending, self._on_cut = True, on_cut
        for one in self._all():
            if one.is_out_of_reach:
                on_cut()  # a reload has tried already
            elif one.pid:
                self._tell_to_end(one)

    def kill(self) -> None:
        """Kill all programs; none is started any more."""
        self._is_ending = True
        for one in self._all():
            if one.pid:
                _kill(one)

    def on_end(self, pid: int, how: str) -> None:
        """Handle the end of a process other than a worker: record the end of a program, and schedule the next start."""
        one = next((one for one in self._all() if one.pid == pid), None)
        if one is None:
            return
        name, seconds, one.last_end = str(one), time.monotonic() - one.began_at, how
        # No new group can have the number so soon: the kernel gives numbers in turn.
        send_signal(os.killpg, one.pid, one, signal.SIGKILL)
        is_told, one.pid, one.is_out_of_reach = one.deadline is not None, 0, False
        own = one.program.own
        if own is not None:
            own.on_end()
        if one.deadline is not None:
            one.deadline.cancel()
            one.deadline = None
        if self._is_ending or one in self._forgotten:
            logger.info("%s has ended: it %s", name, how)
            if one in self._forgotten:
                self._forgotten.remove(one)
            return
        one.restarts += 1
        if one.program.when:
            is_done = how == DONE
            self._count(CRON_RUNS, f'result="{"done" if is_done else "failed"}"')
            logger.log(
                logging.INFO if is_done else logging.ERROR, "%s has ended after %.0f s: it %s", name, seconds, how
            )
            return
        if is_told:
            self._count(ATTACHED_RESTARTS, 'reason="reload"')
            logger.info("%s has ended, to be started anew: it %s", name, how)
            return
        if own is not None and own.may_end and how == DONE:
            self._count(ATTACHED_RESTARTS, 'reason="recycle"')
            logger.info("%s has ended, to be started anew: it has done its jobs", name)
            return
        self._count(ATTACHED_RESTARTS, 'reason="ended"')
        one.backoff.succeed(seconds)
        logger.error(
            "%s has ended after %.0f s: it %s; it is started once more in %.1f s", name, seconds, how, self._delay(one)
        )

    def end_overdue(self) -> None:
        """End overdue programs of aserve's own; called once a second."""
        for one in self._by_name.values():
            why = one.program.own.overdue() if one.program.own is not None and one.pid else ""
            if why:
                logger.error("%s %s: ending it", one, why)
                _kill(one)

    # Describing the programs

    def describe_missing(self) -> str:
        """Return which programs should run, and do not, for the end of a line; empty: all run."""
        names = [one.program.name for one in self._by_name.values() if one.last_end and one.state == "waiting"]
        return f"; attached, but not running: {', '.join(names)}" if names else ""

    def describe(self) -> list[State]:
        """Return the state of each, for JSON; see `adopt`."""
        now = time.monotonic()
        return [
            {
                "name": one.program.name,
                "pid": one.pid,
                "state": one.state,
                "ends_in": self._timers.seconds_to(one.deadline) if one.deadline is not None else None,
                "seconds": round(now - one.began_at, 1) if one.pid else 0.0,
                "restarts": one.restarts,
                "last_end": one.last_end,
                "words": one.words if one.pid else one.program.words,
                "when": one.program.when,
                "pause_seconds": one.backoff.seconds,
                "looked_at": one.looked_at,
                "is_due": one.is_due,
                "is_wanted": one not in self._forgotten,
            }
            for one in self._all()
        ]

    def adopt(self, states: Sequence[State]) -> None:
        """Take over the running programs of the time before an upgrade; to be called after `follow`."""
        gone = []
        for state in states:
            words = tuple(state.get("words", ()))
            one = self._by_name.get(state["name"]) if state["is_wanted"] else None
            if one is None:
                one = _Managed(Program(state["name"], words, when=state.get("when", "")))
                gone.append(one)
            one.restarts, one.last_end = state.get("restarts", 0), state.get("last_end", "")
            one.looked_at = state.get("looked_at", one.looked_at)
            one.is_due = one.is_due or (state.get("is_due", False) and words == one.program.words)
            if not state["pid"]:
                continue
            one.pid, one.words, one.began_at = state["pid"], words, time.monotonic() - state["seconds"]
            if state["state"] == "ending":  # to many programs a second SIGTERM means "at once"
                self._await_end(one, state.get("ends_in", self._config.drain_seconds))
        self._let_go(gone)


def _ask_to_end(one: _Managed) -> None:
    """Send SIGTERM: to a program alone, which tells further processes; to a shell's whole group, as a shell does not."""
    if one.program.when:
        with contextlib.suppress(OSError):  # no group yet, or a foreign user's
            os.killpg(one.pid, signal.SIGTERM)
            return
    send_signal(os.kill, one.pid, one, signal.SIGTERM)


def _kill(one: _Managed) -> None:
    one.is_out_of_reach = not send_signal(os.kill, one.pid, one, signal.SIGKILL)  # perhaps no group yet
    send_signal(os.killpg, one.pid, one, signal.SIGKILL)
