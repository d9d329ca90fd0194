"""The number of workers follows the load: --max-workers."""

import types

import pytest
from harness.interpreter import NEEDS_LINUX

from aserve.core.page import Field
from aserve.features import Config
from aserve.features.scaling import CALM_SECONDS, FULL_SECONDS, NEXT_SECONDS, Scaling
from aserve.lifecycle.supervision import SupervisorContext
from aserve.settings import ConfigError

pytestmark = NEEDS_LINUX


def page(busy=0, waiting=0, lately=0, ticked=1):
    """Return a worker's page; without `ticked` it has not yet."""
    fields = {Field.THREADS_BUSY: busy, Field.WAITING: waiting, Field.THREADS_BUSY_LATELY: lately}
    return {**dict.fromkeys(fields, 0), **(fields if ticked else {}), Field.TICKED_AT: ticked}


FULL, IDLE, YOUNG = page(busy=1, lately=1000), page(), page(ticked=0)


@pytest.mark.parametrize(
    ("settings", "is_of_one"),
    [({}, True), ({"max_workers": 1}, True), ({"max_workers": 3}, False), ({"workers": "auto"}, False)],
)
def test_whether_one_process_serves(settings, is_of_one):
    """A number that follows the load or the machine may grow while a worker serves."""
    assert Config(**{"workers": 1, **settings}).is_of_one is is_of_one


class Scaled:
    """A supervisor of 2 to 4 workers, each of one thread."""

    def __init__(self):
        self.config = Config(workers=2, max_workers=4, threads=1)
        self.process_count, self.is_draining, self.log = 2, False, []
        self.page = IDLE  # of all
        self.others = {}  # by slot: the page of this one, or a state, or None: it has no process
        self.part = Scaling(self.config).supervise(SupervisorContext(self, {}, None, None, resize=self._resize))

    def _resize(self, size, why):
        self.process_count = size
        self.log.append(why)

    def processes(self):
        """See Observed."""
        shown = {slot: self.others.get(slot, self.page) for slot in range(1, self.process_count + 1)}
        return [
            types.SimpleNamespace(slot=slot, page=YOUNG, state=one)
            if isinstance(one, str)
            else types.SimpleNamespace(slot=slot, page=one, state="ready")
            for slot, one in shown.items()
            if one is not None
        ]

    def second(self, count=1):
        """Let so many seconds pass; return the number of workers."""
        for _ in range(count):
            self.part.on_second()
        return self.process_count


@pytest.fixture
def scaled():
    return Scaled()


def test_more_start_while_all_are_busy(scaled):
    """While all are busy there is one more, and the next when that is busy too, up to the most; a short rush needs none."""
    scaled.page = FULL
    assert scaled.second(FULL_SECONDS) == 2 and scaled.second() == 3
    scaled.others = {3: "starting"}
    assert scaled.second(5) == 3
    scaled.others = {3: YOUNG}
    assert scaled.second() == 3
    scaled.others = {}
    assert scaled.second() == 4 and scaled.second(10) == 4
    assert scaled.log == ["all 2 workers are busy", "all 3 workers are busy"]


def test_one_that_is_not_busy(scaled):
    """The seconds begin anew when a thread is free."""
    scaled.page = FULL
    scaled.second(FULL_SECONDS)
    scaled.others = {2: IDLE}
    assert scaled.second(10) == 2
    scaled.others = {}
    assert scaled.second(FULL_SECONDS) == 2 and scaled.second() == 3


def test_an_only_worker_is_told_in_words(scaled):
    scaled.config = Config(workers=1, max_workers=4, threads=1)
    scaled.process_count, scaled.page = 1, FULL
    assert scaled.second(FULL_SECONDS + 1) == 2 and scaled.log == ["the only worker is busy"]


def test_fewer_remain_after_a_calm_minute(scaled):
    """After a calm minute one ends, and another every ten seconds, down to the least; not while the others are needed."""
    scaled.process_count, scaled.page = 4, page(lately=600)
    assert scaled.second(10 * CALM_SECONDS) == 4
    scaled.page = page(lately=500)
    assert scaled.second() == 3 and scaled.log == ["2.0 of 4 threads are busy"]
    scaled.page = IDLE
    assert scaled.second(NEXT_SECONDS - 1) == 3 and scaled.second() == 2
    assert scaled.second(5 * CALM_SECONDS) == 2


def test_calm_begins_anew_with_each_wait(scaled):
    """A waiting request, or a second in which all are busy, begins the minute anew; at the least number there is none."""
    scaled.second(10 * CALM_SECONDS)
    scaled.page = FULL
    assert scaled.second(FULL_SECONDS + 1) == 3
    for one in (page(waiting=1), FULL):
        scaled.page, scaled.others = one, {1: page(waiting=1)}
        scaled.second()
        scaled.page, scaled.others = IDLE, {}
        assert scaled.second(CALM_SECONDS) == 3
    assert scaled.second() == 2


@pytest.mark.parametrize(("number", "busy", "then"), [(4, IDLE, 3), (3, FULL, 4), (6, FULL, 4)])
def test_a_number_by_hand_stays_a_minute(scaled, number, busy, then):
    """A number set by hand stays for a minute, however long the calm before, and whatever the load."""
    scaled.second(10 * CALM_SECONDS)
    scaled.process_count, scaled.page = number, busy
    assert scaled.second(CALM_SECONDS) == number
    assert scaled.second() == then and (number != 6 or scaled.log == ["--max-workers 4"])


def test_one_that_cannot_start(scaled):
    """The worker is given up when its slot was empty for a minute, and is added again after another; a slow start is none."""
    scaled.page = FULL
    scaled.second(FULL_SECONDS + 1)
    scaled.others = {3: "starting"}
    assert scaled.second(10 * CALM_SECONDS) == 3
    for _ in range(CALM_SECONDS):
        scaled.others = {3: "starting"}
        scaled.second()
        scaled.others = {3: None}
        assert scaled.second() == 3
    assert scaled.second() == 2 and scaled.log[1:] == ["worker 3 cannot start"]
    assert scaled.second(CALM_SECONDS - 1) == 2 and scaled.second() == 3
    scaled.process_count = 2
    scaled.others = {2: None}
    assert scaled.second(5 * CALM_SECONDS) == 2  # one of the least number is tried for ever


def test_fewer_while_one_cannot_start(scaled):
    """Others end when not needed; not while a worker starts, as in a reload."""
    scaled.process_count, scaled.others = 4, {3: None}
    assert scaled.second(CALM_SECONDS) == 4 and scaled.second() == 3
    scaled.process_count, scaled.others = 4, {3: "starting"}
    assert scaled.second(5 * CALM_SECONDS) == 4


def test_others_change_it(scaled):
    """While all end, the number stays."""
    scaled.page, scaled.is_draining = FULL, True
    assert scaled.second(10) == 2


def test_a_reload_keeps_added_workers(scaled):
    """Added workers stay; both numbers may change, and the option may be turned on and off."""
    scaled.process_count = 4
    scaled.second()
    for workers, most, size in [(3, 4, 4), (3, 3, 3), (6, 8, 6), (1, 8, 4)]:
        scaled.config = Config(workers=workers, max_workers=most, threads=1)
        assert scaled.config.workers_after(workers, 4) == size
        scaled.process_count = 4
    scaled.config = Config(workers=3, max_workers=3, threads=1)
    assert scaled.second() == 3 and scaled.log == ["--max-workers 3"]
    scaled.process_count = 4
    scaled.config = Config(workers=2, threads=1)
    assert scaled.config.workers_after(2, 4) == 2
    assert scaled.second() == 2 and scaled.log[1:] == ["--workers 2"]
    scaled.process_count = 4
    assert scaled.second(2) == 4  # set by hand
    scaled.config, scaled.page = Config(workers=2, max_workers=6, threads=1), FULL
    assert scaled.second(FULL_SECONDS + 1) == 5
    scaled.config = Config(workers="auto", threads=1)
    assert scaled.second() == 5


@pytest.mark.parametrize("workers", ["auto", 5])
def test_mistakes_in_the_numbers_are_told(workers):
    with pytest.raises(ConfigError, match=rf"^--max-workers \(4\) with --workers {workers}: name a number"):
        Scaling(Config(workers=workers, max_workers=4))
    with pytest.raises(ConfigError, match="counts busy threads"):
        Scaling(Config(workers=1, max_workers=4, threads=0))
    assert Scaling.is_on(Config(workers=1, max_workers=2)) and not Scaling.is_on(Config())


def test_off_still_has_a_supervisors_part(scaled):
    """The option has a part in a supervisor all the same, as a reload may turn it on."""
    scaled.config = Config(workers=2, threads=1)
    assert Scaling.is_supervised(scaled.config) and Scaling(scaled.config)
    scaled.page = FULL
    assert scaled.second(10) == 2
