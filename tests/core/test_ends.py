"""The ends of requests, told in batches: none is lost, none comes twice, and their order stays."""

import sys
import threading
import types

import pytest
from harness.fakes import FakeConnection

from aserve.core import ends as core_ends
from aserve.core.ends import Ends, Reader
from aserve.core.errors import RequestRefused
from aserve.core.exchange import Exchange


class Batches:
    """A reader that keeps its batches."""

    def __init__(self):
        self.told, self.refused = [], []

    def write(self, ended):
        self.told.append([each[3:5] for each in ended])

    def write_refused(self, connection, exchange, why):
        self.refused.append(why.status)

    @property
    def reader(self):
        return Reader(self, refused=self.write_refused)

    @property
    def all(self):
        return [status for batch in self.told for status, _ in batch]


def new_exchange(code=200, sent_bytes=0, **other):
    """Return an ending exchange."""
    exchange = Exchange("", 0)
    exchange.connection = FakeConnection()
    exchange.response = types.SimpleNamespace(code=code, sent_bytes=sent_bytes, head=b"X: y")
    for name, value in other.items():
        setattr(exchange, name, value)
    return exchange


def test_one_by_one():
    """While nothing waits, each is told at once, to every reader; one without a response, too."""
    first, second = Batches(), Batches()
    ends = Ends([first.reader, second.reader])
    ends.write(new_exchange(204, 5))
    ends.write(new_exchange(response=None))
    assert first.told == second.told == [[(204, 5)], [(0, 0)]]


def test_ends_wait_together_while_jobs_wait(monkeypatch):
    """While jobs wait, ends wait, too, up to a batch of the lane; or until the last job is done."""
    monkeypatch.setattr(core_ends, "_LONGEST", 60.0)  # however slow this machine is
    reader, waiting = Batches(), ["a job"]
    ends = Ends([reader.reader], waiting)
    for _ in range(core_ends.MOST - 1):
        ends.write(new_exchange())
    assert reader.told == []
    ends.write(new_exchange())
    assert len(reader.all) == len(reader.told[0]) == core_ends.MOST
    ends.write(new_exchange(201))
    waiting.clear()
    ends.write(new_exchange(202))
    assert reader.told[1:] == [[(201, 0), (202, 0)]]


@pytest.mark.parametrize(("took", "may_wait", "is_told"), [(0.4, True, False), (0.6, True, True), (0.4, False, True)])
def test_until_requests_cease(monkeypatch, took, may_wait, is_told):
    """A quick one of the lane waits, though no job does: `flush` is called behind it. Others have nobody for that."""
    monkeypatch.setattr(core_ends, "_monotonic", lambda: 100.0)
    reader = Batches()
    ends = Ends([reader.reader], soon=0.5)
    ends.write(new_exchange(arrived_at=100.0 - took), may_wait)
    assert bool(reader.told) == is_told
    ends.flush()
    assert reader.all == [200]


def test_not_for_long(monkeypatch):
    """With --threads 0 nobody looks while jobs are done in turn: an end later than a second tells all."""
    now = 100.0
    monkeypatch.setattr(core_ends, "_monotonic", lambda: now)
    reader = Batches()
    ends = Ends([reader.reader], ["a job"])
    for now in (100.0, 100.9, 101.0, 101.5, 102.4):
        ends.write(new_exchange())
    assert [len(batch) for batch in reader.told] == [3, 2]


class AtOnce:
    """A reader told of each end at once."""

    def __init__(self):
        self.codes, self.refused = [], []

    def reader(self, seconds=0.0):
        return Reader(
            at_end=(seconds, lambda exchange: self.codes.append(exchange.response.code)),
            refused=lambda connection, exchange, why: self.refused.append(why.status),
        )


def test_one_that_is_told_at_once():
    """Whatever waits; waiting ones are told before a refusal."""
    reader, at_once = Batches(), AtOnce()
    ends = Ends([at_once.reader(), reader.reader], ["a job"])
    ends.write(new_exchange())
    assert (reader.told, at_once.codes) == ([], [200])
    ends.write_refused(FakeConnection(), None, RequestRefused(413, "large"))
    assert (reader.told, reader.refused, at_once.refused) == ([[(200, 0)]], [413], [413])


def test_nothing_is_kept_for_nobody():
    """Where all are told at once, no end waits; nor does C note any."""
    at_once = AtOnce()
    ends = Ends([at_once.reader()])
    ends.write(new_exchange())
    ends.flush()
    assert at_once.codes == [200] and not ends._ends and ends.parts[:2] == (None, None)


@pytest.mark.parametrize(("asks", "head"), [(True, b"X: y"), (False, b"")])
def test_the_head_is_kept_if_asked(asks, head):
    told = []
    Ends([Reader(types.SimpleNamespace(write=told.append))], wants_head=asks).write(new_exchange())
    assert told[0][0][-1] == head


@pytest.mark.parametrize(("seconds", "codes"), [(1.9, [[], []]), (2.0, [[200], []]), (3.0, [[200], [200]])])
def test_those_that_are_slow(monkeypatch, seconds, codes):
    """Slow ones are told at once, with their response, to a reader of slow requests; others wait."""
    monkeypatch.setattr(core_ends, "_monotonic", lambda: 100.0)
    reader, slow, slower = Batches(), AtOnce(), AtOnce()
    ends = Ends([reader.reader, slow.reader(2.0), slower.reader(3.0)], ["a job"])
    ends.write(new_exchange(arrived_at=100.0 - seconds))
    assert [slow.codes, slower.codes] == codes and reader.told == [] and ends.parts[4] == 2.0


def test_a_reader_that_hangs(monkeypatch):
    """Others go on meanwhile, and their ends are told; very many wait, too."""
    monkeypatch.setattr(core_ends, "_TOO_MANY", 3)
    is_in, may_go, told = threading.Semaphore(0), threading.Semaphore(0), []

    def write(ended):
        told.append(len(ended))
        is_in.release()
        assert may_go.acquire(timeout=60)

    ends = Ends([Reader(types.SimpleNamespace(write=write))])
    threads = [threading.Thread(target=ends.write, args=[new_exchange()]) for _ in range(2)]
    threads[0].start()
    assert is_in.acquire(timeout=60)
    for _ in range(3):
        ends.write(new_exchange())
    assert told == [1]
    threads[1].start()  # the fourth: this thread waits
    may_go.release(3)  # the reader is told of the others at once, or of the fourth after the rest
    for thread in threads:
        thread.join(60)
    assert told[0] == 1 and sum(told) == 5 and not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("step", range(14))
def test_two_threads_lose_no_end(step):
    """Whatever step of a flush another thread's end comes at, none is lost, none comes twice, and they stay in order."""
    reader, steps, failures, others = Batches(), [], [], []
    ends = Ends([reader.reader], ["a job"])

    def write_elsewhere():
        try:
            ends.write(new_exchange(3))
            ends.flush()
        except BaseException as exc:
            failures.append(exc)

    def trace(frame, event, argument):
        steps.append(event)
        if len(steps) == step + 1:
            others.append(threading.Thread(target=write_elsewhere))
            others[0].start()
            others[0].join(60)  # it waits for nobody
        return trace

    for number in (0, 1, 2):
        ends.write(new_exchange(number))
    before = sys.gettrace()  # a measure of the tests' reach goes on afterwards
    sys.settrace(lambda frame, *_: trace if frame.f_code is Ends.flush.__code__ else None)
    try:
        ends.flush()
    finally:
        sys.settrace(before)
    assert failures == [] and reader.all == [0, 1, 2, 3][: 3 + len(others)]


class NativeEnds:
    """Ends of plain requests."""

    def __init__(self, ends):
        self.batch, self.counted, self._ends = None, [], ends

    @property
    def ends_waiting(self):
        return len(self.batch or ())

    def put_ends(self):
        if self.batch:
            batch, self.batch = self.batch, None
            self._ends.parts[0].append(batch)

    def take_counts(self):
        counted, self.counted = self.counted, []
        return counted, 0.0


class Log(Batches):
    """A reader whose lines are made elsewhere."""

    program = ("a program",)

    def write_lines(self, octets):
        self.told.append(octets)


class Numbers(Batches):
    """A reader whose counts are made elsewhere."""

    places, thread_seconds = (1,), 7.0

    def __init__(self):
        super().__init__()
        self.added = []

    def add(self, *found):
        self.added.append(found)


def test_plain_requests_are_told_in_order(monkeypatch):
    """The log is told of them in order, the counters of the rest only: counts made elsewhere are added."""
    monkeypatch.setattr(core_ends, "_LONGEST", 60.0)
    log, counters = Log(), Numbers()
    ends = Ends([log.reader, counters.reader], ["a job"])
    native = NativeEnds(ends)
    ends.attach(native)
    native.batch, native.counted = b"a\nb\n", [(1, 2)]
    ends.write(new_exchange(1))
    ends.write(new_exchange(2))
    native.batch = [core_ends.ended_of(new_exchange(3), 0.0)]
    ends.write(new_exchange(4))
    native.batch = b"c\n"
    ends.flush()
    assert log.told == [b"a\nb\n", [(1, 0), (2, 0)], [(3, 0)], [(4, 0)], b"c\n"]
    assert counters.told == [[(1, 0), (2, 0)], [(4, 0)]] and counters.added == [([(1, 2)], 0.0)]
    assert ends.thread_seconds == 7.0


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("has_counters", [True, False])
def test_what_is_shared_with_c(has_log, has_counters):
    """Without a log nothing is noted there, and without counters nothing is counted, either."""
    ends = Ends([Log().reader] * has_log + [Numbers().reader] * has_counters)
    noted, flush, _, _, _, _, places, program = ends.parts
    assert (noted is not None, flush is not None, places, program) == (
        has_log,
        has_log or has_counters,
        (1,) if has_counters else None,
        ("a program",) if has_log else None,
    )
    assert ends.thread_seconds == (7.0 if has_counters else None)


def test_two_that_read_what_c_has_counted():
    """Both have its records, and it makes no lines: one of them could not read these."""
    log, other, counters = Log(), Batches(), Numbers()
    ends = Ends([log.reader, other.reader, counters.reader])
    assert ends.parts[-1] is None
    native = NativeEnds(ends)
    ends.attach(native)
    native.batch = [core_ends.ended_of(new_exchange(3), 0.0)]
    ends.flush()
    assert log.told == other.told == [[(3, 0)]] and counters.told == []


def test_what_counts_is_told_first():
    """Counting does not wait for a disk."""
    told = []
    numbers, log = Numbers(), Log()
    numbers.write, log.write = (lambda ended: told.append("numbers")), (lambda ended: told.append("log"))
    Ends([log.reader, numbers.reader]).write(new_exchange())
    assert told == ["numbers", "log"]
