"""Fixtures of the tests of processes."""

import selectors

import pytest
from harness.supervising import supervised, system
from harness.ways import moving

from aserve.features import Config
from aserve.processes.children.children import Children
from aserve.processes.children.pages import Pages
from aserve.processes.children.poller import Clock
from aserve.processes.fleet.plan import Plan

__all__ = ["moving", "supervised", "system"]


@pytest.fixture
def selector():
    with selectors.DefaultSelector() as selector:
        yield selector


@pytest.fixture
def new(system, selector):
    """Make children: new(slot, **settings) -> Child; new.children, new.heard, new.pass_time."""
    clock, heard = Clock(lambda: system.now), []
    children = Children(Pages(8), selector, clock)
    children.hear = lambda *words: heard.append(words)

    def fork(slot=1, **settings):
        child, channel = children.fork(slot, Plan(Config(workers=1, **settings), None))
        assert channel is None
        return child

    def pass_time(seconds):
        """Let time pass as for the supervisor: its clock is read at least once a second."""
        for step in [1.0] * int(seconds) + [seconds % 1.0]:
            system.now += step
            now = clock()
            for child in [child for child in children if child.due_at <= now]:
                children.end_overdue(child)

    def hear():
        for key, _ in selector.select(0):
            key.data()
        return heard

    fork.children, fork.pass_time, fork.hear = children, pass_time, hear
    yield fork
    for child in children:
        child.close()
