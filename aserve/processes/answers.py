"""A supervisor's answers on the control socket.

Owns:     Answers: reloads, replacements and changes of size until their ends, stacks of workers.
Thread:   the supervisor's only one.
Not here: the socket (lifecycle/control.py), the questions, and answers without a supervisor (questions.py), the commands that ask (features/control/ask.py),
          the state of workers (status.py), the time of a delayed answer (fleet/decide.py), resizing, replacing and orders for all (crew.py).
"""

from __future__ import annotations

import itertools
import os
from typing import Callable

from ..core.footprint import activity_of
from ..lifecycle.control import Answer, Caller
from .children.channel import Message
from .children.child import STACKS_SIGNAL, Child, State
from .fleet.facts import Question
from .monitoring.questions import answer_all, answers_of, tell_stacks
from .parts import Parts

# How long a worker's event loop may take to send stacks. Guess: a turning loop takes a millisecond.
STACKS_SECONDS = 2.0


class Answers:
    """The supervisor's answers, by the name of the question."""

    def __init__(self, parts: Parts, reload: Callable[[str], None]) -> None:
        self._fleet, self._crew, self._children = parts.fleet, parts.crew, parts.children
        self._timers, self._status, self._reload = parts.timers, parts.status, reload
        self._numbers = itertools.count(1)
        self._stacks: dict[int, tuple[Caller, Child]] = {}  # asked for, by number
        self.by_question: dict[str, Answer] = answers_of(
            self._status.describe_with_warnings,
            self._on_stacks,
            self._crew.set_unready,
            {"reload": self._on_reload, "recycle": self._on_recycle, "workers": self._on_workers},
        )

    # Reloading and resizing

    def _on_reload(self, caller: Caller, message: Message) -> None:
        if self._fleet.is_ending:
            caller.refuse("the server is ending")
            return
        # The next reload: the present reload may have read the earlier code.
        self._fleet.waiting.append(Question(caller, reload=self._fleet.next_number))
        self._reload("aserve reload")
        for text in self._status.slow_starts():  # the reload waits for these workers
            caller.say({"text": text})

    def _on_recycle(self, caller: Caller, message: Message) -> None:
        slot = message.get("worker")
        serving = self._children.find(slot, State.READY) if isinstance(slot, int) else []
        if self._fleet.is_ending:
            caller.refuse("the server is ending")
        elif not serving:
            caller.refuse(f"no worker {slot} serves")
        else:
            child = serving[-1]
            self._crew.forget_failures(child.slot)
            self._crew.replace(child.slot, "aserve recycle", "asked")
            self._fleet.waiting.append(Question(caller, slot=child.slot, generation=child.generation))

    def _on_workers(self, caller: Caller, message: Message) -> None:
        before, change = self._fleet.size, message.get("change")
        wanted = before + change if isinstance(change, int) else message.get("count")
        if not isinstance(wanted, int) or self._fleet.is_ending:
            caller.refuse("the server is ending" if self._fleet.is_ending else "say how many: a count, or a change")
            return
        self._crew.resize(wanted, "aserve workers")
        if self._fleet.size != wanted:
            caller.refuse(f"the number of workers stays {before}; {wanted} is not possible")
            return
        serving = self._children.having(State.READY)
        silent = [child for child in serving if child.is_silent]
        ending = [str(child) for child in silent if child.slot not in self._fleet.slots]
        text = f"workers: {wanted}; before: {before}"
        if ending:
            text += f"; does not answer, and is ended after --drain-timeout: {', '.join(ending)}"
        if silent and len(silent) == len(serving):
            answer_all([Question(caller)], f"{text}; no worker answers now: see `aserve status`", is_done=False)
        else:
            answer_all([Question(caller)], text, is_done=True)

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

    def on_stacks_told(self, child: Child, message: Message, fds: list[int]) -> None:
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
        """Have a signal make the worker write all stacks to standard error, so that no process waits for the worker."""
        activity = activity_of(child.pid)
        if child.is_reaped:
            text = "it has ended meanwhile\n"
        elif activity is not None and activity.is_stopped:
            text = f"the process is stopped (SIGSTOP, or a debugger): `kill -CONT {child.pid}` lets it go on\n"
        else:
            os.kill(child.pid, STACKS_SIGNAL)
            text = f"{why}: its stacks are written to its standard error, where the log goes\n"
        tell_stacks(caller, child.slot, child.pid, text)

    def _end_stacks(self, caller: Caller) -> None:
        if all(other is not caller for other, _ in self._stacks.values()):
            caller.end()
