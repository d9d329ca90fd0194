"""Jobs shared by hosts: a single host does each job, and a gone host leaves the job to another."""

import select
import threading
import time

import pytest
from harness.stores import SERVERS

from aserve.compat.uwsgi_api.spooler import queues as module
from aserve.compat.uwsgi_api.spooler.queues import Queue
from aserve.compat.uwsgi_api.spooler.runner import SPOOL_OK, Spooler
from aserve.features.sharing.leases import LEASE_SECONDS, Leases
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import Store, StoreError

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def new(store_server, monkeypatch):
    """Make a host's queue: new() -> Queue; no thread renews the leases."""
    monkeypatch.setattr(Leases, "_run", lambda self: None)
    stores = []

    def new_(name="shared:mail"):
        stores.append(Store(Shared(store_server.url, "shop")))
        return Queue(name, stores[-1], Leases(stores[-1]))

    yield new_
    for store in stores:
        store.end()


def no_fault(*what):
    raise AssertionError(what)


def due(queue):
    """Return the paths of due jobs, in order."""
    return [job.path for job in queue.jobs(no_fault) if job.path]


def age(server, seconds):
    """Let time pass for the only job."""
    (name,) = server.ask("ZRANGE", "shop:jobs:mail:due", "0", "-1").split(b"\r\n")[2:3]
    server.ask("ZINCRBY", "shop:jobs:mail:due", str(-seconds), name.decode())


def test_a_put_job_is_found_by_all_hosts(new):
    one, two, other = new(), new(), new("shared:other")
    path = one.put({b"n": b"\xff"}, b"body")
    assert path.startswith("shared:mail/") and two.paths() == due(two) == [path] and other.paths() == due(other) == []
    assert two.read(path) == ({b"n": b"\xff"}, b"body")
    with pytest.raises(ValueError, match="no head"):
        two.read("shared:mail/none")
    with pytest.raises(ValueError, match="no priority"):
        one.put({}, priority="first")


def test_jobs_come_by_priority_then_due_time(new):
    queue = new()
    last, second, first = queue.put({}), queue.put({}, priority="5"), queue.put({}, priority="4")
    third = queue.put({}, priority="5")
    assert due(queue) == [first, second, third, last]


def test_a_later_job_is_known_with_its_time(new, store_server):
    queue = new()
    path = queue.put({}, at=time.time() + 1000)
    (next_one,) = queue.jobs(no_fault)
    assert due(queue) == [] and queue.paths() == [path] and 900 < next_one.at - time.time() <= 1000
    assert queue.take(path, 0) is None
    age(store_server, 1001)
    assert due(queue) == [path] and queue.take(path, 0) is not None


def test_one_does_it(new):
    """The host removes the job; no further host has the job meanwhile."""
    one, two = new(), new()
    path = one.put({b"n": b"1"}, b"body")
    job = one.take(path, time.time())
    assert (job.values, job.body) == ({b"n": b"1"}, b"body") and two.take(path, 0) is None and due(two) == []
    job.remove()
    job.close()
    assert two.paths() == [] and two.take(path, 0) is None and one._store.ask("KEYS", "shop:jobs:*") == []


def test_a_running_job_is_renewed(new, store_server):
    queue = new()
    job = queue.take(queue.put({}), time.time())
    age(store_server, LEASE_SECONDS - 1)
    assert queue._leases.renew()
    age(store_server, LEASE_SECONDS - 1)
    assert due(queue) == []
    job.put_off(time.time(), 1000)
    assert queue._leases.renew()
    age(store_server, 900)
    assert due(queue) == []
    age(store_server, 100)
    assert due(queue) == [job.path]


def test_a_host_that_is_gone(new, store_server, caplog):
    """Another host does the job; the first host, if merely slow, does not remove the job from under the second."""
    one, two = new(), new()
    path = one.put({})
    first = one.take(path, time.time())
    age(store_server, LEASE_SECONDS)
    second = two.take(path, time.time())
    first.remove()
    assert second is not None and two.paths() == [path] and caplog.text.count(f"the job {path} is lost") == 1
    first.put_off(time.time(), 0)
    first.close()
    assert due(two) == [] and caplog.text.count("is lost") == 1
    second.remove()
    assert two.paths() == []


def test_renewed_when_it_is_done(new, caplog):
    """A renewal just behind the removal tells no loss; a host that removes a job done by another is told."""
    one = new()
    job = one.take(one.put({}), time.time())
    job.remove()
    assert one._leases.renew() and caplog.text == ""
    job.remove()
    assert f"the job {job.path} is lost" in caplog.text


def test_a_job_put_off_waits_longer_each_time(new, store_server):
    """First for a second, but not sooner than another may take the job; then as long as the job has been due."""
    queue = new()
    path = queue.put({})
    job = queue.take(path, time.time())
    assert job.put_off(time.time()) == 1.0 and queue.take(path, 0) is None
    age(store_server, LEASE_SECONDS - 1)
    assert due(queue) == []
    assert job.put_off(time.time() + 500) > 499 and job.next_at > time.time() + 900
    assert job.put_off(time.time(), 0.0) == 0.0 and due(queue) == [path]


def test_an_unreadable_job_stops_no_other(new, store_server):
    """An unreadable job is an error, and not in the way of others."""
    queue = new()
    path = queue.put({})
    store_server.ask("HSET", "shop:jobs:mail:octets", path.partition("/")[2], "?")
    with pytest.raises(ValueError, match="no head"):
        queue.take(path, time.time())
    assert due(queue) == [] and queue.paths() == [path] and queue._leases._held == {}


def test_no_job_and_nobody_answers(new, store_server, monkeypatch):
    """An unreadable job is let go of, too: it is due again soon."""
    queue = new()
    path = queue.put({})
    store_server.ask("HSET", "shop:jobs:mail:octets", path.partition("/")[2], "?")

    def fail(self, now, seconds):
        raise StoreError

    monkeypatch.setattr(module.QueuedJob, "put_off", fail)
    with pytest.raises(StoreError):
        queue.take(path, time.time())
    assert queue._leases._held == {}


def test_an_absent_store_is_told_to_callers(new, store_server):
    queue = new()
    path = queue.put({})
    store_server.kill()
    for call in (lambda: queue.put({}), queue.paths, lambda: queue.read(path)):
        with pytest.raises(ConnectionError):
            call()
    assert queue.jobs(no_fault) == [] and queue.take(path, 0) is None
    store_server.start()
    queue._store._away_since = None
    assert due(queue) == [path]


def test_done_while_it_is_away(new, store_server, monkeypatch):
    """The process tries until the server knows, so that the job is not done again."""
    queue = new()
    job = queue.take(queue.put({}), time.time())
    store_server.kill()
    slept = []

    def sleep(seconds):
        if seconds == module.AGAIN_SECONDS:
            slept.append(seconds)
            if len(slept) == 2:
                store_server.start()
                queue._store._away_since = None

    monkeypatch.setattr(module, "time", type("Time", (), {"sleep": staticmethod(sleep)}))
    job.remove()
    assert len(slept) == 2 and queue.paths() == []


def test_by_a_spooler(new):
    """Many jobs by two hosts at a time: each is done once."""
    queue, done = new(), []
    for number in range(40):
        queue.put({b"n": b"%d" % number})

    def do(values):
        done.append(values[b"n"])
        return SPOOL_OK

    spoolers = [Spooler(new(), lambda: do) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda spooler=spooler: [spooler.do_due() for _ in range(5)]) for spooler in spoolers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(int, done)) == list(range(40)) and queue.paths() == []
    assert 0.4 < spoolers[0].do_due() <= queue.look_seconds
    spoolers[0]._place.register(select.poll())
    spoolers[0].close()


def test_warnings_tell_a_forgetful_store(new, store_server, caplog):
    queue = new()
    queue.warn()
    assert caplog.text == ""
    store_server.ask("CONFIG", "SET", "appendonly", "no")
    store_server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    queue.warn()
    assert "appendonly is off" in caplog.text and "may remove jobs" in caplog.text
    store_server.kill()
    queue.warn()


@pytest.mark.parametrize("store_server", SERVERS, indirect=True)
def test_no_room_is_the_callers_error(new, store_server):
    """A lack of room is an error of the putting call; present jobs are done, which makes room."""
    queue = new()
    path = queue.put({})
    store_server.ask("CONFIG", "SET", "maxmemory", "1")
    job = queue.take(path, time.time())
    assert queue._leases.renew() and job.put_off(time.time()) == 1.0
    job.remove()
    assert queue.paths() == []
    with pytest.raises(StoreError, match="used memory"):
        queue.put({})
