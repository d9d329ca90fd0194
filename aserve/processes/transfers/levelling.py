"""Levelling: idle kept connections go from the fullest workers to the emptiest, or, between equals, from the busiest to the idlest.

Owns:     how many connections each worker is to give away, once a second, and the order.
Thread:   the supervisor's only one. `gifts` and `relief` are pure: no look at a clock, nor at a process.
Not here: the choice of the connections, and the time (idle_connections.py, connections/drain/detaching.py), the choice of the getter
          (placement.py), the choice of the worker that accepts a new connection (cparsers/load_board.c).

A new worker, as after a crash or a larger size, has no connections, and clients with open connections never bring any. Workers with numbers of
connections within the tolerance of the load board are left alone, so that no connection moves back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...connections.load_board import Load
from ...core.named_tuple import NamedTuple
from ...core.page import Field, State
from ..children.children import Children

# Connections given away by a worker in a second. Guess: each costs two messages between processes.
MAX_GIFTS = 256


class Standing(NamedTuple):
    """The load of a worker."""

    connections: int  # to be given away or added to: without WebSockets
    requests: int  # running or waiting
    room: int  # for more connections
    is_stalled: bool = False  # requests wait, and no thread has begun a request for a second
    busy: float = 0.0  # threads inside the app: a mean of ten seconds


class Relief(NamedTuple):
    """The connections from a busy worker to an idle worker; workers by the places among the standings."""

    giver: int
    getter: int
    connections: int


def gifts(standings: Sequence[Standing]) -> list[int]:
    """Return how many connections each of these workers is to give away; most of the time 0."""
    none = [0] * len(standings)
    takers = [each for each in standings if not each.is_stalled]
    if len(standings) < 2 or not takers:
        return none
    emptiest = min(takers, key=lambda each: (each.connections, each.requests))
    mean = sum(each.connections for each in standings) // len(standings)
    missing = sum(min(max(mean - each.connections, 0), each.room) for each in takers)
    found = none
    for number, each in sorted(enumerate(standings), key=lambda item: -item[1].connections):
        if each.is_stalled:
            found[number] = min(each.connections, sum(taker.room for taker in takers), MAX_GIFTS)
        elif each.connections > mean and _is_fuller(each, emptiest):
            found[number] = min(each.connections - mean, missing, MAX_GIFTS)
            missing -= found[number]
    return found


def _is_fuller(one: Standing, other: Standing) -> bool:
    """Whether `one` has more connections, beyond the tolerance, and `other` does not compute instead."""
    return _is_ahead(one.connections, other.connections) and other.requests <= one.requests + 1


def relief(standings: Sequence[Standing]) -> Relief | None:
    """
    Return the gift of the busiest worker to the idlest; None: the difference of work is within the tolerance.

    The mean says that the difference lasts, and the requests of this moment that the difference still exists: the mean follows slowly.
    """
    if not standings:
        return None
    places = range(len(standings))
    giver = max(places, key=lambda place: standings[place].busy)
    getter = min(places, key=lambda place: (standings[place].is_stalled, standings[place].busy))
    one, other = standings[giver], standings[getter]
    is_busier = _is_ahead(one.busy, other.busy) and _is_ahead(one.requests, other.requests)
    if not is_busier or one.is_stalled or other.is_stalled:
        return None
    count = min(int(one.connections * (one.busy - other.busy) / (2 * one.busy)), other.room, MAX_GIFTS)
    return Relief(giver, getter, count) if count else None


def _is_ahead(one: float, other: float) -> bool:
    """Whether `one` is more than `other`, beyond the tolerance."""
    return one > other + 1 + other // 8


def level_out(children: Children, leaving: Collection[int]) -> None:
    """Let workers give connections away to emptier workers; to be called once a second. Hung workers and leaving slots are left out."""
    turning = [
        (child, standing)
        for child in children.having(State.READY)
        if child.slot not in leaving and not child.is_silent and (standing := _standing_of(child.page)) is not None
    ]
    if not any(standing.connections for _, standing in turning):
        return
    counts = gifts([standing for _, standing in turning])
    for (child, _), count in zip(turning, counts):
        if count:
            children.tell(child, {"do": "hand over", "count": count})
    found = relief([standing for _, standing in turning]) if not any(counts) else None
    if found is not None:
        order = {"do": "hand over", "count": found.connections, "to": turning[found.getter][0].page_number}
        children.tell(turning[found.giver][0], order)


def _standing_of(page: memoryview) -> Standing | None:
    load = Load.of(page[Field.LOAD])
    if load is None or not page[Field.TICKED_AT]:  # the worker has only just begun
        return None
    connections = max(load.connections - page[Field.WEBSOCKETS], 0)
    is_short = page[Field.SHORT_OF_DESCRIPTORS]
    room = max(page[Field.CONNECTIONS_LIMIT] - load.connections, 0) if not is_short else 0
    return Standing(
        connections, load.requests, room, bool(page[Field.STALLED_SECONDS]), page[Field.THREADS_BUSY_LATELY] / 1000
    )
