"""The supervisor: keeps workers serving, until it is told to end.

Owns:     the listeners, once they are bound, the loop that waits for signals, workers' words and time, and what is done about each of them.
Thread:   one, the main thread, and no event loop: it may fork at any time. It never imports the app.
Not here: how a worker is forked, told something and reaped (children.py), from what (molds.py), whose turn it is to be replaced
          (rollout.py), what a worker does (worker.py), the end of it all (shutdown.py), what people ask (answers.py), and
          Prometheus (overview.py).

What happens, by event:

| a signal: `_by_signal`                | a worker's word: `_by_word`           | a worker's end: `_by_end`, by where it stood |
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

The file is long because it is one machine: each event is a few lines, and they read one another's state.
"""

from __future__ import annotations

import collections
import logging
import os
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from ..access_log import append_unanswered
from ..connections.listeners import Listener
from ..errors import AserveError, BindError
from ..fault_page import Fault
from ..metrics.table import OOM_KILLS, RELOADS, START_FAILURES
from ..settings import MAX_WORKERS, Config, ConfigError
from .absences import Absences
from .answers import Answers
from .app_files import chosen_folder
from .backoff import Backoff
from .channel import Message
from .child import MOLD, TRIAL, Child, State, describe_requests, name_of
from .children import Children
from .command import Command
from .control import Control
from .inheritance import Inheritance
from .manager import Manager
from .molds import Molds
from .overview import Overview
from .plan import Plan, Read
from .rollout import Reload, Rollout
from .shutdown import Shutdown, StartFailed
from .signal_pipe import SignalPipe, block_signals
from .slots import Slots
from .status import Status
from .timers import Timers
from .touched import TouchedFiles
from .upgrade import Upgrade
from .watch import Watch
from .worker import FAILED, Role

logger = logging.getLogger("aserve")

CHECK_SECONDS = 1.0
UNFINISHED = f"exited with status {FAILED}"  # of a worker that has cut requests off, at the end of its drain


class Supervisor:
    """Keeps workers serving."""

    def __init__(
        self, plan: Plan, read: Read, listeners: Sequence[Listener], command: Command, metrics: Sequence[Listener] = ()
    ) -> None:
        self._read = read
        self._metrics_listeners = metrics  # closed in the end, too
        self._command = command  # which has started this process
        self._listeners = listeners  # closed in the end
        self._size, self._why_size = plan.workers
        self._timers = Timers()
        self._rollout = Rollout(plan)
        self._next_reload = ""  # why there is to be another, after the one that is under way
        self._touched = TouchedFiles(plan.config.touch_reload)
        self._backoffs: collections.defaultdict[int, Backoff] = collections.defaultdict(Backoff)  # by slot
        self._absences = Absences()
        self._manager = Manager()
        self._told_traceback = ""
        self._fault: Fault | None = None  # with --reload: why the app cannot start; workers show it in its place
        self._logs_reopened_at = 0.0
        self._has_served = False  # a worker was ready once
        self._by_signal: dict[signal.Signals, Callable[[signal.Signals], None]] = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGQUIT: self._end_at_once,
            signal.SIGHUP: lambda number: self.reload(number.name),
            signal.SIGTTIN: lambda number: self.resize(self._size + 1, number.name),
            signal.SIGTTOU: lambda number: self.resize(self._size - 1, number.name),
            signal.SIGUSR1: self._reopen_logs,
            signal.SIGUSR2: lambda number: self._upgrade.ask(number.name),
            signal.SIGCHLD: lambda number: self._reap(),
        }
        self._by_word: dict[str, Callable[[Child, Message, list[int]], None]] = {
            "ready": self._on_ready,
            "failed": self._on_failed,
            "failing": self._on_failing,
            "changed": self._on_changed,
            "left": self._on_left,
            "idle": self._on_idle,
            "stacks": lambda child, message, fds: self._answers.on_stacks(child, message, fds),
            "slow": lambda child, message, fds: self._status.on_slow(child, message),
            "app metrics": lambda child, message, fds: self._overview.on_app_metrics(child, message, fds),
        }
        self._by_end: dict[State, Callable[[Child, str], None]] = {
            State.STARTING: self._on_failed_start,
            State.READY: self._on_crash,
            State.DRAINING: self._on_drained,
            State.KILLED: self._on_killed,
        }

    # The loop

    def run(self, inherited: Inheritance | None = None) -> int | Role:
        """
        Supervise until told to end, from the start or with what code of before has left; return the exit status.

        It returns more than once, as fork() does: in each child, with what that is to be.

        Raises:
            StartFailed: the first worker could not start.
        """
        self._open(inherited)
        while self._children or not self._shutdown.has_begun:
            _guard(self._advance_upgrade)
            for slot in self._due():
                role = self._fork(slot)
                if role is not None:
                    return role
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
        self._signals = SignalPipe(self._by_signal)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        slots = Slots(2 * MAX_WORKERS, inherited.pages if inherited else None, self._size + 1)
        self._children = Children(slots, self._selector, self._timers, self._hear)
        status = self._status = Status(self, self._children)
        folder = chosen_folder(self._rollout.plan.config, self._command.environ)
        self._overview = Overview(slots, self._children, self._metrics_listeners, status, folder)
        self._tally, scrapes = self._overview.tally, self._overview.scrapes
        if scrapes is not None:
            self._selector.register(scrapes, selectors.EVENT_READ, scrapes.on_ready)
        self._watch = Watch(self._children)
        self._molds = Molds(self._children, self._rollout.is_trial, self._fail_start, self._delay_after)
        self._shutdown = Shutdown(self._children, self._molds, self._timers, self._listeners, self._manager)
        self._upgrade = Upgrade(self._command, self._children, self._signals, self._manager)
        self._answers = Answers(self, self._children, self._timers, status)
        self._control = self._open_control(self._rollout.plan.config.control, inherited is not None)
        if inherited is not None:
            self._has_served, self._size = True, inherited.size or self._size
            self._upgrade.take_over(inherited)
            if inherited.counted is not None:
                self._overview.restore(inherited.counted, has_children=inherited.plan is not None)
            self.reload("SIGUSR2")
        self._check()

    def _open_control(self, path: str | None, is_upgraded: bool) -> Control | None:
        if path is None:
            return None
        try:
            return Control(path, self._watch_caller, self._answers.by_question)
        except BindError as fault:
            if not is_upgraded:
                raise
            logger.error("--control: %s; serving without it", fault)  # workers serve, and must not end for it
            return None

    def _due(self) -> Iterator[int]:
        """
        Yield the slots in which a worker is to be started now; each is started before the next is asked for.

        Where one was killed, what is to follow is known when it has ended.
        """
        if self._shutdown.has_begun:
            return
        now, find, plan = time.monotonic(), self._children.find, self._rollout.next
        if self._molds.is_due(plan) and self._backoffs[MOLD].due_at <= now:
            yield MOLD
        if not self._molds.can_fork(plan):
            return
        # The first worker shows whether there is anything to serve.
        for slot in range(1, self._size + 1) if self._has_served else (1,):
            if self._backoffs[slot].due_at <= now and not find(slot, State.STARTING, State.KILLED, State.READY):
                yield slot
        for slot in self._rollout.due():
            if self._backoffs[slot].due_at <= now and not find(slot, State.STARTING, State.KILLED):
                yield slot

    def _advance_upgrade(self) -> None:
        """Try new code, or become it, if that was asked for, and nothing else is under way."""
        is_quiet = self._rollout.reload is None and not self._children.has_unborn
        if self._has_served and not self._shutdown.has_begun and is_quiet:
            self._upgrade.advance(self._rollout.plan, self._size, self._listeners, self._overview)

    def _fork(self, slot: int) -> Role | None:
        """Start a worker; return None, and in the child its role."""
        plan = self._rollout.begin(slot)
        self._overview.app_files_of(0)  # the folder is there before the first child
        with block_signals():
            try:
                child, channel = self._molds.fork(slot, plan)
            except OSError as exc:
                self._fail_start(slot, plan, name_of(slot), f"it could not be forked: {exc.strerror or exc}")
                return None
            if channel is None:
                return None
            if self._control is not None:
                self._control.let_go()
            self._let_go()
            shared = self._children.memory_of(child)
            files = self._overview.app_files_of(child.page)
            # Where the app of before serves, its successor is to be tried.
            fault = self._fault if not self._children.find(slot, State.READY) else None
            return Role(slot, child.generation, plan, channel, self._listeners, *shared, os.getppid(), files, fault)

    def _let_go(self) -> None:
        """Close what only the supervisor needs, and let signals mean what they did before; in a child, too."""
        self._selector.close()
        self._signals.close()
        self._overview.close(is_end=False)

    def _watch_caller(self, fd: int, callback: Callable[[], None] | None, wants_room: bool) -> None:
        """See control.Watch."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_room else 0)
        if callback is None:
            self._selector.unregister(fd)
        elif fd in self._selector.get_map():
            self._selector.modify(fd, events, callback)
        else:
            self._selector.register(fd, events, callback)

    def _wait(self) -> None:
        """Wait for the next event, and do what is to be done about it."""
        for key, _ in self._selector.select(self._timers.seconds_to_next()):
            _guard(key.data)
        for timer in self._timers.pop_due():
            _guard(timer.run)
        if self._has_served and self._rollout.reload is None and not self._upgrade.is_under_way:
            self._manager.tell_ready(self.describe())

    def _check(self) -> None:
        """Look once a second at what nobody tells."""
        self._timers.after(CHECK_SECONDS, self._check)
        self._reap()
        path = self._touched.find_changed()
        if path:
            self.reload(f"{path} has changed")
        self._children.forget_given()
        self._overview.on_second()
        for due in self._watch.look(self._rollout.plan.config, time.monotonic()):
            self.replace(*due)
        self._manager.feed_watchdog(self._watch.has_moved())

    @property
    def size(self) -> int:
        """See answers.Supervised and status.Known; and so on."""
        return self._size

    @property
    def config(self) -> Config:
        """The settings of workers that start now."""
        return self._rollout.plan.config

    @property
    def is_reloading(self) -> bool:
        """Whether a reload is under way."""
        return self._rollout.reload is not None

    @property
    def is_ending(self) -> bool:
        """Whether no worker is to begin any more."""
        return self._shutdown.has_begun

    def describe(self) -> str:
        """Return in one line how things are."""
        if self._absences:
            return f"degraded: {self._absences.describe(self._size)}"
        return f"serving on {', '.join(listener.url for listener in self._listeners)} with {_workers(self._size)}"

    # Signals

    def _on_signals(self) -> None:
        for number in self._signals.read():
            if number in self._by_signal:
                self._by_signal[number](number)

    def _stop(self, number: signal.Signals) -> None:
        self._upgrade.abandon()
        self._shutdown.drain(number, self._rollout.plan.config, self._has_served)

    def _end_at_once(self, number: signal.Signals) -> None:
        self._upgrade.abandon()
        self._shutdown.end_at_once(number)

    def _reopen_logs(self, number: signal.Signals) -> None:
        self._logs_reopened_at = time.monotonic()
        for child in self._children.having(State.READY, State.DRAINING):
            self._children.tell(child, {"do": "reopen logs"})

    def resize(self, size: int, why: str) -> None:
        """Have so many workers from now on."""
        if self._shutdown.has_begun:
            return
        if not 1 <= size <= MAX_WORKERS:
            logger.warning("%s: the number of workers stays %d; it may be 1 to %d", why, self._size, MAX_WORKERS)
            return
        logger.info("%s: the number of workers is %d now; it was %d", why, size, self._size)
        gone, self._size = range(size + 1, self._size + 1), size
        for slot in gone:
            self._rollout.forget(slot)
            self._absences.end(slot)
            self._backoffs.pop(slot, None)
            for child in self._children.find(slot, State.STARTING):
                self._children.drain(child, is_replaced=True)
            for child in self._children.find(slot, State.READY):
                self._retire(child, why)
        self._finish_reload()

    # Reloading, and replacing one worker

    def reload(self, why: str) -> None:
        """Read the settings anew, and replace all workers, if the first successor can start."""
        if self._shutdown.has_begun:
            return
        if self._rollout.reload is not None or not self._has_served:
            self._next_reload = why
            for slot in self._backoffs:  # what could not start may have been repaired
                self._backoffs[slot].reset()
            logger.info("%s: once more, after what is under way%s", why, self._children.describe_slow_start())
            return
        self._manager.tell_reloading(why)
        try:
            plan, fixed = self._read().keep_fixed(self._rollout.plan)
        except (ConfigError, AserveError) as fault:
            self._tally.count(RELOADS, 'result="refused"')
            logger.error("%s: nothing was reloaded: %s; correct it, and send SIGHUP", why, fault)
            self._manager.note_unchanged(why)
            self._answers.on_reload_end(f"nothing was reloaded: {fault}", is_done=False)
            return
        if fixed:
            logger.warning("%s: %s stay as they are until the command is started anew", why, ", ".join(fixed))
        how = "all at once" if plan.config.reload_at_once else "one after another"
        logger.info("%s: replacing %s, %s", why, _workers(self._size), how)
        self._fault = None
        for child in self._children.having(State.STARTING):
            self._children.drain(child, is_replaced=True)  # what it imports may be what has been repaired
        self._molds.end(State.STARTING)
        slots = range(1, self._size + 1)
        for slot in (*slots, MOLD):
            self._backoffs[slot].reset()
        width = len(slots) if plan.config.reload_at_once else 1
        self._rollout.begin_reload(Reload(why, plan, time.monotonic()), slots, width)

    def replace(self, slot: int, why: str, reason: str) -> None:
        """Give a worker a successor when it is its turn, unless that is on its way already; count it by `reason`."""
        if not self._shutdown.has_begun and slot <= self._size and self._rollout.add(slot, why):
            self._tally.expect_restart(slot, reason)
            logger.info("worker %d is to be replaced: %s", slot, why)

    def _commit(self, child: Child) -> None:
        """The new code serves: from now on it is what every worker is started for."""
        before, config = self._rollout.commit().config, self._rollout.plan.config
        self._molds.end(State.STARTING, State.READY, but=self._rollout.plan)
        if config.log_config is None:
            logger.setLevel(config.log_level.upper())
        self._touched = TouchedFiles(config.touch_reload)
        if config.workers != before.workers:
            size, self._why_size = self._rollout.plan.count_workers(self._watch.bytes_of(child))
            self.resize(size, self._why_size)

    def _abandon_reload(self, who: str, why: str) -> None:
        """The new code does not start: let everything be as before."""
        reload, serving = self._rollout.abandon(), len(self._children.having(State.READY))
        self._molds.end(State.STARTING, State.READY, but=self._rollout.plan)
        self._manager.note_unchanged(reload.why)
        self._tally.count(RELOADS, 'result="refused"')
        for child in self._children.having(State.STARTING):
            self._children.drain(child, is_replaced=True)
        text = f"nothing was reloaded: {who} could not start: {why}"
        remedy = "and save it" if reload.plan.config.reload else "and send SIGHUP"
        logger.error(
            "%s: %s; correct it, %s; still serving as before: %d of %s",
            reload.why, text, remedy, serving, _workers(self._size),
        )  # fmt: skip
        self._answers.on_reload_end(text, is_done=False)
        self._reload_again()

    def _finish_reload(self) -> None:
        """If every slot has its successor, and nobody of before accepts any more, say so; begin what was asked for meanwhile."""
        plan = self._rollout.plan
        if any(child.plan is not plan and not child.has_left for child in self._children.having(State.DRAINING)):
            return
        reload = self._rollout.take_done()
        if reload is not None:
            self._tally.count(RELOADS, 'result="done"')
            seconds = time.monotonic() - reload.began_at
            text = f"done in {seconds:.1f} s: code and settings of {_workers(self._size)} are new"
            logger.info("%s: %s", reload.why, text)
            self._answers.on_reload_end(text, is_done=True)
            self._upgrade.dismiss_strangers()
        if self._rollout.reload is None:
            self._reload_again()

    def _reload_again(self) -> None:
        why, self._next_reload = self._next_reload, ""
        if why:
            self.reload(why)

    # Workers' words

    def _hear(self, child: Child, message: Message, fds: list[int]) -> None:
        words = {TRIAL: self._upgrade.by_word, MOLD: self._molds.by_word}.get(child.slot, self._by_word)
        # The end of who has said it must be seen to in any case.
        _guard(lambda: words[message["say"]](child, message, fds))

    def _on_ready(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker serves: who was in its slot before may go."""
        if not self._children.admit(child):
            return
        if child.began_at <= self._logs_reopened_at:
            self._children.tell(child, {"do": "reopen logs"})  # it may have opened them before
        if self._shutdown.has_begun:
            self._shutdown.on_ready(child)
            return
        if not self._has_served:
            self._has_served = True
            if child.plan.config.workers == "auto":
                self._size, self._why_size = child.plan.count_workers(self._watch.bytes_of(child))
            logger.info("%s (%s)", self.describe(), self._why_size)
        logger.info("%s is ready, after %.1f s", child, child.ready_at - child.began_at)
        if self._absences.end(child.slot):
            logger.info("no worker is missing any more: %s", _workers(self._size))
        if self._rollout.is_trial(child.plan):
            self._commit(child)
        why = self._rollout.succeed(child.slot)
        for other in self._children.find(child.slot, State.READY):
            if other is not child or child.slot > self._size:
                self._retire(other, why)
        self._finish_reload()

    def _on_failed(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker says why it is about to end."""
        child.failure, child.app_traceback = message["why"], message["traceback"]

    def _on_failing(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker asks for a successor."""
        if child.state == State.READY:
            self.replace(child.slot, f"{child}: {message['why']}", "asked")

    def _on_changed(self, child: Child, message: Message, fds: list[int]) -> None:
        """A file was saved (--reload): what has been imported since the last time is of no use, if it serves not yet; it may hang, too."""
        if child.state != State.READY:
            return  # whoever has taken its place looks by now
        if self._rollout.reload is not None and self._rollout.is_trial(self._rollout.reload.plan):
            self._rollout.abandon()
            for other in self._children.having(State.STARTING):
                self._children.drain(other, is_replaced=True)
            self._answers.on_reload_end(f"nothing was reloaded: {message['why']} meanwhile", is_done=False)
        self.reload(message["why"])

    def _on_left(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker that drains accepts nobody any more."""
        child.has_left = True
        self._finish_reload()

    def _on_idle(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker gives away a connection that waits for its next request: it is for whoever has the fewest."""
        self._children.pass_on(child, message, fds, self._rollout.has_asked)

    def _retire(self, child: Child, why: str) -> None:
        """Let a worker go, while others serve."""
        if child.slot <= self._size:
            self._tally.count_restart(child.slot)
        logger.info("%s drains: %s", child, why)
        self._children.drain(child, is_replaced=True)
        if self._watch.is_hung(child):
            self._children.end_with_stacks(child, "its event loop hangs, and its successor serves")

    # The ends of workers

    def _reap(self) -> None:
        for child, before, how in self._children.reap():
            explained = how if before is State.KILLED else self._watch.explain(how)
            if explained != how:
                self._tally.count(OOM_KILLS)
            self._overview.forget(child)
            if child.slot == TRIAL:
                self._upgrade.on_end(child, how)
            elif child.slot == MOLD:
                self._molds.on_end(child, before, explained)
            else:
                self._log_unanswered(child, before, how)
                if child.plan.origin is not None:
                    child.plan.origin.hooks.child_exit(child.pid, child.slot)
                self._by_end[before](child, explained)
            self._finish_reload()

    def _log_unanswered(self, child: Child, before: State, how: str) -> None:
        """Write to the access log what a worker can write no more; one that came to the end of its drain has done so itself."""
        if child.was_at and not (before is State.DRAINING and how == UNFINISHED):
            append_unanswered(child.plan.config, child.was_at, child.slot, child.pid)

    def _on_failed_start(self, child: Child, how: str) -> None:
        why = child.failure or f"it {how} before it was ready, without a word"
        self._shutdown.on_failed_start(child, why)
        self._fail_start(child.slot, child.plan, str(child), why, child.app_traceback)

    def _fail_start(self, slot: int, plan: Plan, who: str, why: str, app_traceback: str = "") -> None:
        """A worker could not start: try again later; or undo a reload; or give up, if none has served yet."""
        if self._shutdown.has_begun:
            return
        is_shown = self._show_fault(slot, Fault(why, app_traceback)) if plan.config.reload else False
        if not self._has_served and not is_shown:
            self._shutdown.give_up(StartFailed(f"{who} could not start: {why}", app_traceback))
            return
        self._tally.count(START_FAILURES)
        if app_traceback and app_traceback != self._told_traceback:
            self._told_traceback = app_traceback  # once, and not with every try
            logger.error("%s: the app's traceback:\n%s", who, app_traceback.rstrip())
        seconds = self._delay(slot)
        self._rollout.fail(slot)
        if self._rollout.is_trial(plan):
            self._abandon_reload(who, why)
        elif is_shown:
            self._backoffs[slot].reset()
            logger.error("%s could not start: %s; correct it, and save it", who, why)
            return
        else:
            logger.error("%s could not start: %s; the next try is in %.1f s", who, why, seconds)
        if slot <= self._size and not self._children.find(slot, State.READY):
            self._absences.begin(slot, why)
            logger.error("%s; correct it; SIGHUP tries again at once", self.describe())

    def _show_fault(self, slot: int, fault: Fault) -> bool:
        """Have workers show why the app cannot start, those that are there and the next; return False if one that was to show it could not."""
        was_shown, self._fault = self._fault is not None, fault
        for child in self._children.having(State.READY):
            self._children.tell(child, {"do": "show fault", "why": fault.why, "traceback": fault.app_traceback})
        return not was_shown

    def _on_crash(self, child: Child, how: str) -> None:
        """A worker that served has ended by itself."""
        why = f"it {how}{f' ({child.failure})' if child.failure else ''}"
        if self._shutdown.has_begun:
            self._shutdown.note_unfinished()
        elif child.slot <= self._size:
            self._tally.count_restart(child.slot, "crash")
            seconds = self._delay_after(child)
            why += f"; another is started in {seconds:.1f} s"
            if not self._children.find(child.slot, State.READY):
                self._absences.begin(child.slot, f"it {how}")
        logger.error(
            "%s has crashed after %.0f s: %s%s", child, child.served_seconds, why, describe_requests(child.was_at)
        )

    def _on_drained(self, child: Child, how: str) -> None:
        if not child.ready_at:
            return  # it had nothing to finish
        logger.info("%s has ended: it %s%s", child, how, describe_requests(child.was_at))
        if self._shutdown.has_begun and how != "exited with status 0":
            self._shutdown.note_unfinished()

    def _on_killed(self, child: Child, how: str) -> None:
        if child.failure and child.killed_in is not None:
            self._by_end[child.killed_in](child, how)

    def _delay_after(self, child: Child) -> float:
        """Let a slot wait, after a child that served; return for how long."""
        self._backoffs[child.slot].succeed(child.served_seconds)
        return self._delay(child.slot)

    def _delay(self, slot: int) -> float:
        """Let a slot wait for its next worker; return for how long."""
        seconds = self._backoffs[slot].fail(time.monotonic())
        self._timers.after(seconds, lambda: None)  # wakes the loop, which looks what is due
        return seconds


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _guard(call: Callable[[], Any]) -> None:
    """Do this; a bug of ours must not end the supervisor, and all workers with it."""
    try:
        call()
    except Exception:
        logger.exception("internal error; please report this as a bug in aserve")
