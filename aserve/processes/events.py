"""The events of a supervisor: a method for each signal, each word of a child, the end of a child, and each second.

Owns:     Events: each event changes the facts (fleet/fleet.py), or goes to the object that keeps such events.
Thread:   the supervisor's only one.
Not here: waiting (children/poller.py), decisions (fleet/decide.py), acts (acts.py), questions on the control socket (answers.py).
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping

from ..core.descriptors import close_all
from ..core.growth import SAMPLE_SECONDS
from ..core.guard import guard
from ..core.systemd import watchdog_seconds
from ..core.tally import OOM_KILLS
from ..lifecycle.preconditions import describe_lack
from ..lifecycle.signals import SAME_SIGNAL_SECONDS
from .answers import Answers
from .children.channel import Message, has_meaning
from .children.child import MOLD, TRIAL, Child, State, name_of, workers
from .children.children import Hear
from .fleet.facts import End
from .fleet.plan import Plan
from .monitoring.questions import answer_all, say_all
from .parts import Parts
from .transfers.levelling import level_out
from .upgrade.inheritance import Inheritance

logger = logging.getLogger("aserve")

CHECK_SECONDS = 1.0
LIMITS_SECONDS = 10


class Events:
    """All events of a supervisor."""

    def __init__(self, parts: Parts, inherited: Inheritance | None) -> None:
        self._parts, self._fleet, self._children, self._crew = parts, parts.fleet, parts.children, parts.crew
        answers = Answers(parts, self.reload)
        transfers = parts.transfers
        parts.poller.by_signal = {
            signal.SIGHUP: self.reload,
            signal.SIGTERM: self._on_sigterm,
            signal.SIGINT: self._on_sigterm,
            signal.SIGQUIT: self._on_sigquit,
            signal.SIGTTIN: lambda name: self._crew.resize(self._fleet.size + 1, name),
            signal.SIGTTOU: lambda name: self._crew.resize(self._fleet.size - 1, name),
            signal.SIGUSR1: lambda name: self._crew.reopen_logs(),
            signal.SIGUSR2: self._on_sigusr2,
            signal.SIGCHLD: lambda name: self.reap(),
        }
        self.by_word: dict[str, Hear] = {  # of a worker
            "ready": self._on_ready,
            "failed": Child.on_failed,  # the reason of an end
            "failing": self._on_failing,
            "left": Child.on_left,  # the worker drains, and accepts no connections any more
            "changed": self._on_changed,
            "stacks": answers.on_stacks_told,
            "idle": transfers.on_idle,  # a connection for another worker
            "request": transfers.on_request,  # a request for another worker
            "taken": transfers.on_taken,
            "missed": transfers.on_missed,
            **parts.overview.by_word,
        }
        self.by_word_of: dict[int, Mapping[str, Hear]] = {
            MOLD: {"ready": self._on_mold_ready, "failed": Child.on_failed, "unfit": self._on_mold_unfit},
            TRIAL: {"ready": self._on_trial_ready, "failed": Child.on_failed, "failing": _ignore, "left": _ignore},
        }
        parts.children.hear = self._hear
        self._seconds = 0
        self._has_watchdog = watchdog_seconds() > 0
        parts.overview.answer(answers.by_question, parts.timers.after, is_upgraded=inherited is not None)
        if inherited is not None:
            parts.upgrade.take_over(inherited)
            inherited.old_workers.listen(parts.poller.selector, transfers.give, transfers.keep)
            self.reload("SIGUSR2")

    # Signals

    def reload(self, why: str) -> None:
        """Replace all workers, now or after the present reload."""
        fleet = self._fleet
        if not fleet.is_ending and not fleet.on_asked(why):
            self._crew.forget_failures()
            logger.info("%s: once more, after what is under way%s", why, self._children.describe_slow_start())

    def _on_sigterm(self, name: str) -> None:
        """Let all drain; the second signal ends all at once."""
        fleet, now = self._fleet, self._parts.clock()
        if not fleet.stop_why:
            fleet.on_stop(name, now)
        elif now - fleet.stopped_at > SAME_SIGNAL_SECONDS:
            self._on_sigquit(name)

    def _on_sigquit(self, name: str) -> None:
        """End all at once."""
        self._fleet.on_stop(name, self._parts.clock(), 128 + signal.Signals[name])

    def _on_sigusr2(self, name: str) -> None:
        """Try new code of aserve's own; the supervisor becomes the new code if the trial succeeds."""
        fleet, trial = self._fleet, self._children.find(TRIAL, *State)
        fleet.on_upgrade(name)
        if trial:
            logger.info("%s: once more, after %s; kill it if it hangs", name, trial[0])
        elif fleet.reload is not None:
            logger.info("%s: new code is tried after the reload that is under way; `aserve status` shows it", name)

    # The end of a child

    def reap(self) -> None:
        """Handle the ends of children: each becomes a fact."""
        parts = self._parts
        for child, before, how in parts.children.reap(parts.attached.on_end):
            explained = how if before is State.KILLED else parts.watch.explain(how)
            if explained != how:
                parts.tally.count(OOM_KILLS)
            if child.is_worker:
                parts.transfers.on_end(child)
            parts.overview.on_end(child, before, is_oom=explained != how)
            # If the supervisor has killed the child for a fault, the state before counts.
            stood, why = before, explained
            if before is State.KILLED and child.failure and child.killed_in is not None:
                stood = child.killed_in
            if stood is State.STARTING:
                why = child.failure or f"it {explained} before it was ready, without a word"
            elif stood is State.READY and self._fleet.is_unproven(child.plan):
                why = child.failure or f"it {explained} before a worker served, without a word"
            traceback, is_unborn = child.app_traceback, not child.pid
            self._fleet.on_end(End(child.slot, child.plan, stood, str(child), why, traceback, child, is_unborn))

    def on_no_fork(self, slot: int, plan: Plan, exc: OSError) -> None:
        """A child could not be forked: an end without a beginning."""
        why = f"it could not be forked: {describe_lack(exc) or exc.strerror or exc}"
        self._fleet.on_end(End(slot, plan, State.STARTING, name_of(slot), why))

    # Words of children

    def _hear(self, child: Child, message: Message, fds: list[int]) -> None:
        """Handle a child's message. A bug of ours there must not keep Children from noticing the sender's end."""
        words, say = self.by_word_of.get(child.slot, self.by_word), message.get("say")
        if isinstance(say, str) and say in words and has_meaning(message, fds):
            guard(words[say], child, message, fds)
            return
        close_all(fds)
        if not child.is_nonsensical:
            child.is_nonsensical = True
            text = "%s: a message to the supervisor has no meaning, and is refused, as are further ones: the app may write to descriptors that are not its own: %.100s"
            logger.error(text, child, message)

    # Words of a worker

    def _on_ready(self, child: Child, message: Message, fds: list[int]) -> None:
        """The worker serves."""
        if not self._children.admit(child):
            return
        self._crew.tell_orders(child)
        if self._fleet.is_ending:
            return
        is_first = not self._fleet.has_served
        self._fleet.on_ready(child)
        if is_first:
            self._crew.begin(child)
        state = "is ready" if self._fleet.fault is None else "shows the error"
        logger.info("%s %s, after %.1f s", child, state, child.ready_at - child.began_at)
        absences = self._parts.status.absences
        if absences.pop(child.slot, None) and not absences:
            logger.info("no worker is missing any more: %s", workers(self._fleet.size))

    def _on_failing(self, child: Child, message: Message, fds: list[int]) -> None:
        """The worker asks for a successor."""
        if child.state is State.READY:
            self._crew.replace(child.slot, f"{child}: {message['why']}", "asked")

    def _on_changed(self, child: Child, message: Message, fds: list[int]) -> None:
        """--reload: a file was saved. A reload whose code does not serve yet is useless now, and may hang."""
        if child.state is not State.READY:
            return  # the successor looks by now
        answer_all(self._fleet.drop(), f"nothing was reloaded: {message['why']} meanwhile", is_done=False)
        self.reload(message["why"])

    # Words of a mold (--preload), and of a trial of new code

    def _on_mold_ready(self, mold: Child, message: Message, fds: list[int]) -> None:
        if self._children.admit(mold):
            logger.info("%s is ready, after %.1f s", mold, mold.ready_at - mold.began_at)

    def _on_mold_unfit(self, mold: Child, message: Message, fds: list[int]) -> None:
        """The app cannot be forked: each worker imports the app."""
        if mold.state is not State.STARTING:
            return
        self._fleet.on_unfit(mold)
        logger.warning(
            "--preload: each worker imports the app by itself, as the app has opened what processes cannot share, %s; "
            "open it in a function with @aserve.post_fork",
            message["why"],
        )
        self._children.drain(mold, is_replaced=True)

    def _on_trial_ready(self, trial: Child, message: Message, fds: list[int]) -> None:
        self._children.admit(trial)

    # Each second

    def on_second(self) -> None:
        """Look at all facts without messages; and from then on, once a second."""
        parts, fleet, children, crew = self._parts, self._fleet, self._children, self._crew
        parts.timers.after(CHECK_SECONDS, self.on_second)
        self.reap()
        config = fleet.plan.config
        if config.touch_reload and (path := parts.touched.find_changed()):
            self.reload(f"{path} has changed")
        children.on_second()  # waiting messages are sent; which workers are silent
        parts.transfers.on_second()  # waiting connections
        if parts.old_workers is not None:
            parts.old_workers.on_second()  # the same, between workers of another version
        level_out(children, fleet.asked)
        parts.overview.on_second()  # extensions
        parts.attached.end_overdue()
        now = parts.clock()
        for due in parts.watch.look(config, now):
            crew.replace(*due)
        for text in parts.watch.look_at_starts(now) if not fleet.is_ending else ():
            say_all(fleet.waiting, text)
        if self._has_watchdog:
            parts.manager.feed_watchdog(parts.watch.has_moved())
        # --workers auto: files of the kernel, changed by hand, half a millisecond for each look.
        if self._seconds % LIMITS_SECONDS == 0:
            crew.follow_limits()
        if self._seconds % SAMPLE_SECONDS == 0:
            parts.status.measure_growth()
            parts.status.warnings = config.advise(parts.status.facts())
        self._seconds += 1


def _ignore(child: Child, message: Message, fds: list[int]) -> None:
    """Ignore the message: the trial is about to exit."""
