"""The state of a supervisor and all workers, for extensions with reports.

Owns:     Overview: the counters, across ends of workers and upgrades; calling extensions in a supervisor, also with the requests lost by a dead
          worker, in each place where the worker would have reported the requests.
Thread:   the supervisor's only one.
Not here: an extension's interface (lifecycle/supervision.py), the state of workers (status.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...core import error_log
from ...core.guard import guard
from ...core.page import Process
from ...core.tally import LOST, Tally
from ...extension import Life, LifeContext, Lost
from ...lifecycle.control import Answer, Later, Watch
from ...lifecycle.program import Program, name_programs
from ...lifecycle.status import BesideWorkers
from ...lifecycle.supervision import HandedDown, Supervision, SupervisorContext, Word, WorkerEnd
from ...settings import EngineSettings
from ..children.channel import Message
from ..children.child import Child, State
from ..children.children import Children, Hear
from ..children.command import Command
from .status import Status

OnLife = Callable[[Life, LifeContext], None]  # calls extensions
Supervise = Callable[[SupervisorContext], Sequence[Supervision]]

NO_COMMAND = Command([], {}, "")
PRESENT = (State.STARTING, State.READY, State.DRAINING, State.KILLED)


class Overview:
    """The counters and the present state, for metrics."""

    def __init__(
        self,
        children: Children,
        status: Status,
        supervise: Supervise = lambda context: (),
        command: Command = NO_COMMAND,
        watch: Watch = lambda fd, callback, events: None,
        on_life: OnLife = lambda event, context: None,
    ) -> None:
        """`supervise`: returns the extensions' parts; `command`: of the start of this process; `watch`: see SupervisorContext."""
        self.tally = Tally()
        self.started_at = time.time()  # of the first code, if there were upgrades
        self._children = children
        self._status = status
        self._on_life = on_life
        self.statuses = status.statuses
        self.why_unready = ""  # set by `aserve balancers`
        self.resize: Callable[[int, str], None]  # set by Parts: Crew.resize
        self._extensions = supervise(
            SupervisorContext(
                self, command.environ, watch, self._tell, words=command.words,
                resize=lambda size, why: self.resize(size, why),
            )
        )  # fmt: skip
        # By the word of a worker's message.
        self.by_word = {word: _from_child(hear) for each in self._extensions for word, hear in each.words().items()}
        self._on_second, self._on_end = self._calls("on_second"), self._calls("on_end")
        self._programs, self.shares = self._calls("programs"), self._calls("share")
        status.facts = self.facts

    def _calls(self, name: str) -> list[Callable[..., Any]]:
        """Return a method of the extensions that have more than the empty one."""
        found = [each for each in self._extensions if getattr(type(each), name) is not getattr(Supervision, name)]
        return [getattr(each, name) for each in found]

    def on_second(self) -> None:
        """Called once a second."""
        error_log.on_second()
        for call in self._on_second:
            guard(call)

    def close(self, is_end: bool) -> None:
        """Close the extensions; without `is_end`, further processes go on with the files."""
        for each in self._extensions:
            each.close(is_end)

    # The present state: lifecycle.status.Observed

    @property
    def config(self) -> EngineSettings:
        """The settings of workers that start now."""
        config: EngineSettings = self._status.fleet.plan.config
        return config

    @property
    def process_count(self) -> int:
        """How many workers there are to be."""
        return self._status.fleet.size

    @property
    def ready_count(self) -> int:
        """How many workers serve."""
        return len(self._children.having(State.READY))

    @property
    def is_draining(self) -> bool:
        """Whether no worker is to begin any more."""
        return self._status.fleet.is_ending

    @property
    def listening(self) -> list[dict[str, Any]]:
        """How many clients wait in the kernel."""
        return self._status.listening

    @property
    def fleet(self) -> BesideWorkers:
        """The supervisor's attached programs, the facts of extensions, the supervisor's counters."""
        return BesideWorkers(self._status.attached, self.facts(), self.tally, error_log.lost_lines())

    def processes(self) -> list[Process]:
        """Return the present workers."""
        return [self._status.process_of(child) for child in self._children.having(*PRESENT)]

    def pages(self) -> list[tuple[int, memoryview]]:
        """Return the slots and the pages of the present workers."""
        return [(child.slot, child.page) for child in self._children.having(*PRESENT)]

    # Calling extensions

    def programs(self, config: EngineSettings) -> list[Program]:
        """Return the programs to run beside the workers, with unique names."""
        return name_programs([program for programs in self._programs for program in programs(config)])

    def answer(self, answers: Mapping[str, Answer], later: Later, is_upgraded: bool) -> None:
        """
        Let extensions answer questions.

        Raises:
            BindError: see Supervision.answer.
        """
        for each in self._extensions:
            each.answer(answers, later, is_upgraded)

    def facts(self) -> dict[str, Any]:
        """Return the facts for a status that balancers are told, and the extensions'."""
        facts = {name: value for each in self._extensions for name, value in each.status().items()}
        return {"unready": self.why_unready, **facts}

    def on_end(self, child: Child, before: State, is_oom: bool) -> None:
        """Tell extensions of the end of a child; of a worker's lost requests, too, unless the worker has told them, before a hang and the kill."""
        for call in self._on_end:
            call(WorkerEnd(child.pid, child.page_number, child.page, len(child.lost)))
        if not child.is_worker:
            return
        context = LifeContext(child.plan, lost=Lost(child.slot, child.pid, child.was_at))
        if child.lost:
            guard(self._on_life, Life.DIED, context)
            reason = "oom" if is_oom else "killed" if before is State.KILLED else "crash"
            self.tally.count(LOST, f'reason="{reason}"', len(child.lost))
        guard(self._on_life, Life.REAPED, context)  # a bug of an extension must not keep the worker from being replaced

    def _tell(self, pid: int, message: Message) -> None:
        for child in self._children:
            if child.pid == pid:
                self._children.tell(child, message)

    # Over an exec

    def hand_down(self) -> HandedDown:
        """Return the state for the next code of an upgrade: for `restore`."""
        found = [each.hand_down() for each in self._extensions]
        state = {
            "started_at": self.started_at, "tally": self.tally.describe(), "why_unready": self.why_unready,
            **{name: value for each in found for name, value in each.state.items()},
        }  # fmt: skip
        return HandedDown(
            state, [listener for each in found for listener in each.bound], [fd for each in found for fd in each.fds]
        )

    def restore(self, state: dict[str, Any], has_children: bool) -> None:
        """Go on counting; without the previous code's children, their counts so far are final."""
        self.started_at, self.why_unready = state["started_at"], state.get("why_unready", "")
        self._status.began_before(max(time.time() - self.started_at, 0.0))
        self.tally.restore(state["tally"])
        for each in self._extensions:
            each.take_over(state, has_children)


def _from_child(hear: Word) -> Hear:
    return lambda child, message, fds: hear(child.pid, message, fds)
