"""The threads of an executor: never more than may be, and each counted once."""

from __future__ import annotations

import threading

import pytest

from aserve.workers.threads import Crew

PATIENCE_SECONDS = 10


@pytest.fixture
def new():
    """Make a crew whose workers wait for the end of the test."""
    end = threading.Event()
    made = []

    def make(max_threads, extra_threads=0):
        made.append(Crew(lambda: end.wait(PATIENCE_SECONDS), max_threads, extra_threads))
        return made[-1]

    yield make
    end.set()
    for crew in made:
        assert crew.join(PATIENCE_SECONDS) == []


def start(crew, count):
    return [crew.start() for _ in range(count)]


def idents(crew):
    return [thread.ident for thread in crew.at_work]


def test_at_most_so_many(new):
    """Workers have names in the order of their start; there are no more than may be."""
    crew = new(2)
    assert start(crew, 3) == [True, True, False]
    assert crew.join(0.0) == ["aserve-worker-1", "aserve-worker-2"]
    assert crew.name_of(idents(crew)[1]) == "aserve-worker-2"
    assert crew.name_of(0) == "a worker"


def test_aside(new):
    """Who steps aside makes room for another, is still known, and comes back if there is room."""
    crew = new(1, 1)
    crew.start()
    [first] = idents(crew)
    assert crew.step_aside(first) and crew.at_work == []
    assert crew.name_of(first) == "aserve-worker-1"
    assert start(crew, 2) == [True, False]
    assert crew.join(0.0) == ["aserve-worker-2", "aserve-worker-1"]
    assert not crew.come_back(first)  # its place is taken: it must end
    assert crew.aside == {} and crew.join(0.0) == ["aserve-worker-2"]
    [second] = idents(crew)
    assert crew.step_aside(second) and crew.come_back(second) and idents(crew) == [second]


def test_nobody_in_the_place(new):
    """Who finds nobody else at work stays."""
    crew = new(1, 1)
    crew.start()
    [first] = idents(crew)
    assert crew.step_aside(first) and crew.stay(first) and (idents(crew), crew.aside) == ([first], {})
    crew.step_aside(first)
    crew.start()
    assert not crew.stay(first) and list(crew.aside) == [first]


def test_back_when_the_others_have_ended():
    """Threads that have ended take no place."""
    gates = [threading.Event(), threading.Event()]
    waiting = iter(gates)
    crew = Crew(lambda: next(waiting).wait(PATIENCE_SECONDS), 1, 1)
    crew.start()
    [first] = idents(crew)
    crew.step_aside(first)
    crew.start()
    gates[1].set()
    crew.at_work[0].join(PATIENCE_SECONDS)
    assert crew.come_back(first) and crew.join(0.0) == ["aserve-worker-1"]
    gates[0].set()
    assert crew.join(PATIENCE_SECONDS) == []


def test_who_is_none_of_ours(new):
    """A thread of the app's cannot step aside."""
    crew = new(1, 1)
    crew.start()
    assert not crew.step_aside(threading.get_ident()) and crew.aside == {}


def test_too_many_aside(new, caplog):
    """The limit of those aside is told once, until all have come back."""
    crew = new(2, 1)
    start(crew, 2)
    first, second = idents(crew)
    for _ in range(2):
        assert crew.step_aside(first)
        assert not crew.step_aside(second) and not crew.step_aside(second)
        assert crew.come_back(first)
    assert caplog.text.count("1 responses outrun their readers") == 2
    assert caplog.text.count("--extra-threads") == 2


def test_nobody_may_step_aside(new, caplog):
    """Without extra threads all keep their places, and that is no news."""
    crew = new(1)
    crew.start()
    assert not crew.step_aside(idents(crew)[0]) and caplog.text == ""


@pytest.mark.parametrize("is_aside", [False, True])
def test_written_off(new, is_aside):
    """Who is written off is counted apart, wherever it was."""
    crew = new(1, 1)
    crew.start()
    [first] = idents(crew)
    if is_aside:
        crew.step_aside(first)
    crew.write_off(first)
    assert (crew.at_work, crew.aside, crew.stuck, crew.written_off_count) == ([], {}, ["aserve-worker-1"], 1)
    crew.write_off(0)  # nobody
    assert crew.written_off_count == 1
    assert start(crew, 2) == [True, False] and crew.join(0.0) == ["aserve-worker-2"]


def refuse(_):
    raise RuntimeError("can't start new thread")


def test_the_system_gives_no_more(new, monkeypatch, caplog):
    """What there is must do: it is not tried again, and nobody steps aside any more."""
    crew = new(2, 2)
    crew.start()
    [first] = idents(crew)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not crew.start()
    assert not crew.start() and not crew.step_aside(first)
    assert [record.getMessage() for record in caplog.records] == [
        "cannot start worker 2: can't start new thread; going on with 1"
    ]


def test_not_even_one(new, monkeypatch):
    """Without a single worker there is no service: that is not hidden."""
    crew = new(2)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        crew.start()
