"""uwsgi.lock of all hosts: a single thread of all has the lock, and a loser is told."""

import os
import threading

import pytest

from aserve.compat.uwsgi_api import shared_locks as module
from aserve.compat.uwsgi_api.shared_locks import SharedLocks
from aserve.features.sharing.leases import Leases
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import Store


@pytest.fixture
def new(store_server):
    """Make the locks of one host: new() -> SharedLocks."""
    made = []

    def new_():
        store = Store(Shared(store_server.url, "shop"))
        made.append((store, Leases(store)))
        return SharedLocks(*made[-1])

    yield new_
    for store, leases in made:
        leases.end()  # a thread would renew the rest, and tell another test a loss
        store.end()


def test_one_has_it(new):
    """All hosts see the lock; only the owner can let the lock go."""
    one, two = new(), new()
    one.lock(7)
    assert one.is_locked(7) and two.is_locked(7) and not two.is_locked(8)
    two.unlock(7)
    assert two.is_locked(7)
    one.unlock(7)
    one.unlock(7)
    assert not two.is_locked(7)


@pytest.mark.parametrize("is_other_host", [False, True])
def test_a_second_thread_waits(new, is_other_host, monkeypatch):
    one = new()
    two = new() if is_other_host else one
    waits, goes_on = threading.Event(), threading.Semaphore(0)
    before = module.time.sleep

    def sleep(seconds):
        if threading.current_thread() is thread:
            waits.set()
            assert goes_on.acquire(timeout=20)
        else:
            before(seconds)

    monkeypatch.setattr(module.time, "sleep", sleep)
    thread = threading.Thread(target=two.lock, args=(1,))
    one.lock(1)
    thread.start()
    assert waits.wait(20)
    one.unlock(1)
    goes_on.release(10)
    thread.join(20)
    assert not thread.is_alive() and one.is_locked(1)
    two.unlock(1)


def test_an_interrupted_wait_stops_no_other(new, monkeypatch):
    one, two = new(), new()

    class Interrupt(BaseException):
        pass

    before = module.time.sleep

    def sleep(seconds):
        if threading.current_thread() is threading.main_thread():
            raise Interrupt
        before(seconds)  # of other tests

    one.lock(1)
    with monkeypatch.context() as patched:
        patched.setattr(module.time, "sleep", sleep)
        for locks in (one, two):
            with pytest.raises(Interrupt):
                locks.lock(1)
    one.unlock(1)
    two.lock(1)
    two.unlock(1)


def test_interrupted_when_it_is_taken(new):
    """The lock is let go, and not renewed for ever."""
    one, two = new(), new()

    class Interrupt(BaseException):
        pass

    def interrupted(function):
        def run(*arguments):
            function(*arguments)
            raise Interrupt

        return run

    leases = one._leases
    leases.take = interrupted(leases.take)
    two.lock(2)
    with pytest.raises(Interrupt):
        one.lock(1)
    del leases.take
    assert leases._held == {}
    two.lock(1)
    two.unlock(1)
    one.lock(1)
    leases.let_go = interrupted(lambda lease: None)
    with pytest.raises(Interrupt):
        one.unlock(1)
    assert leases._held == one._first == one._taken == {}


def test_unlocked_twice_it_is_the_third_threads(new):
    """Two threads unlock at once, and a third thread locks in between: the lock is the third thread's, and no lock for ever."""
    one = new()
    one.lock(1)
    leases = one._leases

    def let_go(lease):
        del leases.let_go
        one.unlock(1)
        one.lock(1)
        return leases.let_go(lease)

    leases.let_go = let_go
    with pytest.raises(RuntimeError, match="lost"):
        one.unlock(1)
    one.unlock(1)
    assert leases._held == {} and not one.is_locked(1)


def test_a_lost_lock_is_told_by_unlock(new, store_server):
    one, two = new(), new()
    one.lock(1)
    store_server.ask("FLUSHALL")
    two.lock(1)
    with pytest.raises(RuntimeError, match="lock 1 was lost before"):
        one.unlock(1)
    assert two.is_locked(1)
    two.unlock(1)
    one.lock(1)
    one.unlock(1)


def test_an_absent_store_is_an_error(new, store_server):
    """Without the store the owner is unknown: an error; an own lock can be let go."""
    locks = new()
    locks.lock(2)
    store_server.kill()
    with pytest.raises(ConnectionError):
        locks.lock(1)
    with pytest.raises(ConnectionError):
        locks.is_locked(1)
    locks.unlock(2)
    assert locks._first == {}


def test_no_such_lock(new):
    locks = new()
    for call in (locks.lock, locks.unlock, locks.is_locked):
        with pytest.raises(ValueError, match="there is no lock 256"):
            call(256)


def test_a_forked_child_has_no_lock(new):
    locks = new()
    locks.lock(1)
    pid = os.fork()
    if not pid:
        try:
            locks.unlock(1)
            os._exit(0 if locks.is_locked(1) else 1)
        finally:
            os._exit(2)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
    locks.unlock(1)
