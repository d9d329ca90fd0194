"""A supervisor's answers on its control socket.

Owns:     Answers: reloads, replacements and changes of size until their ends, stacks of workers.
Thread:   the supervisor's only one.
Not here: the socket (control.py), the questions, and answers that need no supervisor (questions.py), the commands that ask (ask.py),
          how things are (status.py), reloading (reloads.py), resizing and replacing (crew.py).
"""

from __future__ import annotations

import itertools
import os
from typing import Protocol

from .channel import Message
from .child import STACKS_SIGNAL, Child, State
from .children import Children
from .control import Answer, Caller
from .crew import Crew
from .questions import answers_of, tell_stacks
from .status import Status
from .timers import Timers

# How long a worker's event loop may take to send its stacks. Guess: a loop that turns does so in a millisecond.
STACKS_SECONDS = 2.0


class Supervised(Protocol):
    """The supervisor, as Answers sees it."""

    @property
    def size(self) -> int:
        """How many workers there are to be."""

    @property
    def is_reloading(self) -> bool:
        """Whether a reload is on its way to its end."""

    @property
    def is_ending(self) -> bool:
        """Whether no worker is to begin any more."""

    def reload(self, why: str) -> None:
        """Replace all workers."""

    def resize(self, size: int, why: str) -> None:
        """Set the number of workers."""

    def set_unready(self, why: str) -> None:
        """Tell balancers why they should send their requests elsewhere; "": they need not."""


class Answers:
    """The supervisor's answers, by the name of the question."""

    def __init__(self, supervised: Supervised, crew: Crew, children: Children, timers: Timers, status: Status) -> None:
        self._supervised = supervised
        self._crew = crew
        self._children = children
        self._timers = timers
        self._status = status
        self._reloading: list[tuple[Caller, int]] = []  # for how many ends of reloads each waits
        self._recycling: list[tuple[Caller, Child]] = []  # who waits for which worker to be replaced
        self._numbers = itertools.count(1)
        self._stacks: dict[int, tuple[Caller, Child]] = {}  # asked for, by number
        self.by_question: dict[str, Answer] = answers_of(
            status.describe_with_warnings,
            self._on_stacks,
            supervised.set_unready,
            {"reload": self._on_reload, "recycle": self._on_recycle, "workers": self._on_workers},
        )

    # Reloading and resizing

    def _on_reload(self, caller: Caller, message: Message) -> None:
        if self._supervised.is_ending:
            caller.refuse("the server is ending")
            return
        # One that is under way may have read the code of before.
        self._reloading.append((caller, 2 if self._supervised.is_reloading else 1))
        self._supervised.reload("aserve reload")

    def on_reload_end(self, text: str, is_done: bool) -> None:
        """Tell who has asked for it that a reload has ended, or has failed and changed nothing."""
        waiting, self._reloading = self._reloading, []
        for caller, ends in waiting:
            if ends > 1:
                self._reloading.append((caller, ends - 1))
            elif is_done:
                caller.say({"text": text})
                caller.end()
            else:
                caller.refuse(text)

    def on_half_done(self, text: str, has_next: bool) -> None:
        """Tell who has asked for a reload why it may never end; who has asked for one more waits for that, if it begins now."""
        waiting, self._reloading = self._reloading, []
        for caller, ends in waiting:
            if ends > 1 and has_next:
                self._reloading.append((caller, ends - 1))
            else:
                caller.refuse(text)

    def _on_recycle(self, caller: Caller, message: Message) -> None:
        slot = message.get("worker")
        serving = self._children.find(slot, State.READY) if isinstance(slot, int) else []
        if self._supervised.is_ending:
            caller.refuse("the server is ending")
        elif not serving:
            caller.refuse(f"no worker {slot} serves")
        else:
            self._crew.forget_failures(serving[0].slot)
            self._crew.replace(serving[0].slot, "aserve recycle", "asked")
            self._recycling.append((caller, serving[0]))

    def tell_waiting(self) -> None:
        """Called after each event: tell those who wait for a worker's successor if it serves, or will not come."""
        if self._supervised.is_ending:
            self._refuse_all("the server is ending")
        waiting, self._recycling = self._recycling, []
        for caller, child in waiting:
            serving = self._children.find(child.slot, State.READY)
            if serving and child not in serving:
                new = serving[0]
                seconds = new.ready_at - new.began_at
                text = f"worker {new.slot} is replaced: pid {new.pid} serves, ready after {seconds:.1f} s"
                caller.say({"text": text + self._status.describe_drains()})
                caller.end()
            elif self._crew.is_to_begin(child.slot):
                self._recycling.append((caller, child))
            else:
                caller.refuse(f"worker {child.slot} gets no successor any more: see `aserve status`, and the log")

    def _refuse_all(self, text: str) -> None:
        waiting = [*self._reloading, *self._recycling]
        self._reloading, self._recycling = [], []
        for caller, _ in waiting:
            caller.refuse(text)

    def on_failed_start(self, slot: int, who: str, why: str) -> None:
        """Tell those who wait for this slot's successor that it could not start."""
        waiting, self._recycling = self._recycling, []
        for caller, child in waiting:
            if child.slot == slot:
                serves_on = "; the one of before serves on" if child.state is State.READY else ""
                caller.refuse(
                    f"worker {slot} is not replaced: {who} could not start: {why}{serves_on}, and another is tried"
                )
            else:
                self._recycling.append((caller, child))

    def _on_workers(self, caller: Caller, message: Message) -> None:
        before, change = self._supervised.size, message.get("change")
        wanted = before + change if isinstance(change, int) else message.get("count")
        if not isinstance(wanted, int) or self._supervised.is_ending:
            caller.refuse(
                "the server is ending" if self._supervised.is_ending else "say how many: a count, or a change"
            )
            return
        self._supervised.resize(wanted, "aserve workers")
        if self._supervised.size == wanted:
            caller.say({"text": f"workers: {wanted}; before: {before}"})
            caller.end()
        else:
            caller.refuse(f"the number of workers stays {before}; {wanted} is not possible")

    # Stacks

    def _on_stacks(self, caller: Caller, message: Message) -> None:
        slot = message.get("worker")
        children = [child for child in self._children if child.pid and slot in (None, child.slot)]
        asked = []
        for child in children:
            if child.is_worker and child.state in (State.READY, State.DRAINING):
                number = next(self._numbers)
                asked.append(number)
                self._stacks[number] = caller, child
                self._children.tell(child, {"do": "stacks", "number": number})
            else:
                self._have_logged(caller, child, "it does not serve")
        if not children:
            caller.refuse(f"there is no worker {slot}")
        elif not asked:
            caller.end()
        else:
            self._timers.after(STACKS_SECONDS, self._give_up_stacks, asked)

    def on_stacks(self, child: Child, message: Message, fds: list[int]) -> None:
        """Pass on the stacks of a worker."""
        caller, _ = self._stacks.pop(message["number"], (None, child))
        if caller is not None:
            tell_stacks(caller, child.slot, child.pid, message["text"])
            self._end_stacks(caller)

    def _give_up_stacks(self, numbers: list[int]) -> None:
        for number in numbers:
            if number in self._stacks:
                caller, child = self._stacks.pop(number)
                self._have_logged(caller, child, "its event loop does not turn")
                self._end_stacks(caller)

    def _have_logged(self, caller: Caller, child: Child, why: str) -> None:
        """Have a signal make the worker write its stacks to its standard error, so that no process waits for it."""
        if child.is_reaped:
            text = "it has ended meanwhile\n"
        else:
            os.kill(child.pid, STACKS_SIGNAL)
            text = f"{why}: its stacks are written to its standard error, where the log goes\n"
        tell_stacks(caller, child.slot, child.pid, text)

    def _end_stacks(self, caller: Caller) -> None:
        if all(other is not caller for other, _ in self._stacks.values()):
            caller.end()
