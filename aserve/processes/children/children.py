"""The supervisor's children: a list, and the supervisor's actions on each child.

Owns:     forking, or having a mold fork, and reaping; channels, pages and tables of running requests of all workers; draining or
          killing a child, and the time limits.
Thread:   the supervisor's only one; `fork` returns in the child, too.
Not here: a child's states (child.py), when and why each action is due (fleet/decide.py).

A signal goes only to an unreaped child: afterwards the pid may be a stranger's.

A worker of a mold has no pid at first. The first message of the worker is "begun"; the kernel adds the pid to the message.
If the mold cannot fork, or dies before, no process has the far end of the channel any more: then the child has ended without a beginning.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from ...connections.in_flight import TABLE_BYTES, read_in_flight, read_used
from ...connections.load_board import LoadBoard
from ...core import forks
from ...core.memory_file import map_memory_file, open_memory_file
from ...core.page import Field, new_page
from ..fleet.facts import NEVER
from ..fleet.plan import Plan
from .channel import Channel, Message
from .child import MOLD, TRIAL, Child, Event, State, describe_end
from .pages import Pages
from .poller import Clock

logger = logging.getLogger("aserve")

# How long after the time limit a draining worker may take to end, for the app's exit functions; and a starting worker after a signal to
# end. Guess.
ENDING_SECONDS = 5.0
# How long a worker killed for a slow start may take to write the stacks. Guess.
STACK_SECONDS = 2.0
SILENT_NS = 2_000_000_000  # a worker without a tick for this long gets no connections: workers tick each second

Hear = Callable[[Child, Message, "list[int]"], None]  # handles a worker's message, with descriptors


class Children:
    """All unreaped children."""

    def __init__(self, pages: Pages, selector: selectors.BaseSelector, clock: Clock) -> None:
        self._pages = pages
        self._selector = selector
        self.clock = clock
        self.hear: Hear  # set by Events
        self._by_pid: dict[int, Child] = {}
        self._unborn: list[Child] = []  # not forked by their molds yet
        self._stillborn: list[Child] = []  # of these, children without hope of a fork
        self._by_slot: collections.defaultdict[int, list[Child]] = collections.defaultdict(list)
        self._generations: collections.Counter[int] = collections.Counter()  # by slot

    # Finding children

    def __iter__(self) -> Iterator[Child]:
        return iter([*self._by_pid.values(), *self._unborn])

    def __len__(self) -> int:
        return len(self._by_pid) + len(self._unborn)

    def find(self, slot: int, *states: State) -> list[Child]:
        """Return the children of a slot in the given states."""
        return [child for child in self._by_slot[slot] if child.state in states]

    def having(self, *states: State) -> list[Child]:
        """Return the workers in the given states."""
        return [child for child in self if child.state in states and child.is_worker]

    def describe_slow_start(self) -> str:
        """Return the worker with the longest start so far, for the end of a log line; empty: none."""
        starting = [child for child in self if child.state == State.STARTING and child.slot != TRIAL]
        if not starting:
            return ""
        slowest = min(starting, key=lambda child: child.began_at)
        return f": {slowest} has been starting for {time.monotonic() - slowest.began_at:.1f} s; kill it if it hangs"

    def memory_of(self, child: Child) -> tuple[memoryview, Pages, LoadBoard | None, Any]:
        """
        Return a worker's shared memory: the page, all pages, the place on the load board, the table of running requests.

        To be called in the worker, once.
        """
        in_flight = map_memory_file(child.in_flight)
        os.close(child.in_flight)
        board = self._pages.new_board(child.page_number) if child.page_number else None
        return child.page, self._pages, board, in_flight

    # Beginning

    def fork(self, slot: int, plan: Plan) -> tuple[Child, Channel | None]:
        """
        Fork a child for a slot; return the child, and in the child itself the child's end of the channel.

        To be called with signals blocked.

        Raises:
            OSError: no process, descriptor or page is left.
        """
        with contextlib.ExitStack() as undo:
            child, theirs = self._new_child(undo, slot, plan)
            forks.flush_output()
            child.pid = os.fork()
            undo.pop_all()
        if child.pid == 0:
            child.pid = os.getpid()
            self._let_go(child)
            return child, theirs
        theirs.close()
        self._add(child)
        self._limit_start(child)
        return child, None

    def have_forked(self, slot: int, plan: Plan, mold: Child) -> Child:
        """
        Tell a mold to fork a child for a slot; return the child, without a pid until "begun".

        Raises:
            OSError: no descriptor or page is left.
        """
        with contextlib.ExitStack() as undo:
            child, theirs = self._new_child(undo, slot, plan)
            its_table = os.dup(child.in_flight)
            undo.pop_all()
        child.mold, child.asked_at = mold, self.clock()
        child.channel.know_senders()
        self._add(child)
        order = {"do": "fork", "slot": slot, "generation": child.generation, "page": child.page_number}
        self.tell(mold, order, [theirs.detach(), its_table])
        return child

    def _new_child(self, undo: contextlib.ExitStack, slot: int, plan: Plan) -> tuple[Child, Channel]:
        number = self._pages.take() if slot != MOLD else 0
        if number:
            undo.callback(self._pages.give_back, number)
        ours, theirs = Channel.pair()
        undo.callback(ours.close)
        undo.callback(theirs.close)
        in_flight = open_memory_file("aserve-in-flight")
        undo.callback(os.close, in_flight)
        os.truncate(in_flight, TABLE_BYTES)  # takes memory only where written to
        self._generations[slot] += 1
        child = Child(0, slot, self._generations[slot], plan, ours, number, in_flight)
        child.page = self._pages.page(number) if number else new_page()
        return child, theirs

    def adopt(self, state: dict[str, Any], plan: Plan) -> None:
        """Take over a child described by `Child.describe`; `plan`: the child's plan."""
        child = Child.inherit(state, plan)
        self._pages.reserve(child.page_number)
        child.page = self._pages.page(child.page_number)
        self._generations[child.slot] = max(self._generations[child.slot], child.generation)
        self._add(child)
        if state["deadline_at"] is not None:
            child.due_at = self.clock() + max(state["deadline_at"] - time.monotonic(), 0.0)
        if child.state == State.DRAINING:
            self.tell(child, drain_order(is_replaced=True))  # once more: unsent messages were not handed down

    def describe(self) -> tuple[int, list[dict[str, Any]]]:
        """Return the descriptor of the pages, and all children for `adopt`, but molds, with old code."""
        return self._pages.fd, [self._describe(child) for child in self if child.slot != MOLD]

    def _describe(self, child: Child) -> dict[str, Any]:
        seconds = max(child.due_at - self.clock(), 0.0)
        return {**child.describe(), "deadline_at": time.monotonic() + seconds if seconds != NEVER else None}

    def _let_go(self, child: Child) -> None:
        """In a forked child: close the supervisor's ends of channels, or workers would not notice the supervisor's death; and further tables."""
        child.channel.close()
        for one in self:
            one.close()

    def _add(self, child: Child) -> None:
        if child.pid:
            self._by_pid[child.pid] = child
        else:
            self._unborn.append(child)
        self._by_slot[child.slot].append(child)
        page = child.page
        page[Field.PID], page[Field.SLOT], page[Field.GENERATION] = child.pid, child.slot, child.generation
        page[Field.STATE] = child.state
        self._selector.register(child.channel, selectors.EVENT_READ, functools.partial(self._on_channel, child))

    # Messages

    def tell(self, child: Child, message: Message, fds: Sequence[int] = (), is_kept: bool = False) -> None:
        """Send a message to a worker; the descriptors are closed here once sent, unless the caller keeps the descriptors."""
        child.channel.send(message, fds, is_kept)
        self._watch(child)

    def on_second(self) -> None:
        """Try unsent messages again, and look whether the event loop of each worker turns."""
        for child in self:
            if child.channel.unsent:
                child.channel.flush()
                self._watch(child)
        for child in self.note_silent():
            tick = child.page[Field.TICK]
            child.still_seconds = child.still_seconds + 1 if tick == child.tick else 0
            if tick != child.tick:
                child.tick, child.given_count = tick, 0  # the page includes the given connections by now

    def note_silent(self) -> list[Child]:
        """Note which serving or draining workers hear no orders, or have a still event loop; return all of both kinds."""
        found = self.having(State.READY, State.DRAINING)
        for child in found:
            child.is_silent = not turns(child)
        return found

    def _on_channel(self, child: Child) -> None:
        if child.is_reaped:
            return  # within the same turn of the loop
        child.channel.flush()
        self._read_words(child)
        self._watch(child)

    def _watch(self, child: Child) -> None:
        """Wait for a worker's messages; and, while messages are unsent, for room."""
        key = self._selector.get_map().get(child.channel.fileno())
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.channel.has_unsent else 0)
        if key is not None and key.events != events:
            self._selector.modify(child.channel, events, key.data)

    def _read_words(self, child: Child) -> None:
        """Handle the arrived messages of a worker."""
        while True:
            try:
                received = child.channel.receive()
            except BlockingIOError:
                return
            if received is None:
                self._on_closed(child)
                return
            if received[0].get("say") == "begun" and child in self._unborn:
                self._on_begun(child)
            else:
                self.hear(child, *received)

    def _on_begun(self, child: Child) -> None:
        """Record the pid of a worker forked by a mold."""
        self._unborn.remove(child)
        if child.mold is not None:
            child.mold.is_silent, child.mold.forked_at = False, self.clock()
        child.pid, child.mold = child.channel.sender_pid, None
        self._by_pid[child.pid] = child
        child.page[Field.PID] = child.pid
        if child.state == State.STARTING:
            self._limit_start(child)
        elif child.state == State.KILLED:
            os.kill(child.pid, signal.SIGKILL)

    def _on_closed(self, child: Child) -> None:
        """A worker has closed an end of the channel: the worker has died, is about to end, or the app has closed descriptors of ours."""
        self._unwatch(child)
        if child in self._unborn:
            if child not in self._stillborn:  # the end is read again with each unknown child
                self._stillborn.append(child)
        elif not child.is_reaped and child.state in (State.STARTING, State.READY):
            child.is_mute, child.due_at = True, self.clock() + ENDING_SECONDS

    def _unwatch(self, child: Child) -> None:
        if child.channel.fileno() in self._selector.get_map():
            self._selector.unregister(child.channel)

    # Changing the state

    def admit(self, child: Child) -> bool:
        """Record that a worker is ready; return False if the worker is ending, or has ended already."""
        if child.is_reaped or child.transition(Event.READY) != State.STARTING:
            return False
        child.due_at = NEVER
        return True

    def drain(self, child: Child, is_replaced: bool) -> None:
        """
        Tell a worker to finish all requests, and end; `is_replaced`: workers remain.

        A worker in the import of the app ends at once (worker.py).
        """
        config = child.plan.config
        child.transition(Event.DRAIN)
        seconds = config.drain_seconds + (0 if is_replaced else config.drain_delay_seconds)
        if not child.is_mute:  # else the child does not hear the order, and keeps the limit
            child.due_at = self.clock() + seconds + ENDING_SECONDS
        self.tell(child, drain_order(is_replaced))

    def kill(self, child: Child, number: signal.Signals = signal.SIGKILL, seconds: float = ENDING_SECONDS) -> None:
        """End a worker without a drain; a signal weaker than SIGKILL leaves `seconds`."""
        child.transition(Event.KILL)
        if not child.is_reaped and child.pid:  # a child without a pid is killed at "begun"
            os.kill(child.pid, number)
        child.due_at = self.clock() + seconds if number != signal.SIGKILL else NEVER

    def end_with_stacks(self, child: Child, why: str) -> None:
        """End a hung worker, after the stacks are written."""
        child.failure = why
        logger.error("%s: %s; ending it, with its stack below", child, why)
        self.kill(child, signal.SIGABRT, STACK_SECONDS)

    # Time limits

    def _limit_start(self, child: Child) -> None:
        seconds = child.plan.config.start_seconds
        child.due_at = self.clock() + seconds if seconds else NEVER

    def end_overdue(self, child: Child) -> None:
        """End a child that has not gone on in time."""
        if child.state is State.KILLED:
            self.kill(child)
        elif child.is_mute:
            self._cut(
                child, child.failure or "it has closed its channel to the supervisor, as by closing all descriptors"
            )
        elif child.state is State.STARTING:
            seconds = child.plan.config.start_seconds
            self.end_with_stacks(child, f"it was not ready within {seconds:g} s (--start-timeout)")
        else:
            why = f"it had not ended {ENDING_SECONDS:g} s after --drain-timeout"
            self._cut(child, why, ": what keeps it may be in the lines above")

    def _cut(self, child: Child, why: str, hint: str = "") -> None:
        child.failure = why
        logger.error("%s: %s; ending it%s", child, why, hint)
        self.kill(child)

    # The end

    def reap(self, on_other: Callable[[int, str], None]) -> Iterator[tuple[Child, State, str]]:
        """
        Remove the ended children, and yield each child with the last state, and the kind of end.

        `on_other` is called for the rest: programs (attached.py), and orphans (as PID 1 of a container, and with a mold).
        """
        with contextlib.suppress(ChildProcessError):  # there is none at all
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                child = self._find_by_pid(pid)
                if child is not None:
                    if status or child.state is not State.DRAINING:  # 0 may be the app's os._exit(0)
                        child.was_at = read_in_flight(read_used(child.in_flight))
                    yield child, self._remove(child), describe_end(status)
                else:
                    on_other(pid, describe_end(status))
        while self._stillborn:  # after the mold, whose end has a reason
            unborn = self._stillborn.pop(0)
            self._unborn.remove(unborn)
            unborn.failure = unborn.failure or "its mold has ended before it could fork"
            yield unborn, self._remove(unborn), "was not forked"

    def _find_by_pid(self, pid: int) -> Child | None:
        """Return the child with this pid, if any; the message of a child that has just begun may not have been read yet."""
        if pid not in self._by_pid:
            for child in list(self._unborn):
                self._read_words(child)
        return self._by_pid.get(pid)

    def _remove(self, child: Child) -> State:
        """Remove a reaped child; return the last state."""
        child.is_reaped = True
        self._read_words(child)  # the last messages, while the child still counts: a scrape may follow
        self._by_pid.pop(child.pid, None)
        self._unwatch(child)
        child.close()
        before = child.transition(Event.END)
        self._by_slot[child.slot].remove(child)
        if child.page_number:
            child.page = self._pages.give_back(child.page_number)
        return before


def turns(child: Child) -> bool:
    """Whether a worker hears orders, and the event loop turns, by the page."""
    ticked_at = child.page[Field.TICKED_AT]  # 0: the worker has only just begun
    return not child.is_mute and (not ticked_at or ticked_at >= time.monotonic_ns() - SILENT_NS)


def drain_order(is_replaced: bool) -> Message:
    """Return the order to drain; `is_replaced`: workers remain."""
    return {"do": "drain", "stopping": not is_replaced}
