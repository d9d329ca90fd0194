"""Of all hosts one runs a tick, once; missed ticks are made up for, as far as sensible."""

import pytest

from aserve.compat.uwsgi_api.schedules import Cron, Ticks
from aserve.compat.uwsgi_api.turns import AHEAD_SECONDS, OwnTurns
from aserve.features.sharing.leases import Leases
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import Store, StoreError

NOW = 1_000_000 * 60.0
EACH_MINUTE = Cron(-1, -1, -1, -1, -1)


@pytest.fixture
def new(store_server):
    """Make the turns of one process: new() -> Turns; new(at, schedule): looks then for the first time."""
    made = []

    def new_(at=None, schedule=None):
        store = Store(Shared(store_server.url, "shop"))
        made.append(OwnTurns(store, Leases(store)))
        if at is not None:
            assert made[-1].take("f", schedule, at) is None
        return made[-1]

    yield new_
    for turns in made:
        turns.leases.end()
        turns._store.end()


def run(turns, schedule, now):
    """Take a turn, and end the turn at once; return whether there was a turn."""
    lease = turns.take("f", schedule, now)
    return lease is not None and turns.leases.let_go(lease)


@pytest.mark.parametrize(("schedule", "seconds"), [(EACH_MINUTE, 60), (Ticks(60.0), 60), (Ticks(0.5), 0.5)])
def test_one_of_all(new, schedule, seconds):
    """Each tick is one's; the start's is nobody's."""
    one, two = new(NOW, schedule), new(NOW + seconds / 4, schedule)
    assert not run(one, schedule, NOW + seconds / 2)
    for number in range(1, 4):
        now = NOW + number * seconds
        assert not one.is_due("f", schedule, now - seconds / 4) and one.is_due("f", schedule, now)
        first, second = (one, two) if number % 2 else (two, one)
        assert run(first, schedule, now) and not run(second, schedule, now) and not run(first, schedule, now + 0.1)
        assert not first.is_due("f", schedule, now)


def test_each_has_its_own(new):
    turns = new()
    for name, schedule in (("f", Ticks(60)), ("g", Ticks(60)), ("f:1", Ticks(30))):
        assert turns.take(name, schedule, NOW) is None
        assert turns.take(name, schedule, NOW + 60) is not None


def test_not_twice_at_a_time(new):
    """While a tick runs on a host, the next tick waits; waiting ticks are a single tick."""
    one, two = new(NOW, Ticks(60)), new(NOW, Ticks(60))
    lease = one.take("f", Ticks(60), NOW + 60)
    assert two.take("f", Ticks(60), NOW + 60) is None
    assert two.take("f", Ticks(60), NOW + 120) is None and two.take("f", Ticks(60), NOW + 180) is None
    one.leases.let_go(lease)
    assert run(two, Ticks(60), NOW + 181) and not run(one, Ticks(60), NOW + 182)


def test_a_host_that_is_gone(new, store_server):
    """The gone host's run is cut off, and further hosts run the next; here the gone host is not heard of any more."""
    one, two = new(NOW, Ticks(60)), new(NOW, Ticks(60))
    lease = one.take("f", Ticks(60), NOW + 60)
    one.leases._held.clear()
    (key,) = [key for keys in one._store.scan(b"shop:") for key in keys if key.endswith(b":runs")]
    store_server.ask("DEL", key.decode())  # its time is over
    assert not run(two, Ticks(60), NOW + 61) and run(two, Ticks(60), NOW + 120)
    assert not one.leases.let_go(lease)


def test_all_were_away(new):
    """A minute without any look is made up for, once, by the first to come."""
    before = new(NOW, EACH_MINUTE)
    at_three = EACH_MINUTE
    assert run(before, at_three, NOW + 60)
    after, other = new(), new()
    assert run(after, at_three, NOW + 200) and not run(other, at_three, NOW + 200)


def test_nobody_answers_and_the_tick_stays(new, store_server):
    """The question is repeated; a taken tick with a lost answer is still its taker's."""
    one, two = new(NOW, Ticks(60)), new(NOW, Ticks(60))
    before = one._store.run

    def run_and_lose_the_answer(*arguments):
        before(*arguments)
        raise StoreError

    one._store.run = run_and_lose_the_answer
    assert one.take("f", Ticks(60), NOW + 60) is None
    one._store.run = before
    assert two.take("f", Ticks(60), NOW + 60) is None and run(one, Ticks(60), NOW + 61)
    store_server.kill()
    assert new().take("f", Ticks(60), NOW) is None
    assert two.take("f", Ticks(60), NOW + 120) is None and two.is_due("f", Ticks(60), NOW + 120)
    store_server.start()
    two._store._away_since = None
    assert run(two, Ticks(60), NOW + 121)


def test_what_was_there_is_forgotten(new, store_server):
    """A server back without data makes nobody run a settled tick, nor leave out a due tick."""
    one, two = new(NOW, Ticks(60)), new(NOW, Ticks(60))
    assert run(one, Ticks(60), NOW + 60) and not run(two, Ticks(60), NOW + 60)
    store_server.ask("FLUSHALL")
    assert not run(one, Ticks(60), NOW + 61) and not run(two, Ticks(60), NOW + 61)
    assert run(two, Ticks(60), NOW + 120) and not run(one, Ticks(60), NOW + 120)


def test_a_clock_that_was_wrong(new):
    """A tick of the far future stops nobody: neither further hosts, nor a later beginner, nor the taker with a clock set back."""
    one, two = new(NOW, Ticks(60)), new(NOW, Ticks(60))
    assert run(one, Ticks(60), NOW + 2 * AHEAD_SECONDS)
    late = new(NOW + 1, Ticks(60))
    assert run(two, Ticks(60), NOW + 60)
    assert not run(one, Ticks(60), NOW + 90) and run(one, Ticks(60), NOW + 120)
    assert run(late, Ticks(60), NOW + 180)
