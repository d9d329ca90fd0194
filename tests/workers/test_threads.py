"""The threads of an executor: never more than may be, and each counted once."""

import threading
import time

import pytest

from aserve.workers.threads import OwnThread, Watcher, WorkerThreads

PATIENCE_SECONDS = 30


@pytest.fixture
def new():
    """Make threads that wait for the end of the test."""
    end = threading.Event()
    made = []

    def make(max_threads, extra_threads=0):
        made.append(WorkerThreads(lambda: end.wait(PATIENCE_SECONDS), max_threads, extra_threads))
        return made[-1]

    yield make
    end.set()
    for threads in made:
        assert threads.join(PATIENCE_SECONDS) == []


def start(threads, count):
    return [threads.start() for _ in range(count)]


def idents(threads):
    return [thread.ident for thread in threads.at_work]


def test_at_most_so_many(new):
    """Workers have names in the order of their start; there are no more than may be."""
    threads = new(2)
    assert start(threads, 3) == [True, True, False]
    assert threads.join(0.0) == ["aserve-worker-1", "aserve-worker-2"]
    assert threads.name_of(idents(threads)[1]) == "aserve-worker-2"
    assert threads.name_of(0) == "a worker"


def test_a_yielding_thread_makes_room(new):
    """A yielding thread makes room for another, is still known, and comes back if there is room."""
    threads = new(1, 1)
    threads.start()
    [first] = idents(threads)
    assert threads.compensate(first) and threads.at_work == []
    assert threads.name_of(first) == "aserve-worker-1"
    assert start(threads, 2) == [True, False]
    assert threads.join(0.0) == ["aserve-worker-2", "aserve-worker-1"]
    assert not threads.regain_slot(first)  # its place is taken: it must end
    assert threads.compensated == {} and threads.join(0.0) == ["aserve-worker-2"]
    [second] = idents(threads)
    assert threads.compensate(second) and threads.regain_slot(second) and idents(threads) == [second]


def test_a_set_aside_thread_makes_room(new):
    """A set-aside thread makes room for another, beyond the yielding ones, and comes back as they do."""
    threads = new(1, 0)
    for _ in range(3):
        threads.start()
        [first] = idents(threads)
        assert threads.set_aside(first) and not threads.set_aside(first) and threads.at_work == []
    assert threads.counts(0)[2:6] == (0, 0, 0, 3) and not threads.compensate(first)
    assert threads.regain_slot(first) and threads.counts(0)[5] == 2
    assert threads.set_aside(first) and threads.keep_slot(first) and threads.counts(0)[5] == 2
    assert len(threads.join(0.0)) == 3


def test_nobody_in_the_place(new):
    """Without others at work a thread stays."""
    threads = new(1, 1)
    threads.start()
    [first] = idents(threads)
    assert (
        threads.compensate(first)
        and threads.keep_slot(first)
        and (idents(threads), threads.compensated) == ([first], {})
    )
    threads.compensate(first)
    threads.start()
    assert not threads.keep_slot(first) and list(threads.compensated) == [first]


def test_back_when_the_others_have_ended():
    """Threads that have ended take no place."""
    gates = [threading.Event(), threading.Event()]
    waiting = iter(gates)
    threads = WorkerThreads(lambda: next(waiting).wait(PATIENCE_SECONDS), 1, 1)
    threads.start()
    [first] = idents(threads)
    threads.compensate(first)
    threads.start()
    gates[1].set()
    threads.at_work[0].join(PATIENCE_SECONDS)
    assert threads.regain_slot(first) and threads.join(0.0) == ["aserve-worker-1"]
    gates[0].set()
    assert threads.join(PATIENCE_SECONDS) == []


def test_who_is_none_of_ours(new):
    """A thread of the app's cannot yield."""
    threads = new(1, 1)
    threads.start()
    assert not threads.compensate(threading.get_ident()) and threads.compensated == {}


def test_too_many_compensated(new, caplog):
    """The limit of compensations is told once, until all have come back."""
    threads = new(2, 1)
    start(threads, 2)
    first, second = idents(threads)
    for _ in range(2):
        assert threads.compensate(first)
        assert not threads.compensate(second) and not threads.compensate(second)
        assert threads.regain_slot(first)
    assert caplog.text.count("1 responses outrun their readers") == 2
    assert caplog.text.count("--extra-threads") == 2


def test_the_limit_is_not_told_anew_while_others_are_compensated(new, caplog):
    """One that comes back is not the end of it."""
    threads = new(3, 2)
    start(threads, 3)
    first, second, third = idents(threads)
    assert threads.compensate(first) and threads.compensate(second) and not threads.compensate(third)
    assert threads.regain_slot(first)
    assert threads.compensate(first) and not threads.compensate(third)
    assert caplog.text.count("outrun their readers") == 1


def test_nobody_may_yield(new, caplog):
    """Without extra threads all keep their places, and that is no news."""
    threads = new(1)
    threads.start()
    assert not threads.compensate(idents(threads)[0]) and caplog.text == ""


@pytest.mark.parametrize("is_compensated", [False, True])
def test_a_written_off_thread_is_counted_apart(new, is_compensated):
    threads = new(1, 1)
    threads.start()
    [first] = idents(threads)
    if is_compensated:
        threads.compensate(first)
    threads.write_off(first)
    assert (threads.at_work, threads.compensated, threads.stuck, threads.written_off_count) == (
        [],
        {},
        ["aserve-worker-1"],
        1,
    )
    threads.write_off(0)  # nobody
    assert threads.written_off_count == 1
    assert start(threads, 2) == [True, False] and threads.join(0.0) == ["aserve-worker-2"]


def refuse(_):
    raise RuntimeError("can't start new thread")


def test_the_system_gives_no_more(new, monkeypatch, caplog):
    """The present threads must do: for a second no other is tried, and nobody yields any more."""
    threads = new(2, 2)
    threads.start()
    [first] = idents(threads)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not threads.start()
    assert not threads.start() and not threads.compensate(first)
    assert [record.getMessage() for record in caplog.records] == [
        "cannot start worker 2: can't start new thread; going on with 1"
    ]


def test_lines_are_logged_without_the_lock(new, monkeypatch, caplog):
    """A handler of the app's may take long: no other worker starts, yields or comes back under the lock."""
    held, threads = [], new(2, 1)
    monkeypatch.setattr(caplog.handler, "emit", lambda record: held.append(threads._lock.locked()))
    start(threads, 2)
    first, second = idents(threads)
    assert threads.compensate(first) and not threads.compensate(second)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert not threads.start() and held == [False, False]


def test_the_system_gives_more_later(new, monkeypatch, caplog):
    """Each second one more is tried; the counts tell the lack, until there are all, or a minute has passed."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    threads = new(4, 2)
    threads.start()
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(3):
                now[0] += 2
                assert not threads.start() and threads.counts(0).lacking == 4 - len(threads.at_work)
        now[0] += 2
        assert threads.start() and threads.counts(0).lacking == 0
    assert len(caplog.records) == 2 and len(threads.at_work) == 3
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        now[0] += 2
        assert not threads.start() and threads.counts(0).lacking == 1
    now[0] += 61
    assert threads.counts(0).lacking == 0


def test_the_place_of_one_that_is_written_off(new, monkeypatch):
    """Its place can be taken at once, though the system gave no further thread just now."""
    threads = new(3)
    assert start(threads, 2) == [True, True]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not threads.start()
    threads.write_off(idents(threads)[0])
    assert start(threads, 2) == [True, False] and threads.counts(0).lacking == 1


def test_not_even_one(new, monkeypatch):
    """Without a single worker there is no service: that is not hidden."""
    threads = new(2)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        threads.start()


def test_what_a_worker_starts():
    """The interpreter does not wait for a worker, but its own threads are Python's default: no daemons."""
    found = []

    def work():
        found.append(threading.Thread(target=int).daemon)

    thread = OwnThread(work, "ours")
    assert thread.daemon  # as it starts: so it is not joined at exit
    thread.start()
    thread.join()
    assert found == [False]


def test_a_watcher_is_a_daemon():
    seen = []
    watcher = Watcher(lambda: seen.append(threading.current_thread()), "a-watcher")
    watcher.start()
    watcher.join(PATIENCE_SECONDS)
    assert seen == [watcher] and watcher.daemon and watcher.name == "a-watcher"
