"""The supervisor: keeps workers serving, until it is told to end.

Owns:     the loop that waits for signals, workers' words and time, and what is done about each; the listeners, once they are bound.
Thread:   one, the main thread, and no event loop: it may fork at any time. It never imports the app.
Not here: below, by who does it.

| noun                           | answers for                                                                                |
|---|---|
| `Children` (children.py)       | who is there: forking, reaping, channels; molds.py: what workers are forked from           |
| `Crew` (crew.py)               | who is to be there: how many, who is missing, when a slot may try again                    |
| `Rollout` (rollout.py)         | whose turn it is to be replaced, and by what code                                          |
| `Reloads` (reloads.py)         | a reload, from the wish to its end                                                         |
| `FailedStarts`, `Ends`         | what follows when a child could not start, or has ended (failed_starts.py, ends.py)        |
| `Attached`, `Losses`           | programs beside the workers (attached.py); the requests of one that dies (losses.py)       |
| `Shutdown`, `Upgrade`          | the end of it all (shutdown.py), and new code of aserve's own (upgrade.py)                 |
| `Answers`, `Status`            | what people ask on the control socket (answers.py, status.py)                              |
| `Overview`, `Watch`, `Manager` | what Prometheus, the supervisor itself and systemd see (overview.py, watch.py, lifecycle/manager.py) |

What happens, by event:

| a signal: `_by_signal`                | a worker's word: `_by_word`           | a worker's end: ends.py, by where it stood   |
|---|---|---|
| TERM, INT: all drain; again: at once  | ready: who was there before it drains | STARTING: a reload is off; else another try  |
| QUIT: all end at once                 | failed: why it ends                   | READY: a crash; another, soon                |
| HUP: all are replaced                 | failing: it asks for a successor      | DRAINING: as it was told                     |
| TTIN, TTOU: one worker more, one less | left: it drains, and accepts no more  | KILLED: as where it was killed, for a fault  |
| USR1: logs are reopened               | idle: a connection for another        |                                              |
|                                       | changed: a reload, with --reload      |                                              |
| USR2: new code of aserve's own        | the trial's: upgrade.py               | the trial's: upgrade.py                      |
|                                       | a mold's: molds.py                    | a mold's: molds.py                           |

After each event the loop looks which slots lack a worker, or are to have a successor, and forks (`_due`). That is the only
place where a worker begins, and the top of the loop: so a child returns from `run`, and nothing of the supervisor's goes on in it.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from ..connections.listeners import Listener
from ..lifecycle.lacking import describe_lack
from ..lifecycle.manager import Manager
from ..settings import MAX_WORKERS, EngineSettings
from .answers import Answers
from .attached import Attached
from .channel import Message
from .child import MOLD, TRIAL, Child, State, name_of
from .children import Children
from .command import Command
from .control import open_control, watch_with
from .crew import Crew, workers
from .ends import Ends
from .failed_starts import FailedStarts
from .inheritance import Inheritance
from .levelling import level_out
from .losses import Losses, OnLife
from .molds import Molds
from .overview import Overview, Supervise
from .plan import Plan, Read
from .programs import OpenJobs
from .reloads import Reloads
from .rollout import Rollout
from .shutdown import Shutdown
from .signal_pipe import SignalPipe, block_signals
from .slots import Slots
from .status import Status
from .timers import Timers
from .upgrade import Upgrade
from .watch import Watch
from .worker import Role

logger = logging.getLogger("aserve")

CHECK_SECONDS = 1.0


class Supervisor:
    """Keeps workers serving."""

    _failed_starts: FailedStarts  # made after the molds, which tell it of theirs

    def __init__(
        self,
        plan: Plan,
        read: Read,
        listeners: Sequence[Listener],
        command: Command,
        open_jobs: OpenJobs,
        supervise: Supervise = lambda context: (),
        on_life: OnLife = lambda event, context: None,
    ) -> None:
        self._read = read
        self._open_jobs, self._on_life = open_jobs, on_life  # see Attached, Losses
        self._supervise = supervise  # see Overview
        self._command = command  # which has started this process
        self._listeners = listeners  # closed in the end
        self._timers = Timers()
        self._rollout = Rollout(plan)
        self._manager = Manager(main_pid=os.getpid())
        self._logs_reopened_at = 0.0
        self._by_signal: dict[signal.Signals, Callable[[signal.Signals], None]] = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGQUIT: self._end_at_once,
            signal.SIGHUP: lambda number: self.reload(number.name),
            signal.SIGTTIN: lambda number: self.resize(self.size + 1, number.name),
            signal.SIGTTOU: lambda number: self.resize(self.size - 1, number.name),
            signal.SIGUSR1: self._reopen_logs,
            signal.SIGUSR2: lambda number: self._upgrade.ask(number.name, self._rollout.reload is not None),
            signal.SIGCHLD: lambda number: self._ends.reap(),
        }
        self._by_word: dict[str, Callable[[Child, Message, list[int]], None]] = {
            "ready": self._on_ready,
            "failed": Child.on_failed,
            "failing": self._on_failing,
            "changed": lambda child, message, fds: self._reloads.on_changed(child, message, fds),
            "left": self._on_left,
            "idle": self._on_idle,
            "stacks": lambda child, message, fds: self._answers.on_stacks(child, message, fds),
            "slow": lambda child, message, fds: self._status.on_slow(child, message),
        }

    # The loop

    def run(self, inherited: Inheritance | None = None) -> int | Role:
        """
        Supervise until told to end, from the start or with what code of before has left; return the exit status.

        It returns more than once, as fork() does: in each child with its Role. That has let go of what is the supervisor's by then.

        Raises:
            StartFailed: the first worker could not start.
        """
        self._open(inherited)
        while self._children or self._attached or self._shutdown.wants_worker or not self._shutdown.has_begun:
            _guard(self._advance_upgrade)
            _guard(self._attached.start_due)
            for slot in self._due():
                forked = self._fork(slot)
                if isinstance(forked, Role):
                    return forked
                if not forked:
                    break  # with it a reload may have ended: then something else is due
            self._wait()
        for listener in self._listeners:
            listener.close()
        if self._control is not None:
            self._control.close()
        self._overview.close(is_end=True)
        self._let_go()
        if self._shutdown.start_failure is not None:
            raise self._shutdown.start_failure
        logger.info("stopped")
        return self._shutdown.status

    def _open(self, inherited: Inheritance | None = None) -> None:
        """Make all the nouns, from those that know nobody up to those that act, and go on with what was inherited."""
        self._signals = SignalPipe(self._by_signal)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        plan = self._rollout.plan
        slots = Slots(2 * MAX_WORKERS, inherited.pages if inherited else None, plan.workers[0] + 1)
        children = self._children = Children(slots, self._selector, self._timers, self._hear)
        kept = inherited.kept if inherited is not None else {}
        attached = self._attached = Attached(
            self._command, self._signals, self._timers, lambda *cell: tally.count(*cell), self._open_jobs, kept
        )
        attached.follow(plan.config)
        status = self._status = Status(self, children, self._rollout, attached, self._listeners)
        watch = watch_with(self._selector)
        self._overview = Overview(slots, children, status, self._supervise, self._command.environ, watch)
        self._by_word.update(self._overview.by_word)
        tally = self._overview.tally
        self._watch = Watch(children)
        crew = self._crew = Crew(plan, self._listeners, children, self._rollout, self._timers, tally, self._watch)
        molds = self._molds = Molds(
            children, self._rollout.is_unproven, lambda *failure: self._failed_starts.note(*failure), crew.pause_after
        )
        shutdown = self._shutdown = Shutdown(children, molds, self._timers, self._listeners, self._manager, attached)
        upgrade = self._upgrade = Upgrade(self._command, children, self._signals, self._manager, attached)
        self._answers = Answers(self, crew, children, self._timers, status)
        reloads = self._reloads = Reloads(
            self._read, self._rollout, crew, children,
            molds=molds, shutdown=shutdown, upgrade=upgrade, answers=self._answers, attached=attached, manager=self._manager,
            status=status, tally=tally,
        )  # fmt: skip
        self._failed_starts = FailedStarts(children, crew, self._rollout, reloads, shutdown, tally, self._answers)
        self._ends = Ends(
            children, crew, reloads, self._failed_starts,
            attached=attached, losses=Losses(self._overview.on_lost, tally, status, self._on_life),
            molds=molds, shutdown=shutdown, upgrade=upgrade, overview=self._overview, status=status, watch=self._watch,
        )  # fmt: skip
        asking = watch, self._answers.by_question, self._timers.after
        self._control = open_control(plan.config.control, *asking, is_upgraded=inherited is not None)
        if inherited is not None:
            self._take_over(inherited)
        self._check()

    def _take_over(self, inherited: Inheritance) -> None:
        """Go on with what code of before has left, and replace it."""
        self._crew.has_served, self._crew.size = True, inherited.size or self._crew.size
        self._upgrade.take_over(inherited)
        if inherited.counted is not None:
            self._overview.restore(inherited.counted, has_children=inherited.plan is not None)
        self.reload("SIGUSR2")

    def _due(self) -> Iterator[int]:
        """
        Yield the slots in which a worker, or a mold, is to be started now; each is started before the next is asked for.

        A slot whose worker was killed waits until that has ended: only then it is known whether a pause is to follow (ends.py).
        """
        find, may_begin, plan = self._children.find, self._may_begin, self._rollout.next
        if self._molds.is_due(plan) and may_begin(MOLD):
            yield MOLD
        if not self._molds.can_fork(plan):
            return
        # The first worker shows whether there is anything to serve.
        for slot in range(1, self._crew.size + 1) if self._crew.has_served else (1,):
            if may_begin(slot) and not find(slot, State.STARTING, State.KILLED, State.READY):
                yield slot
        for slot in self._rollout.due():
            if may_begin(slot) and not find(slot, State.STARTING, State.KILLED):
                yield slot

    def _may_begin(self, slot: int) -> bool:
        """Whether a slot's pause is over; in the end only who is wanted may begin, without a pause."""
        if self._shutdown.has_begun:
            return self._shutdown.wants_worker and slot in (1, MOLD)
        return self._crew.may_try(slot)

    def _advance_upgrade(self) -> None:
        """Try new code, or become it, if that was asked for, and nothing else is under way."""
        if self._crew.has_served and not (self._rollout.reload or self.is_ending or self._children.has_unborn):
            self._upgrade.advance(self._rollout.plan, self._crew.size, self._listeners, self._overview)

    def _fork(self, slot: int) -> Role | bool:
        """Start a worker or a mold, here or by a mold; return whether that went well, and in a child that was forked here its role."""
        plan = self._rollout.begin(slot)
        given = self._overview.share()
        with block_signals():
            try:
                child, channel = self._molds.fork(slot, plan)
            except OSError as exc:
                self._failed_starts.note(
                    slot, plan, name_of(slot), f"it could not be forked: {describe_lack(exc) or exc.strerror or exc}"
                )
                return False
            if channel is None:
                self._shutdown.on_begun(child)
                return True
            if self._control is not None:
                self._control.let_go()
            self._let_go()
            shared = self._children.memory_of(child)
            # Where the app of before serves, its successor is to be tried.
            fault = self._reloads.fault if not self._children.find(slot, State.READY) else None
            is_new = self._rollout.is_unproven(plan) or not self._crew.has_served
            return Role(
                slot, child.generation, plan, channel, self._listeners, *shared, os.getppid(), given, fault, is_new, child.page
            )  # fmt: skip

    def _let_go(self) -> None:
        """Close what only the supervisor needs, and let signals mean what they did before; in a child, too."""
        self._selector.close()
        self._signals.close()
        self._overview.close(is_end=False)

    def _wait(self) -> None:
        """Wait for the next event, and do what is to be done about it."""
        for key, _ in self._selector.select(self._timers.seconds_to_next()):
            _guard(key.data)
        for timer in self._timers.pop_due():
            _guard(timer.run)
        _guard(self._answers.tell_waiting)
        if self._crew.has_served and not self.is_reloading and not self._upgrade.is_under_way:
            self._manager.tell_ready(self.describe())

    def _check(self) -> None:
        """Look once a second at what nobody tells."""
        self._timers.after(CHECK_SECONDS, self._check)
        self._ends.reap()
        self._reloads.look_at_touched()
        self._children.forget_given()
        level_out(self._children, self._rollout.has_asked)
        self._status.on_second()
        self._overview.on_second()
        self._attached.look_at_jobs()
        for due in self._watch.look(self.config, time.monotonic()):
            self._crew.replace(*due)
        self._manager.feed_watchdog(self._watch.has_moved())

    # What others may ask of it: answers.Supervised, status.Known

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._crew.size

    @property
    def config(self) -> EngineSettings:
        """The settings of workers that start now."""
        return self._rollout.plan.config

    @property
    def is_reloading(self) -> bool:
        """Whether a reload is on its way to its end."""
        return self._rollout.is_moving

    @property
    def is_ending(self) -> bool:
        """Whether no worker is to begin any more."""
        return self._shutdown.has_begun

    def describe(self) -> str:
        """Return in one line how things are."""
        return self._crew.describe() + self._rollout.describe() + self._attached.describe_missing()

    def reload(self, why: str) -> None:
        """Read the settings anew, and replace all workers, if the first successor can start."""
        self._reloads.begin(why)

    def resize(self, size: int, why: str) -> None:
        """Have so many workers from now on."""
        if not self._shutdown.has_begun:
            self._crew.resize(size, why)
            self._reloads.finish()

    # Signals

    def _on_signals(self) -> None:
        for number in self._signals.read():
            if number in self._by_signal:
                self._by_signal[number](number)

    def _stop(self, number: signal.Signals) -> None:
        self._upgrade.abandon()
        self._shutdown.drain(number, self.config, self._crew.has_served)

    def _end_at_once(self, number: signal.Signals) -> None:
        self._upgrade.abandon()
        self._shutdown.end_at_once(number)

    def _reopen_logs(self, number: signal.Signals) -> None:
        self._logs_reopened_at = time.monotonic()
        for child in self._children.having(State.READY, State.DRAINING):
            self._children.tell(child, {"do": "reopen logs"})

    def set_unready(self, why: str) -> None:
        """Let balancers be told why they should send their requests elsewhere, at each of our addresses; "": they need not."""
        logger.info("balancers are told: %s", why or "ready")
        self._overview.why_unready = why
        for child in self._children.having(State.READY):
            self._children.tell(child, {"do": "set unready", "why": why})

    # Workers' words

    def _hear(self, child: Child, message: Message, fds: list[int]) -> None:
        words = {TRIAL: self._upgrade.by_word, MOLD: self._molds.by_word}.get(child.slot, self._by_word)
        # A bug of ours here must not hide from Children that who has said it has ended.
        _guard(lambda: words[message["say"]](child, message, fds))

    def _on_ready(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker serves: who was in its slot before may go."""
        if not self._children.admit(child):
            return
        if child.began_at <= self._logs_reopened_at:
            self._children.tell(child, {"do": "reopen logs"})  # it may have opened them before
        if self._overview.why_unready:
            self._children.tell(child, {"do": "set unready", "why": self._overview.why_unready})
        if self._shutdown.has_begun:
            self._shutdown.on_ready(child)
            return
        if not self._crew.has_served:
            self._crew.begin(child)
        logger.info("%s is ready, after %.1f s", child, child.ready_at - child.began_at)
        if self._crew.absences.end(child.slot):
            logger.info("no worker is missing any more: %s", workers(self._crew.size))
        if self._rollout.is_unproven(child.plan):
            self._reloads.commit(child)
        why = self._rollout.succeed(child.slot)
        for other in self._children.find(child.slot, State.READY):
            if other is not child or child.slot > self._crew.size:
                self._crew.retire(other, why)
        self._reloads.finish()

    def _on_failing(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker asks for a successor."""
        if child.state == State.READY:
            self._crew.replace(child.slot, f"{child}: {message['why']}", "asked")

    def _on_left(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker that drains accepts nobody any more."""
        child.has_left = True
        self._reloads.finish()

    def _on_idle(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker gives away a connection that waits for its next request: it is for whoever has the fewest."""
        self._children.pass_on(child, message, fds, self._rollout.has_asked)


def _guard(call: Callable[[], Any]) -> None:
    """Do this; a bug of ours must not end the supervisor, and all workers with it."""
    try:
        call()
    except Exception:
        logger.exception("internal error; please report this as a bug in aserve")
