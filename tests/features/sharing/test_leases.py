"""A lease has one owner, is renewed, ends with its host, and a loss is told."""

import os
import threading

import pytest

from aserve.features.sharing import leases as module
from aserve.features.sharing import store as store_module
from aserve.features.sharing.leases import LEASE_SECONDS, Leases
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import Away, Store


@pytest.fixture
def new(store_server, monkeypatch):
    """Make the leases of one host: new() -> Leases; no thread renews them."""
    monkeypatch.setattr(Leases, "_run", lambda self: None)
    made = []

    def new_():
        made.append(Leases(Store(Shared(store_server.url, "shop"))))
        return made[-1]

    yield new_
    for leases in made:
        leases.end()
        leases._store.end()


def seconds_of(server, key="shop:a"):
    return int(server.ask("PTTL", key)[1:]) / 1000


def test_one_has_it(new, store_server):
    one, two = new(), new()
    lease = one.take(b"shop:a", "the first")
    assert lease is not None and two.take(b"shop:a", "the second") is None
    assert 0 < seconds_of(store_server) <= LEASE_SECONDS
    assert one.let_go(lease) and not one.let_go(lease)
    assert two.let_go(two.take(b"shop:a", "the second"))


def test_a_renewed_lease_lasts(new, store_server):
    leases = new()
    lease = leases.take(b"shop:a", "it")
    store_server.ask("PEXPIRE", "shop:a", "5000")
    until = lease.until
    assert leases.renew() and seconds_of(store_server) > 5 and lease.until > until


def test_a_lost_lease_is_told(new, store_server, caplog):
    """Another host has the lease, as it was not renewed in time: the log says so once, and the owner is told when letting go."""
    one, two = new(), new()
    first, second = one.take(b"shop:a", "the lock"), one.take(b"shop:b", "the other")
    store_server.ask("DEL", "shop:a", "shop:b")
    assert two.take(b"shop:a", "mine") is not None
    assert one.renew() and caplog.text.count("the lock is lost: ") == 1
    assert not one.let_go(first) and two.renew()
    assert caplog.text.count("is lost") == 2
    assert not one.let_go(second) and caplog.text.count("is lost") == 2


def test_lost_and_not_noticed(new, store_server, caplog):
    """The owner is the first to notice, when letting go."""
    leases = new()
    lease = leases.take(b"shop:a", "the lock")
    store_server.ask("DEL", "shop:a")
    assert not leases.let_go(lease) and caplog.text.count("the lock is lost: ") == 1


def test_a_lease_lasts_while_the_store_is_away(new, store_server, monkeypatch, caplog):
    """While nobody answers the lease is ours until its end, and not longer."""
    monkeypatch.setattr(store_module.threading.Thread, "start", lambda thread: None)
    leases = new()
    first, second = leases.take(b"shop:a", "the lock"), leases.take(b"shop:b", "the other")
    store_server.kill()
    with pytest.raises(Away):
        leases.take(b"shop:c", "none")
    assert not leases.renew() and leases.let_go(first)
    second.until = 0.0
    assert not leases.renew() and not leases.let_go(second)
    assert caplog.text.count("is lost") == 1 and "the other is lost" in caplog.text


def test_the_end_of_a_process(store_server):
    """All leases are let go, and the thread ends."""
    leases = Leases(Store(Shared(store_server.url, "shop")))
    leases.take(b"shop:a", "it")
    thread = leases._thread
    leases.end()
    thread.join(20)
    assert store_server.ask("EXISTS", "shop:a") == b":0\r\n" and not thread.is_alive()


def test_a_forked_child_has_no_lease(new, store_server):
    leases = new()
    lease = leases.take(b"shop:a", "it")
    pid = os.fork()
    if not pid:
        try:
            leases.end()
            os._exit(0 if not leases.let_go(lease) else 1)
        finally:
            os._exit(2)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
    assert leases.let_go(lease)


def test_the_thread_renews_until_nothing_is_left(store_server, monkeypatch):
    """The thread renews again and again, sooner where nobody has answered, and ends when there is nothing to renew."""
    leases, slept = Leases(Store(Shared(store_server.url, "shop"))), []

    def wait(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            leases._held.clear()
        return False

    answers = iter([True, False])
    monkeypatch.setattr(leases, "renew", lambda: next(answers))
    leases._held["a lease"] = True
    leases._thread = threading.Thread(target=leases._run)
    monkeypatch.setattr(leases._ended, "wait", wait)
    thread = leases._thread
    thread.start()
    thread.join(20)
    assert slept == [module.RENEW_SECONDS, module.RENEW_SECONDS, module.AGAIN_SECONDS] and leases._thread is None


def test_a_finalizer_that_takes_a_lease(monkeypatch):
    """While the thread starts, the collector may run it; one thread renews both leases."""
    leases, started = Leases(Store(Shared("redis://127.0.0.1:1", "shop"))), []

    def start(thread):
        started.append(thread)
        leases.keep("of the finalizer")

    monkeypatch.setattr(module.Watcher, "start", start)
    keeper = threading.Thread(target=leases.keep, args=["a lease"], daemon=True)
    keeper.start()
    keeper.join(20)
    assert not keeper.is_alive() and len(started) == 1 and len(leases._held) == 2
    leases._held.clear()


def test_no_thread_still_gives_a_lease(new, monkeypatch):
    """A lease without a thread is one all the same; the next one asks for a thread again."""

    def start(thread):
        raise RuntimeError("can't start new thread")

    leases = new()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        lease = leases.take(b"shop:a", "it")
    assert leases._thread is None and leases.let_go(lease)
    leases.take(b"shop:a", "it")
    assert leases._thread is not None


def test_one_thread_renews_all_leases(new):
    leases = new()
    leases.take(b"shop:a", "it")
    thread = leases._thread
    leases.take(b"shop:b", "it")
    assert leases._thread is thread and thread.daemon
