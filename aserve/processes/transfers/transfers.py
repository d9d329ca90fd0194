"""Connections on their way from one worker to another: each is kept until a worker has it, so that none is lost with a worker that is killed before.

Owns:     Transfers: which worker gets a request, or a connection at rest; its descriptors, until a worker has said that it has taken it; what becomes
          of it when that worker ends, or cannot take it.
Thread:   the supervisor's only one.
Not here: which of them transfer, and when (passing.py, levelling.py), which worker has most room (placement.py), requests that a dead worker had
          taken (losses.py).

| the request                                   | goes to                                                                      |
|---|---|
| comes from the worker where it waits: home    | the worker that it is meant for, if that may take one; or back               |
| comes back, as that worker has no room, drains, or could not receive it | home; if that has ended, it waits here until the next second |
| was not taken when its worker ended           | home; if that has ended, to the worker with the fewest; without one that serves on to one that drains; without any it waits |
| was not taken, and its worker does not answer | the same, after SILENT_NS                                                    |
| waits here                                    | the same, once a second                                                      |
| could not be sent to its worker for long, or found no room here on its way back | waits here                                 |

| the connection at rest                        | goes to                                                                      |
|---|---|
| comes from a worker, for the first time or back | the worker that it is meant for, or the one with the fewest; without another back, or it is closed if its sender drains |
| was not taken when its worker ended, or could not be received | the worker with the fewest; without one it waits here          |
| waits here                                    | the same, once a second; it is closed after LONGEST_WAIT_SECONDS, or if the server ends |

A worker says that it has taken a request before a thread can begin it, here and in the request's file (request_file.py): its message may wait for room. So a
request is begun by one worker at most, and what a killed worker had taken is among its running requests. A connection at rest has no file: it sets
out in blocking mode, which all processes share, and a worker that takes it makes it non-blocking before it reads.
"""

from __future__ import annotations

import collections
import functools
import itertools
import logging
import os
import time
from collections.abc import Iterable
from typing import Any

from ...connections.drain.moved_request import read_request
from ...core.descriptors import close_all
from ...core.exchange import escape, without_query
from ...core.page import State
from ..children.channel import Message
from ..children.child import MAX_TOLD_REQUESTS, Child
from ..children.children import Children
from .placement import Placement
from .request_file import RequestFile, is_begun, look_at_request, put_request_back, take_request

logger = logging.getLogger("aserve")

# The most requests that are kept, with two descriptors each: a quarter of the usual `ulimit -n`, 1024; and the most connections at rest. More than
# 40 workers can give one a second to one that is stopped, until it is seen to be (SILENT_NS). A further request goes home, and waits there.
MAX_KEPT = 128
# How long a connection at rest waits here for a worker, before it is closed: a worker's longest pause before it starts again (backoff.py), and
# a start. Guess.
LONGEST_WAIT_SECONDS = 40.0
UNKNOWN = "- -"  # method and target of a lost request that was not kept


class Transfer:
    """A request on its way."""

    noun = "requests"

    def __init__(self, message: Message, fds: list[int]) -> None:
        self.message = message
        self.fds = fds  # of its connection and its file; empty: it is not kept
        self.getter: Child | None = None  # None: it waits for a worker
        self.since = time.monotonic()  # it is at that worker, or waits

    def set_out(self) -> None:
        """Let a worker take it; one may have read it."""
        put_request_back(self.fds[1])

    @property
    def is_taken(self) -> bool:
        """Whether a worker has taken it for good."""
        return is_begun(self.fds[1])


class IdleTransfer(Transfer):
    """A connection at rest on its way; its only descriptor is its own."""

    noun = "connections at rest"

    def set_out(self) -> None:
        """See Transfer."""
        os.set_blocking(self.fds[0], True)

    @property
    def is_taken(self) -> bool:
        """See Transfer."""
        return not os.get_blocking(self.fds[0])


def _pid_of_getter(transfer: Transfer) -> int:
    getter = transfer.getter
    return getter.pid if getter is not None and not getter.channel.holds(transfer.fds) else 0


def transfer_of(message: Message, fds: list[int]) -> Transfer:
    """Return a request or a connection at rest, by its descriptors."""
    return (Transfer if len(fds) > 1 else IdleTransfer)(message, fds)


class Transfers:
    """All connections on their way."""

    def __init__(self, children: Children, placement: Placement) -> None:
        self._children, self._placement = children, placement
        self._numbers = itertools.count(time.monotonic_ns())  # also after an upgrade in place, none comes a second time
        self._by_number: dict[int, Transfer] = {}

    # Words of workers

    def on_idle(self, sender: Child, message: Message, fds: list[int]) -> None:
        """Give a connection at rest to another worker; to one that serves on itself, where there is no other."""
        number = message.pop("number", 0)
        if self._is_at(sender, number):
            self._drop(number)
        getter = self._placement.emptiest(sender, message.get("to", 0))
        getter = getter or (sender if sender.state is State.READY else None)
        if getter is not None:
            self._send(IdleTransfer(message, fds), getter)
        else:
            close_all(fds)

    def on_request(self, sender: Child, message: Message, fds: list[int]) -> None:
        """Give a request to another worker; one that comes back has descriptors of its own."""
        number = message.pop("number", 0)
        transfer = Transfer(message, fds)
        if number:
            if self._is_at(sender, number):
                self._drop(number)
            self._send(transfer, self._home_of(transfer, sender))
        else:
            message["home"] = sender.pid
            self._send(transfer, self._meant_for(transfer) or self._home_of(transfer) or self._other())

    def on_taken(self, sender: Child, message: Message, fds: list[int]) -> None:
        """Forget a connection that a worker has taken."""
        if self._is_at(sender, message["number"]):
            self._drop(message["number"])

    def on_missed(self, sender: Child, message: Message, fds: list[int]) -> None:
        """Give a connection to another worker: the message came without its descriptors."""
        if self._is_at(sender, message["number"]):
            transfer = self._by_number.pop(message["number"])
            if transfer.fds:  # else it is lost, and its worker has logged that
                is_rest = isinstance(transfer, IdleTransfer)
                self._send(transfer, self._placement.emptiest(sender) if is_rest else self._home_of(transfer, sender))

    def _on_dropped(self, getter: Child, message: Message) -> None:
        """
        Let a request wait here whose message was given up, or found no room here on its way back.

        To send it at once would fail for the same reason.
        """
        number = message.get("number", 0)
        if self._is_at(getter, number):
            self._by_number[number].getter = None
            if not self._by_number[number].fds:
                self._drop(number)

    # Other events

    def on_end(self, child: Child) -> None:
        """Give to others what a worker that has ended had not taken; what is not kept is one of its losses."""
        self._drop_taken()
        left = [number for number, transfer in self._by_number.items() if transfer.getter is child]
        transfers = [self._by_number.pop(number) for number in left]
        kept = [transfer for transfer in transfers if transfer.fds]
        child.was_at += [(0.0, UNKNOWN)] * (len(transfers) - len(kept))
        for noun, count in collections.Counter(transfer.noun for transfer in kept).items():
            logger.info(
                "%s has ended; %s that were on their way to it are kept for another worker: %d", child, noun, count
            )
        for transfer in kept:
            self._send(transfer, self._next_of(transfer))

    def on_second(self) -> None:
        """Give what waits here, and requests at a worker that does not answer, to workers that may take them by now."""
        if not self._by_number:
            return
        self._drop_taken()
        for number in list(self._by_number):
            transfer = self._by_number.get(number)  # None: given up, as another could not be sent
            if transfer is not None and (transfer.getter is None or self._take_back(transfer, transfer.getter)):
                del self._by_number[number]
                self._send(transfer, self._next_of(transfer))
        self._drop_overdue()

    def end(self) -> bool:
        """Log the requests that no worker is left to take; return whether there are any."""
        self._drop_taken()
        lost = [
            transfer for transfer in self._by_number.values() if transfer.fds and not isinstance(transfer, IdleTransfer)
        ]
        if lost:
            told = ", ".join(self._describe(transfer) for transfer in lost[:MAX_TOLD_REQUESTS])
            logger.warning(
                "no worker is left for requests that were on their way to one; lost: %d: %s", len(lost), told
            )
        return bool(lost)

    def let_go(self) -> None:
        """Close all descriptors; in a forked child, too."""
        for number in list(self._by_number):
            self._drop(number)

    # What workers of another version pass on

    def give(self, message: Message, fds: list[int]) -> bool:
        """Give a connection at rest to the worker with the fewest; return whether there is one."""
        getter = self._placement.emptiest()
        if getter is not None:
            self._send(IdleTransfer(message, fds), getter)
        return getter is not None

    def keep(self, message: Message, fds: list[int]) -> None:
        """Keep a request until a worker may take it. It has no home here: its page was one of another supervisor's."""
        self._send(Transfer({"home": 0, **message}, fds), None)

    # Over an exec

    def describe(self) -> list[dict[str, Any]]:
        """Return what is kept, for `adopt`. A message that has not been sent is not handed down: its connection waits."""
        self._drop_taken()
        return [
            {"number": number, "message": transfer.message, "fds": transfer.fds, "pid": _pid_of_getter(transfer)}
            for number, transfer in self._by_number.items()
            if transfer.fds
        ]

    def adopt(self, states: Iterable[dict[str, Any]]) -> None:
        """Take over what `describe` described."""
        for state in states:
            transfer = self._by_number[state["number"]] = transfer_of(state["message"], state["fds"])
            transfer.getter = next((child for child in self._children if child.pid == state["pid"]), None)
            if transfer.getter is not None:
                transfer.getter.channel.on_dropped = functools.partial(self._on_dropped, transfer.getter)

    # The table

    def _kept(self, kind: type[Transfer]) -> list[Transfer]:
        return [transfer for transfer in self._by_number.values() if transfer.fds and type(transfer) is kind]

    def _has_room(self, transfer: Transfer, getter: Child | None) -> bool:
        """Whether one more may be kept for this worker. Those at rest stay at one that is stopped: so they leave half of what is free to others."""
        kept = self._kept(type(transfer))
        at_getter = [each for each in kept if isinstance(each, IdleTransfer) and each.getter is getter]
        return len(kept) + len(at_getter) < MAX_KEPT

    def _send(self, transfer: Transfer, getter: Child | None) -> None:
        """Send a connection to a worker, and keep it; None: it waits here."""
        number, fds, is_kept = next(self._numbers), transfer.fds, self._has_room(transfer, getter)
        transfer.set_out()
        if transfer.getter is not getter:
            transfer.getter, transfer.since = getter, time.monotonic()
        if getter is not None and not is_kept:
            transfer.fds = []
        # A request that is not kept is a loss of the worker that ends before it has taken it.
        if transfer.fds or not isinstance(transfer, IdleTransfer):
            self._by_number[number] = transfer
        if getter is not None:
            getter.given_count += 1
            getter.channel.on_dropped = functools.partial(self._on_dropped, getter)
            known = {"number": number} if number in self._by_number else {}  # without it the worker has the only copy
            self._children.tell(getter, {**transfer.message, "do": "adopt", **known}, fds, is_kept)

    def _is_at(self, child: Child, number: int) -> bool:
        """Whether the connection with this number is at this worker: given to it, and sent. One of earlier code may not be known."""
        transfer = self._by_number.get(number)
        return transfer is not None and transfer.getter is child and not child.channel.holds(transfer.fds)

    def _drop(self, number: int) -> None:
        """Forget a connection, and close its descriptors here, which no unsent message may have."""
        close_all(self._by_number.pop(number).fds)

    def _drop_taken(self) -> None:
        """Forget what was taken, though the message of its worker has not come: it waits for room, or the worker was killed."""
        for number, transfer in list(self._by_number.items()):
            if transfer.fds and transfer.is_taken:
                self._drop(number)

    def _drop_overdue(self) -> None:
        """Close connections at rest that have waited here for too long; all that wait, if no worker is to begin any more."""
        is_last = self._placement.are_last
        latest = time.monotonic() - (0.0 if is_last else LONGEST_WAIT_SECONDS)
        waiting = [(number, transfer) for number, transfer in self._by_number.items() if transfer.getter is None]
        overdue = [
            number for number, transfer in waiting if isinstance(transfer, IdleTransfer) and transfer.since <= latest
        ]
        for number in overdue:
            self._drop(number)
        if overdue and not is_last:
            logger.warning(
                "no worker could take connections at rest for %.0f s; closed: %d", LONGEST_WAIT_SECONDS, len(overdue)
            )

    def _take_back(self, transfer: Transfer, getter: Child) -> bool:
        """Take a request back from a worker that does not answer; False: it turns, or has it, or it cannot be taken back, as one at rest."""
        if (
            not transfer.fds
            or isinstance(transfer, IdleTransfer)
            or self._placement.turns(getter)
            or getter.channel.holds(transfer.fds)
        ):
            return False
        file = RequestFile()  # the worker will look into the other
        try:
            file.write(look_at_request(transfer.fds[1]))
            is_taken = bool(take_request(transfer.fds[1]))
        except OSError:
            is_taken = False  # no descriptor is left
        if not is_taken:
            file.close()
            return False
        logger.info("%s does not answer: a request that was on its way to it goes to another worker", getter)
        os.close(transfer.fds[1])
        transfer.fds[1] = file.detach()
        return True

    # The choice

    def _meant_for(self, transfer: Transfer) -> Child | None:
        """Return the worker that a request is meant for; None: it may take none, or no further request can be kept."""
        may_take = [child for child in self._placement.able() if child.page == transfer.message["to"]]
        return may_take[0] if may_take and len(self._kept(Transfer)) < MAX_KEPT else None

    def _next_of(self, transfer: Transfer) -> Child | None:
        """Return the worker that gets what another has not taken; None: there is none."""
        if isinstance(transfer, IdleTransfer):
            return self._placement.emptiest()
        return self._home_of(transfer) or self._other()

    def _home_of(self, transfer: Transfer, without: Child | None = None) -> Child | None:
        """Return the worker that has given a request first, which takes it back also while it drains; None: it has ended, hangs, or is `without`."""
        message, alive = transfer.message, self._children.having(State.READY, State.DRAINING)
        found = [
            child
            for child in alive
            # The page may be a successor's; earlier code names no pid.
            if child.page == message["giver"] and child.pid == message.get("home", child.pid) and child is not without
        ]
        return found[0] if found and self._placement.turns(found[0]) else None

    def _other(self) -> Child | None:
        """Return the worker with the fewest connections; without one that serves on, one that drains, which takes requests at the end of the server."""
        draining = [child for child in self._children.having(State.DRAINING) if self._placement.turns(child)]
        return self._placement.emptiest() or (draining[0] if draining else None)

    def _describe(self, transfer: Transfer) -> str:
        exchange = read_request(look_at_request(transfer.fds[1]))
        return escape(without_query(exchange.method_and_target))
