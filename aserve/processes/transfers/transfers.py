"""Connections on the way between workers: each is kept until a worker has the connection, so that a killed worker loses none.

Owns:     Transfers: the choice of the worker for a request, or an idle connection; the descriptors, until a worker has said `taken`; the next worker
          if the chosen worker ends, or has no room.
Thread:   the supervisor's only one.
Not here: the transfers to begin, and when (passing.py, levelling.py), the worker with most room (placement.py), the requests taken by a dead worker
          (overview.py).

| the request                                   | goes to                                                                      |
|---|---|
| comes from the worker of the wait: home       | the intended worker, if able to take a request; or back                      |
| comes back: no room, a drain, or not received  | home; if home has ended, waits here until the next second                   |
| was not taken when the chosen worker ended    | home; if home has ended, the worker with the fewest; without a serving worker a draining worker; without any, waits here |
| was not taken, and the worker is silent       | the same, after SILENT_NS                                                    |
| waits here                                    | the same, once a second                                                      |
| could not be sent for long, or found no room here on the way back | waits here                                               |

| the connection at rest                        | goes to                                                                      |
|---|---|
| comes from a worker, for the first time or back | the intended worker, or the worker with the fewest; else back, or closed if the sender drains |
| was not taken when the chosen worker ended, or could not be received | the worker with the fewest; without a worker, waits here |
| waits here                                    | the same, once a second; closed after LONGEST_WAIT_SECONDS, or if the server ends |

A worker says `taken` before a thread can begin the request, here and in the request's file (request_file.py): the message may wait for room. So a
single worker at most begins a request, and requests taken by a killed worker are among the worker's running requests. An idle connection has no file:
the connection sets out in blocking mode, shared by all processes, and the taking worker makes the connection non-blocking before reading.
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
from ..children.children import Children, turns
from .placement import Placement
from .request_file import RequestFile, is_begun, look_at_request, put_request_back, take_request

logger = logging.getLogger("aserve")

# The most kept requests, with two descriptors each: a quarter of the usual `ulimit -n`, 1024; and the most idle connections. More than
# 40 workers can give a request a second to a stopped worker, until the worker counts as silent (SILENT_NS). A further request goes home, and waits there.
MAX_KEPT = 128
# How long an idle connection waits here for a worker, before the end: a worker's longest pause before a start (backoff.py), and
# a start. Guess.
LONGEST_WAIT_SECONDS = 40.0
UNKNOWN = "- -"  # method and target of a lost request without a copy


class Transfer:
    """A request on the way."""

    noun = "requests"

    def __init__(self, message: Message, fds: list[int]) -> None:
        self.message = message
        self.fds = fds  # of the connection and the file; empty: no copy
        self.getter: Child | None = None  # None: the request waits for a worker
        self.since = time.monotonic()  # since when the getter, or the wait, is the same

    def set_out(self) -> None:
        """Let a worker take the request; an earlier worker may have read the file."""
        put_request_back(self.fds[1])

    @property
    def is_taken(self) -> bool:
        """Whether a worker has taken the request for good."""
        return is_begun(self.fds[1])


class IdleTransfer(Transfer):
    """An idle connection on the way, with a single descriptor."""

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
    """Return a request or an idle connection, by the descriptors."""
    return (Transfer if len(fds) > 1 else IdleTransfer)(message, fds)


class Transfers:
    """All connections on their way."""

    def __init__(self, children: Children, placement: Placement) -> None:
        self._children, self._placement = children, placement
        self._numbers = itertools.count(time.monotonic_ns())  # also after an upgrade in place, none comes a second time
        self._by_number: dict[int, Transfer] = {}

    # Words of workers

    def on_idle(self, sender: Child, message: Message, fds: list[int]) -> None:
        """Give an idle connection to a different worker; back to a serving sender, if there is no such worker."""
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
        """Give a request to a different worker; a returned request has descriptors of its own."""
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
        """Forget a taken connection."""
        if self._is_at(sender, message["number"]):
            self._drop(message["number"])

    def on_missed(self, sender: Child, message: Message, fds: list[int]) -> None:
        """Give a connection to a further worker: the message came without descriptors."""
        if self._is_at(sender, message["number"]):
            transfer = self._by_number.pop(message["number"])
            if transfer.fds:  # else the request is lost, as logged by the worker
                is_rest = isinstance(transfer, IdleTransfer)
                self._send(transfer, self._placement.emptiest(sender) if is_rest else self._home_of(transfer, sender))

    def _on_dropped(self, getter: Child, message: Message) -> None:
        """
        Let a request wait here after the message was given up, or found no room here on the way back.

        A message at once would fail for the same reason.
        """
        number = message.get("number", 0)
        if self._is_at(getter, number):
            self._by_number[number].getter = None
            if not self._by_number[number].fds:
                self._drop(number)

    # Further events

    def on_end(self, child: Child) -> None:
        """Give the untaken connections of an ended worker away; requests without a copy are losses of the worker."""
        if not self._by_number:
            return
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
        """Give waiting connections, and requests at silent workers, to workers able to take them by now."""
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
        """Log the requests without a worker left; return whether there are any."""
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

    # Gifts of workers of a foreign version

    def give(self, message: Message, fds: list[int]) -> bool:
        """Give an idle connection to the worker with the fewest; return whether there is a worker."""
        getter = self._placement.emptiest()
        if getter is not None:
            self._send(IdleTransfer(message, fds), getter)
        return getter is not None

    def keep(self, message: Message, fds: list[int]) -> None:
        """Keep a request until a worker may take the request, without a home here: the page was in a foreign supervisor's memory."""
        self._send(Transfer({"home": 0, **message}, fds), None)

    # Over an exec

    def describe(self) -> list[dict[str, Any]]:
        """Return the kept transfers, for `adopt`. An unsent message is not handed down: the connection waits."""
        self._drop_taken()
        return [
            {"number": number, "message": transfer.message, "fds": transfer.fds, "pid": _pid_of_getter(transfer)}
            for number, transfer in self._by_number.items()
            if transfer.fds
        ]

    def adopt(self, states: Iterable[dict[str, Any]]) -> None:
        """Take over the transfers of `describe`."""
        for state in states:
            transfer = self._by_number[state["number"]] = transfer_of(state["message"], state["fds"])
            transfer.getter = next((child for child in self._children if child.pid == state["pid"]), None)
            if transfer.getter is not None:
                transfer.getter.channel.on_dropped = functools.partial(self._on_dropped, transfer.getter)

    # The table

    def _kept(self, kind: type[Transfer]) -> list[Transfer]:
        return [transfer for transfer in self._by_number.values() if transfer.fds and type(transfer) is kind]

    def _has_room(self, transfer: Transfer, getter: Child | None) -> bool:
        """Whether there is room for a further transfer to this worker. Idle connections stay at a stopped worker: so they leave half of the free room to the rest."""
        kept = self._kept(type(transfer))
        at_getter = [each for each in kept if isinstance(each, IdleTransfer) and each.getter is getter]
        return len(kept) + len(at_getter) < MAX_KEPT

    def _send(self, transfer: Transfer, getter: Child | None) -> None:
        """Send a connection to a worker, and keep a copy; None: the connection waits here."""
        number, fds, is_kept = next(self._numbers), transfer.fds, self._has_room(transfer, getter)
        transfer.set_out()
        if transfer.getter is not getter:
            transfer.getter, transfer.since = getter, time.monotonic()
        if getter is not None and not is_kept:
            transfer.fds = []
        # A request without a copy is a loss of the worker that ends before taking the request.
        if transfer.fds or not isinstance(transfer, IdleTransfer):
            self._by_number[number] = transfer
        if getter is not None:
            getter.given_count += 1
            getter.channel.on_dropped = functools.partial(self._on_dropped, getter)
            known = {"number": number} if number in self._by_number else {}  # else it is the only copy
            self._children.tell(getter, {**transfer.message, "do": "adopt", **known}, fds, is_kept)

    def _is_at(self, child: Child, number: int) -> bool:
        """Whether the connection with this number is at this worker: given, and sent. A connection of earlier code may not be known."""
        transfer = self._by_number.get(number)
        return transfer is not None and transfer.getter is child and not child.channel.holds(transfer.fds)

    def _drop(self, number: int) -> None:
        """Forget a connection, and close the descriptors here; no unsent message may have the descriptors."""
        close_all(self._by_number.pop(number).fds)

    def _drop_taken(self) -> None:
        """Forget taken connections without a worker's message: the message waits for room, or the worker was killed."""
        for number, transfer in list(self._by_number.items()):
            if transfer.fds and transfer.is_taken:
                self._drop(number)

    def _drop_overdue(self) -> None:
        """Close idle connections after too long a wait here; all of them, if no worker is to begin any more."""
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
        """Take a request back from a silent worker; False: the worker turns, or has the request, or the request cannot be taken back, as an idle connection."""
        if (
            not transfer.fds
            or isinstance(transfer, IdleTransfer)
            or turns(getter)
            or getter.channel.holds(transfer.fds)
        ):
            return False
        file = RequestFile()  # the worker will look into the first file
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
        """Return the intended worker of a request; None: the worker may take no request, or no further request can be kept."""
        may_take = [child for child in self._placement.able() if child.page_number == transfer.message["to"]]
        return may_take[0] if may_take and len(self._kept(Transfer)) < MAX_KEPT else None

    def _next_of(self, transfer: Transfer) -> Child | None:
        """Return the worker for an untaken connection; None: no worker."""
        if isinstance(transfer, IdleTransfer):
            return self._placement.emptiest()
        return self._home_of(transfer) or self._other()

    def _home_of(self, transfer: Transfer, without: Child | None = None) -> Child | None:
        """Return the first giver of a request, in a drain, too; None: the giver has ended, hangs, or is `without`."""
        message, alive = transfer.message, self._children.having(State.READY, State.DRAINING)
        found = [
            child
            for child in alive
            # The page may be a successor's; earlier code names no pid.
            if child.page_number == message["giver"]
            and child.pid == message.get("home", child.pid)
            and child is not without
        ]
        return found[0] if found and turns(found[0]) else None

    def _other(self) -> Child | None:
        """Return the worker with the fewest connections; without a serving worker, a draining worker, for requests at the end of the server."""
        draining = [child for child in self._children.having(State.DRAINING) if turns(child)]
        return self._placement.emptiest() or (draining[0] if draining else None)

    def _describe(self, transfer: Transfer) -> str:
        exchange = read_request(look_at_request(transfer.fds[1]))
        return escape(without_query(exchange.method_and_target))
