"""Kept connections at rest go to less loaded workers, and their clients notice nothing."""

import functools
import os
import signal

import pytest
from harness.client import RawClient
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX
from harness.load import Load, load

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

CLIENTS = 8


def counts_of(clients: Load, pids: list[int]) -> list[int]:
    """Return how many requests each of these workers has answered."""
    bodies = clients.bodies.copy()
    return [bodies[b"one %d" % pid] for pid in pids]


@pytest.mark.parametrize("how", ["one more", pytest.param("a crash", marks=pytest.mark.long_on_pypy)])
def test_kept_connections_come_to_a_new_worker(start_workers, wait_until, how):
    """A new worker gets its part of the requests of kept connections, and no request fails."""
    process = start_workers("--workers", "1" if how == "one more" else "2")
    first, *others = process.wait_for_workers(1 if how == "one more" else 2)
    halt(*others)  # halted workers accept no client
    with load(functools.partial(RawClient, process.address), kinds=("kept",) * CLIENTS) as clients:
        wait_until(lambda: clients.connection_count == CLIENTS and clients.count > CLIENTS)
        count = clients.count  # first: the clients go on
        assert clients.first_words == {b"one"} and counts_of(clients, [first])[0] >= count
        if how == "one more":
            process.signal(signal.SIGTTIN)
        else:
            os.kill(others[0], signal.SIGKILL)
            process.wait_for_log(r"(?s)has crashed.*is ready")
        pids = process.wait_for_workers(2)

        def is_even() -> bool:
            before, count = counts_of(clients, pids), clients.count + 10 * CLIENTS
            wait_until(lambda: clients.count > count)
            new = [after - one for after, one in zip(counts_of(clients, pids), before)]
            return max(new) <= 0.6 * sum(new)

        wait_until(is_even)
        assert clients.connection_count == CLIENTS
