"""The number of workers follows the load: --max-workers."""

from __future__ import annotations

import os
import signal
import sys
import types

import pytest

from aserve.core.page import Field
from aserve.features import Config
from aserve.features.scaling import CALM_SECONDS, FULL_SECONDS, NEXT_SECONDS, Scaling
from aserve.settings import ConfigError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")


def page(busy=0, waiting=0, lately=0):
    """Return what a worker writes."""
    return {Field.THREADS_BUSY: busy, Field.WAITING: waiting, Field.THREADS_BUSY_LATELY: lately}


@pytest.fixture
def scaled(monkeypatch):
    """A supervisor of 2 to 4 workers, each of one thread; second() returns the signal that one second has led to."""
    found = types.SimpleNamespace(
        config=Config(workers=2, max_workers=4, threads=1), process_count=2, is_draining=False
    )
    found.pages, found.states, sent = [page()], ["ready"], []
    found.processes = lambda: [
        types.SimpleNamespace(page=found.pages[slot % len(found.pages)], state=found.states[slot % len(found.states)])
        for slot in range(found.process_count)
    ]
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    part = Scaling(found.config).supervise(types.SimpleNamespace(observed=found))

    def second(count=1):
        for _ in range(count):
            part.on_second()
        numbers = [number for pid, number in sent if pid == os.getpid()]
        sent.clear()
        return numbers

    found.second = second
    return found


def test_more(scaled, caplog):
    """While all are busy there is one more each second, up to the most; a short rush needs none."""
    caplog.set_level("INFO")
    scaled.pages = [page(busy=1, waiting=1)]
    assert scaled.second(FULL_SECONDS) == [] and scaled.second() == [signal.SIGTTIN]
    assert caplog.messages == ["all threads are busy; one worker more than 2 starts"]
    scaled.process_count = 3
    assert scaled.second() == [signal.SIGTTIN]
    scaled.process_count = 4
    assert scaled.second(10) == []
    scaled.process_count, scaled.pages = 3, [page(busy=1), page()]
    assert scaled.second(10) == []
    scaled.pages = [page(busy=1)]
    assert scaled.second(FULL_SECONDS) == []


def test_fewer(scaled, caplog):
    """After a calm minute one ends, and another every ten seconds, down to the least; not while the others are needed."""
    caplog.set_level("INFO")
    scaled.process_count, scaled.pages = 4, [page(lately=600)]
    assert scaled.second(CALM_SECONDS + 20) == []
    scaled.pages = [page(lately=500)]
    assert scaled.second() == [signal.SIGTTOU] and caplog.messages == [
        "2.0 threads of 4 workers are busy; one worker ends"
    ]
    scaled.process_count, scaled.pages = 3, [page()]
    scaled.pages = [page(waiting=1)]
    assert scaled.second() == []
    scaled.pages = [page()]
    assert scaled.second(CALM_SECONDS) == [] and scaled.second() == [signal.SIGTTOU]
    assert scaled.second(NEXT_SECONDS - 1) == [] and scaled.second() == [signal.SIGTTOU]
    scaled.process_count = 2
    assert scaled.second(5 * CALM_SECONDS) == []


def test_others_change_it(scaled):
    """While a worker starts, or all end, the number stays."""
    scaled.pages, scaled.states = [page(busy=1)], ["ready", "starting"]
    assert scaled.second(10) == []
    scaled.states, scaled.is_draining = ["ready"], True
    assert scaled.second(10) == []


@pytest.mark.parametrize("workers", ["auto", 5])
def test_mistakes(workers):
    """The least is a number, and not above the most."""
    with pytest.raises(ConfigError, match=rf"^max-workers \(4\) with workers {workers}: name a number"):
        Scaling(Config(workers=workers, max_workers=4))
    with pytest.raises(ConfigError, match="counts busy threads"):
        Scaling(Config(workers=1, max_workers=4, threads=0))
    assert Scaling.is_on(Config(workers=1, max_workers=2)) and not Scaling.is_on(Config())
