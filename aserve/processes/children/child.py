"""A child of the supervisor: a worker, a trial or a mold, from the fork until the child is reaped.

Owns:     Child, the supervisor's facts about a child, and the states.
Thread:   the supervisor's only one.
States:   TRANSITIONS below; a missing pair is a bug in aserve, and raises.
Not here: messages and actions (children.py), when and why (fleet/decide.py), the child's own side (worker.py).

```
      +-----------------------------------------+
      |        READY                DRAIN       v
   STARTING -----------> READY -----------> DRAINING
      |  KILL              |  KILL             |  KILL             END, from any state: -> ENDED, it is reaped
      +------------------->+---> KILLED <------+
```
"""

from __future__ import annotations

import enum
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from ...core.exchange import without_query
from ...core.page import MOLD as MOLD
from ...core.page import TRIAL as TRIAL
from ...core.page import Field
from ...core.page import State as State
from ..fleet.facts import Member
from ..fleet.plan import Plan
from .channel import Channel, Message

# On this signal a worker writes all stacks to standard error. Without a handler the signal does nothing; and the signals meant for
# operators are all taken.
STACKS_SIGNAL = signal.SIGURG


class Event(enum.Enum):
    """An event in a child's life."""

    READY = enum.auto()  # a child's message
    DRAIN = enum.auto()
    KILL = enum.auto()
    END = enum.auto()


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STARTING, Event.READY): State.READY,
    (State.DRAINING, Event.READY): State.DRAINING,  # sent before the order arrived
    (State.KILLED, Event.READY): State.KILLED,
    (State.STARTING, Event.DRAIN): State.DRAINING,  # a child may serve already, with the message on the way
    (State.READY, Event.DRAIN): State.DRAINING,
    (State.STARTING, Event.KILL): State.KILLED,
    (State.READY, Event.KILL): State.KILLED,
    (State.DRAINING, Event.KILL): State.KILLED,
    (State.KILLED, Event.KILL): State.KILLED,  # by a stronger signal
    (State.STARTING, Event.END): State.ENDED,
    (State.READY, Event.END): State.ENDED,
    (State.DRAINING, Event.END): State.ENDED,
    (State.KILLED, Event.END): State.ENDED,
}


# Handed down as such, when the supervisor becomes new code (inheritance.py); times are the system's, not the process's.
_HANDED_DOWN = ("began_at", "ready_at", "has_left", "has_told", "failure", "app_traceback")
MAX_TOLD_REQUESTS = 10


class Child(Member):
    """A child, from fork to the end. Facts for decisions are in Member."""

    plan: Plan
    mold: Child | None
    page: memoryview  # words by page.Field; a mold's is a dummy

    def __init__(
        self, pid: int, slot: int, generation: int, plan: Plan, channel: Channel, page_number: int, in_flight: int
    ) -> None:
        super().__init__(slot, generation, plan)
        self.pid = pid  # 0: not forked by the mold yet
        self.channel = channel  # the supervisor's end
        self.page_number = page_number  # 0: a mold, without a page of the shared memory
        self.in_flight = in_flight  # the descriptor of a memory file: the table of running requests
        # Running requests after a bad end; see read_in_flight.
        self.was_at: list[tuple[float, str]] = []
        self.is_reaped = False
        self.began_at = time.monotonic()
        self.ready_at = 0.0
        self.killed_in: State | None = None  # the state before the kill
        self.has_told = False  # the child has cut off and logged running requests itself, at the end of the drain
        self.failure = ""  # the reason of the end, by report or by a kill
        self.app_traceback = ""
        self.is_nonsensical = False  # the child has sent a message without meaning, which was logged
        self.is_mute = False  # the child has closed the channel, and hears no order
        self.given_count = 0  # connections given to the child since the last write to the page
        self.tick = -1  # the count of turns of the event loop, at the last look at the page; -1: no look
        self.still_seconds = 0  # for how many looks the count is the same: a stop of the whole machine has no look

    def __str__(self) -> str:
        return f"{name_of(self.slot)} (pid {self.pid})" if self.pid else name_of(self.slot)

    @classmethod
    def inherit(cls, state: dict[str, Any], plan: Plan) -> Child:
        """Return the child of a description by `describe`; `plan`: the child's plan."""
        channel = Channel.inherit(state["channel"])
        child = cls(state["pid"], state["slot"], state["generation"], plan, channel, state["page"], state["in_flight"])
        child.state = State[state["state"]]
        child.killed_in = State[state["killed_in"]] if state["killed_in"] else None
        for name in _HANDED_DOWN:
            setattr(child, name, state.get(name, getattr(child, name)))  # older code may lack the name
        return child

    def describe(self) -> dict[str, Any]:
        """Return the supervisor's facts, for JSON; descriptors and pages by number."""
        return {
            "pid": self.pid,
            "slot": self.slot,
            "generation": self.generation,
            "channel": self.channel.fileno(),
            "page": self.page_number,
            "in_flight": self.in_flight,
            "state": self.state.name,
            "killed_in": self.killed_in.name if self.killed_in else None,
            **{name: getattr(self, name) for name in _HANDED_DOWN},
        }

    @property
    def lost(self) -> Sequence[tuple[float, str]]:
        """The requests lost with an ended worker, but for requests that the worker has reported itself, before a hang and the kill."""
        return self.was_at if self.is_worker and not self.has_told else ()

    def describe_losses(self) -> str:
        """Return the running requests of a child at the end; see describe_requests."""
        return describe_requests(self.was_at, self.plan.config.show_queries) if self.was_at else ""

    def close(self) -> None:
        """Close this process's descriptors of the child."""
        self.channel.close()
        os.close(self.in_flight)

    def on_failed(self, message: Message, fds: list[int]) -> None:
        """Record the reason of the coming end."""
        self.failure, self.app_traceback = message["why"], message["traceback"]
        self.has_told |= message.get("has_told", False)

    def on_left(self, message: Message, fds: list[int]) -> None:
        """Record that the child drains, and accepts no more connections."""
        self.has_left = True

    def transition(self, event: Event) -> State:
        """Change the state by the table, on the page, too; return the state before."""
        before, self.state = self.state, TRANSITIONS[self.state, event]
        self.page[Field.STATE] = self.state
        if event is Event.READY:
            self.ready_at = time.monotonic()
        elif event is Event.KILL and before != State.KILLED:
            self.killed_in = before
        return before

    @property
    def served_seconds(self) -> float:
        """How long the child has served; 0: not yet."""
        return time.monotonic() - self.ready_at if self.ready_at else 0.0


def name_of(slot: int) -> str:
    """Return a child's name for the log."""
    return {TRIAL: "the trial", MOLD: "the mold"}.get(slot, f"worker {slot}")


def workers(count: int) -> str:
    """Return a number of workers in words: "1 worker", "2 workers"."""
    return f"{count} worker{'' if count == 1 else 's'}"


def describe_end(status: int) -> str:
    """Return how a process ended, from waitpid(): "was killed by SIGKILL", "exited with status 3"."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with status {code}"
    names = {int(number): number.name for number in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def describe_requests(found: list[tuple[float, str]], shows_queries: bool) -> str:
    """Return a process's running requests at the end, from `read_in_flight`, for the log: "; it was at: GET /x (1.2 s)"."""
    shown = [(seconds, text if shows_queries else without_query(text)) for seconds, text in found[:MAX_TOLD_REQUESTS]]
    told = ", ".join(f"{text} ({seconds:.1f} s)" for seconds, text in shown)
    more = f", and {len(found) - MAX_TOLD_REQUESTS} more" if len(found) > MAX_TOLD_REQUESTS else ""
    return f"; it was at: {told}{more}" if found else ""
