"""The supervisor: keeps workers serving, until it is told to end.

Owns:     the loop that waits for signals, workers' messages and time, and handles each; the listeners, once they are bound.
Thread:   one, the main thread, and no event loop: it may fork at any time. It never imports the app.
Not here: below, by who does it.

| noun                           | answers for                                                                                |
|---|---|
| `Fleet`, `decide` (fleet.py)   | what is due, by facts alone                                                                |
| `Children` (children.py)       | processes: forking, reaping, channels; molds.py: what workers are forked from              |
| `Crew` (crew.py)               | what is said of their number; pauses after failures                                        |
| `Reloads` (reloads.py)         | what is read, logged and told at the beginning and the end of a reload                     |
| `Ends`, `Outcomes`             | how a child has ended (ends.py), and what follows (outcomes.py)                            |
| `Attached`, `Losses`           | programs beside the workers (attached.py); the requests of one that dies (losses.py)       |
| `Shutdown`, `Upgrade`          | the end of it all (shutdown.py), and new code of aserve's own (upgrade.py)                 |
| `Answers`, `Status`            | what people ask on the control socket (answers.py, status.py)                              |
| `Overview`, `Watch`, `Manager` | what Prometheus, the supervisor itself and systemd see (overview.py, watch.py, lifecycle/manager.py) |

What happens, by event:

| a signal: `_by_signal`                | a worker's word: `_by_word`           | a child's end: ends.py                       |
|---|---|---|
| TERM, INT: all drain; again: at once  | ready: it serves                      | it is a fact, by which fleet.py judges       |
| QUIT: all end at once                 | failed: why it ends                   |                                              |
| HUP: all are replaced                 | failing: it asks for a successor      |                                              |
| TTIN, TTOU: one worker more, one less | left: it drains, and accepts no more  |                                              |
| USR1: logs are reopened               | idle: a connection for another        |                                              |
|                                       | changed: a reload, with --reload      |                                              |
| USR2: new code of aserve's own        | the trial's: upgrade.py               | the trial's: upgrade.py                      |
|                                       | a mold's: molds.py                    |                                              |

Each event changes facts. After each the loop asks `decide` (fleet.py) what is due, and does it, by the table `_by_do`, until nothing is (`_settle`).
Only at the top of the loop a worker begins: so a child returns from `run`, and nothing of the supervisor's goes on in it.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time
from collections.abc import Sequence
from typing import Callable

from ..connections.listeners import Listener
from ..core.guard import guard
from ..lifecycle.manager import Manager
from ..settings import MAX_WORKERS, EngineSettings
from .answers import Answers
from .attached import Attached
from .channel import Message
from .child import MOLD, TRIAL, Child, State
from .children import Children
from .command import Command
from .control import open_control, watch_with
from .crew import Crew, workers
from .ends import Ends
from .fleet import Action, Do, Fleet, decide
from .inheritance import Inheritance
from .levelling import level_out
from .losses import Losses, OnLife
from .molds import Molds
from .outcomes import Outcomes, fault_for
from .overview import Overview, Supervise
from .plan import Plan, Read
from .reloads import Reloads
from .role import Role
from .shutdown import Shutdown
from .signal_pipe import SignalPipe, block_signals
from .slots import Slots
from .status import Status
from .timers import Timers
from .upgrade import Upgrade
from .watch import Watch

logger = logging.getLogger("aserve")

CHECK_SECONDS = 1.0
# Of doing what is due after one event. Each process that has ended takes one, and a few follow: with more, an action has changed no fact.
MAX_ROUNDS = 1000 + 2 * MAX_WORKERS


class Supervisor:
    """Keeps workers serving."""

    def __init__(
        self,
        plan: Plan,
        read: Read,
        listeners: Sequence[Listener],
        command: Command,
        supervise: Supervise = lambda context: (),
        on_life: OnLife = lambda event, context: None,
    ) -> None:
        self._read = read
        self._on_life = on_life  # see Losses
        self._supervise = supervise  # see Overview
        self._command = command  # which has started this process
        self._listeners = listeners  # closed in the end
        self._timers = Timers()
        self._fleet = Fleet(plan, plan.workers[0])
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
            signal.SIGUSR2: lambda number: self._upgrade.ask(number.name, self._fleet.reload is not None),
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
        while self._children or self._attached or self._fleet.is_wanted or not self._fleet.is_ending:
            guard(self._attached.start_due)
            for _ in range(2):  # if one cannot be forked, something else may be due, as a reload has ended with it
                for start in self._settle():
                    forked = self._fork(start)
                    if isinstance(forked, Role):
                        return forked
                    if not forked:
                        break
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
        """Make all the nouns, from those without references to others up, and go on with the inheritance."""
        self._signals = SignalPipe(self._by_signal)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        plan, fleet = self._fleet.plan, self._fleet
        slots = Slots(2 * MAX_WORKERS, inherited.pages if inherited else None, plan.workers[0] + 1)
        children = self._children = Children(slots, self._selector, self._timers, self._hear)
        fleet.workers = children
        attached = self._attached = Attached(
            self._command, self._signals, self._timers, lambda *cell: tally.count(*cell), lambda config: self._overview.programs(config)
        )  # fmt: skip
        status = self._status = Status(self, children, fleet, attached, self._listeners)
        watch = watch_with(self._selector)
        self._overview = Overview(slots, children, status, self._supervise, self._command, watch)
        attached.follow(plan.config)
        self._by_word.update(self._overview.by_word)
        tally = self._overview.tally
        self._watch = Watch(children)
        crew = self._crew = Crew(fleet, self._listeners, children, self._timers, tally, self._watch)
        self._molds = Molds(fleet, children)
        shutdown = self._shutdown = Shutdown(fleet, children, self._timers, self._listeners, self._manager, attached)
        self._upgrade = Upgrade(self._command, children, self._signals, self._manager, attached)
        answers = self._answers = Answers(self, fleet, crew, children, self._timers, status)
        reloads = self._reloads = Reloads(
            self._read, fleet, crew, children, answers=answers, manager=self._manager, status=status, tally=tally
        )
        losses = Losses(self._overview.on_lost, tally, self._on_life)
        self._ends = Ends(fleet, children, attached, losses, self._upgrade, self._overview, self._watch)
        outcomes = Outcomes(fleet, children, crew, reloads, shutdown, answers, status, tally)
        self._by_do: dict[Do, Callable[[Action], None]] = {
            **crew.by_do,
            **reloads.by_do,
            **outcomes.by_do,
            **answers.by_do,
            Do.FINISH: self._finish_reload,
            Do.ADVANCE: lambda action: self._advance_upgrade(),
        }
        asking = watch, self._answers.by_question, self._timers.after
        self._control = open_control(plan.config.control, *asking, is_upgraded=inherited is not None)
        if inherited is not None:
            self._take_over(inherited)
        self._check()

    def _take_over(self, inherited: Inheritance) -> None:
        """Take over the previous code's workers, and replace them."""
        self._fleet.has_served, self._fleet.size = True, inherited.size or self._fleet.size
        self._upgrade.take_over(inherited)
        if inherited.counted is not None:
            self._overview.restore(inherited.counted, has_children=inherited.plan is not None)
        self.reload("SIGUSR2")

    def _settle(self) -> list[Action]:
        """Do what is due until nothing is, but what begins: return that; nothing after a bug of ours, as what is due may be so again."""
        starts: list[Action] = []
        guard(self._settle_into, starts)
        return starts

    def _settle_into(self, starts: list[Action]) -> None:
        for _ in range(MAX_ROUNDS):
            self._fleet.is_upgrade_due = self._upgrade.is_due
            actions = decide(self._fleet, time.monotonic())
            others = [action for action in actions if action.do is not Do.START]
            if not others:
                starts += actions
                return
            failed = [action for action in others if not guard(self._act, action)]
            if failed:
                return
        raise RuntimeError(
            f"after {MAX_ROUNDS} rounds something is due still: {', '.join(each.do.name for each in others)}"
        )

    def _act(self, action: Action) -> None:
        self._fleet.apply(action)
        self._by_do[action.do](action)

    def _finish_reload(self, action: Action) -> None:
        self._reloads.finish(action)
        self._attached.renew(self.config)
        self._upgrade.dismiss_strangers()

    def _advance_upgrade(self) -> None:
        self._upgrade.advance(self._fleet.plan, self._fleet.size, self._listeners, self._overview)

    def _fork(self, start: Action) -> Role | bool:
        """Start a worker or a mold, here or by a mold; return whether that went well, and in a child that was forked here its role."""
        slot, plan, fleet = start.slot, start.plan, self._fleet
        given = self._overview.share()
        with block_signals():
            try:
                child, channel = self._molds.fork(slot, plan, start.worker)
            except OSError as exc:
                self._ends.on_no_fork(slot, plan, exc)
                return False
            fleet.apply(start)
            if channel is None:
                if fleet.is_ending:
                    self._shutdown.on_begun(child)
                return True
            if self._control is not None:
                self._control.let_go()
            self._let_go()
            shared = self._children.memory_of(child)
            fault = fault_for(slot, fleet)
            is_new = fleet.is_unproven(plan) or not fleet.has_served
            return Role(
                slot, child.generation, plan, channel, self._listeners, *shared, os.getppid(), given, fault, is_new, child.page
            )  # fmt: skip

    def _let_go(self) -> None:
        """Close what only the supervisor needs, and let signals mean what they did before; in a child, too."""
        self._selector.close()
        self._signals.close()
        self._overview.close(is_end=False)

    def _wait(self) -> None:
        """Wait for the next event, and handle it."""
        for key, _ in self._selector.select(self._timers.seconds_to_next()):
            guard(key.data)
            self._settle()
        for timer in self._timers.pop_due():
            guard(timer.run)
            self._settle()
        if self._fleet.has_served and not self._fleet.is_moving and not self._upgrade.is_under_way:
            self._manager.tell_ready(self.describe())

    def _check(self) -> None:
        """Check once a second the facts that no message reports."""
        self._timers.after(CHECK_SECONDS, self._check)
        self._ends.reap()
        self._reloads.look_at_touched()
        self._children.forget_given()
        level_out(self._children, self._fleet.asked)
        self._status.on_second()
        self._overview.on_second()
        self._attached.end_overdue()
        for due in self._watch.look(self.config, time.monotonic()):
            self._crew.replace(*due)
        self._manager.feed_watchdog(self._watch.has_moved())

    # What others may ask of it: answers.Supervised, status.Known

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._fleet.size

    @property
    def config(self) -> EngineSettings:
        """The settings of workers that start now."""
        config: EngineSettings = self._fleet.plan.config
        return config

    @property
    def is_ending(self) -> bool:
        """Whether no worker is to begin any more."""
        return self._fleet.is_ending

    def describe(self) -> str:
        """Return the state in one line."""
        half_done = "; a reload is half done" if self._status.half_done else ""
        return self._crew.describe() + half_done + self._attached.describe_missing()

    def reload(self, why: str) -> None:
        """Read the settings anew, and replace all workers, if the first successor can start."""
        self._reloads.ask(why)

    def resize(self, size: int, why: str) -> None:
        """Set the number of workers."""
        if not self._fleet.is_ending:
            self._crew.resize(size, why)

    # Signals

    def _on_signals(self) -> None:
        for number in self._signals.read():
            if number in self._by_signal:
                self._by_signal[number](number)

    def _stop(self, number: signal.Signals) -> None:
        self._upgrade.abandon()
        self._shutdown.drain(number, self.config)

    def _end_at_once(self, number: signal.Signals) -> None:
        self._upgrade.abandon()
        self._shutdown.end_at_once(number)

    def _reopen_logs(self, number: signal.Signals) -> None:
        self._logs_reopened_at = time.monotonic()
        for child in self._children.having(State.READY, State.DRAINING):
            self._children.tell(child, {"do": "reopen logs"})

    def set_unready(self, why: str) -> None:
        """Tell balancers why they should send their requests elsewhere, at each of our addresses; "": they need not."""
        logger.info("balancers are told: %s", why or "ready")
        self._overview.why_unready = why
        for child in self._children.having(State.READY):
            self._children.tell(child, {"do": "set unready", "why": why})

    # Workers' words

    def _hear(self, child: Child, message: Message, fds: list[int]) -> None:
        words = {TRIAL: self._upgrade.by_word, MOLD: self._molds.by_word}.get(child.slot, self._by_word)
        # A bug of ours here must not keep Children from noticing that the sender has ended.
        guard(lambda: words[message["say"]](child, message, fds))

    def _on_ready(self, child: Child, message: Message, fds: list[int]) -> None:
        """Record that a worker serves."""
        if not self._children.admit(child):
            return
        if child.began_at <= self._logs_reopened_at:
            self._children.tell(child, {"do": "reopen logs"})  # it may have opened them before
        if self._overview.why_unready:
            self._children.tell(child, {"do": "set unready", "why": self._overview.why_unready})
        if self._fleet.is_ending:
            return
        is_first = not self._fleet.has_served
        self._fleet.on_ready(child)
        if is_first:
            self._crew.begin(child)
        logger.info("%s is ready, after %.1f s", child, child.ready_at - child.began_at)
        if self._crew.absences.end(child.slot):
            logger.info("no worker is missing any more: %s", workers(self._fleet.size))

    def _on_failing(self, child: Child, message: Message, fds: list[int]) -> None:
        """Replace a worker that asks for a successor."""
        if child.state == State.READY:
            self._crew.replace(child.slot, f"{child}: {message['why']}", "asked")

    def _on_left(self, child: Child, message: Message, fds: list[int]) -> None:
        """Record that a draining worker accepts no more connections."""
        child.has_left = True

    def _on_idle(self, child: Child, message: Message, fds: list[int]) -> None:
        """Pass on a connection that waits for its next request, from one worker to the one with the fewest."""
        self._children.pass_on(child, message, fds, self._fleet.asked)
