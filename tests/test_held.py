"""How much of large bodies waits in memory: up to the limit, and exactly counted."""

from __future__ import annotations

import threading

from aserve.held import HeldBytes


def test_up_to_the_limit():
    """What is over the limit is not taken, unless it must be."""
    held = HeldBytes(100)
    assert held.take(60) and held.take(40) and not held.take(1)
    assert held.take(50, is_forced=True) and held.count == 150
    held.give_back(50)
    held.give_back(60)
    assert held.take(60) and not held.take(1)


def test_without_a_limit_of_more_than_nothing():
    """0: nothing is held."""
    assert not HeldBytes(0).take(1)


def test_many_threads():
    """In the end all was given back."""
    held = HeldBytes(1000)

    def run():
        for count in range(500):
            if held.take(count):
                held.give_back(count)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held.count == 0
