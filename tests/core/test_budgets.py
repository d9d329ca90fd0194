"""Limits of all large bodies together: exactly counted, and told when used up."""

import errno
import gc
import os
import threading

import pytest
from harness.limits import lines

from aserve.core import budgets as budgets_module
from aserve.core.budgets import BodySpace, Budget, MemoryBudget, SpoolFile, SpoolSpace
from aserve.core.errors import RequestRefused
from aserve.core.incident import CALM_SECONDS

# A count


def test_up_to_the_limit():
    """Nothing over the limit is taken, unless it must be."""
    budget = Budget(100)
    assert budget.reserve(60) and budget.reserve(40) and not budget.reserve(1)
    assert budget.reserve(50, is_forced=True) and budget.count == 150
    budget.release(50)
    budget.release(60)
    assert budget.has_room(60) and not budget.has_room(61)
    assert budget.reserve(60) and not budget.reserve(1)
    assert budget.refused_count == 2


def test_nothing_fits_into_a_budget_of_zero():
    assert not Budget(0).reserve(1)


def test_workers_count_at_once():
    """Gains and returns of several threads come out even."""
    budget = Budget(1000)

    def work():
        for count in range(1, 2000):
            if budget.reserve(count):
                budget.release(count)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.count == 0


def test_a_lack_is_told_once(caplog):
    """One line at the lack of room, another after some seconds with room; then it may begin again."""
    budget = Budget(10, "used up", "free again")
    budget.reserve(8)
    assert lines(caplog) == []
    for _ in range(3):
        assert not budget.reserve(5)
    for _ in range(CALM_SECONDS + 1):
        budget.on_second()
    assert lines(caplog) == ["used up"]  # for 5 more there is no room yet, whoever asks
    budget.release(3)
    for _ in range(CALM_SECONDS):
        budget.on_second()
    assert lines(caplog) == []
    for _ in range(3):
        budget.on_second()
    assert lines(caplog) == ["free again"]
    assert not budget.reserve(6)
    assert lines(caplog) == ["used up"]


def test_more_than_there_ever_is(caplog):
    """An impossible amount is not missing for ever: the shortage ends, and the next is told."""
    budget = Budget(5, "used up", "free again")
    assert not budget.reserve(6)
    for _ in range(CALM_SECONDS + 2):
        budget.on_second()
    assert lines(caplog) == ["used up", "free again"]


def test_room_that_comes_back_as_it_is_looked_for():
    """A refused body has taken nothing, whoever gives back meanwhile."""
    space = BodySpace(Budget(10), Budget(2), "aserve-test-")
    space.octets.reserve(10)
    space.octets.has_room = lambda count: space.octets.release(10)  # False, and then there is
    with pytest.raises(RequestRefused):
        space.check(5)
    del space.octets.has_room
    space.octets.release(10)
    assert space.octets.count == 0 and space.check(10) is None and space.octets.count == 0


def test_a_budget_of_which_nobody_need_know(caplog):
    """Where running out is nothing to mend, the log is silent."""
    budget = Budget(0)
    assert not budget.reserve(1)
    budget.release(1)
    for _ in range(CALM_SECONDS + 2):
        budget.on_second()
    assert lines(caplog) == []


def test_dropped_while_the_lock_is_held():
    """The garbage collector may give back in the middle of a sum: it counts the next time, and waits for nobody."""
    budget = Budget(10)
    budget.reserve(10)
    with budget._lock:
        budget.release_later(4)
    assert budget.has_room(4) and budget.reserve(4) and budget.count == 10
    budget.release_later(10)
    budget.on_second()
    assert budget.count == 0


# Memory, whose room workers wait for


@pytest.fixture
def waits(monkeypatch):
    """The length of waits: waits(moving, longest), in seconds."""

    def set_seconds(moving, longest):
        monkeypatch.setattr(budgets_module, "MOVING_SECONDS", moving)
        monkeypatch.setattr(budgets_module, "LONGEST_SECONDS", longest)

    set_seconds(moving=60.0, longest=60.0)
    return set_seconds


def test_memory_that_is_given_back_soon(waits):
    """The waiting one has it then; and so has the next, if there is room for both."""
    memory = MemoryBudget(100)
    large, small, halves = bytes(90), bytes(10), (bytes(50), bytearray(50))
    assert memory.reserve_body(large, is_patient=True) and memory.reserve_body(small, is_patient=True)
    memory.release_body(small)
    threads = [threading.Thread(target=memory.reserve_body, args=(half, True)) for half in halves]
    for thread in threads:
        thread.start()
    while len(memory._is_released._waiters) < len(threads):
        threads[0].join(0.001)
    memory.release_body(large)
    for thread in threads:
        thread.join(60)
    assert memory.count == 100 and memory.refused_count == 0


def test_memory_that_nobody_gives_back(waits):
    """Without a reader, or not for long enough, or not enough in time, there is none."""
    memory = MemoryBudget(100)
    memory.reserve(100)
    assert not memory.reserve_body(bytes(1), is_patient=True)
    memory.release(5)
    waits(moving=0.0, longest=60.0)
    assert not memory.reserve_body(bytes(10), is_patient=True)
    waits(moving=60.0, longest=0.01)
    assert not memory.reserve_body(bytes(10), is_patient=True)
    assert memory.reserve_body(bytes(5), is_patient=True) and memory.refused_count == 3


def test_memory_that_will_never_do(waits):
    """Nobody waits for more than there can be."""
    memory = MemoryBudget(100)
    memory.reserve(1)
    memory.release(1)
    assert not memory.reserve_body(bytes(101), is_patient=True)


def test_an_object_is_counted_once():
    """An object takes its memory once for all responses, as long as one sends it; an equal one takes its own."""
    memory = MemoryBudget(100)
    page, equal = b"x" * 60, bytes(bytearray(b"x" * 60))
    assert memory.reserve_body(page) and memory.reserve_body(page) and memory.reserve_body(page, is_patient=True)
    assert memory.count == 60
    assert not memory.reserve_body(equal) and memory.refused_count == 1
    assert memory.reserve_body(equal, is_forced=True) and memory.count == 120
    assert memory.reserve_body(page)  # it takes nothing, so there is room for it
    for _ in range(3):
        memory.release_body(page)
    assert memory.count == 120
    memory.release_body(page)
    assert memory.count == 60
    memory.release_body(equal)
    assert memory.count == 0 and not memory._bodies


def test_an_object_that_another_response_brings(waits):
    """A waiter for room goes on as soon as its object is counted for another response."""
    memory, page = MemoryBudget(100), bytes(60)
    memory.reserve(100)
    memory.release(1)
    thread = threading.Thread(target=memory.reserve_body, args=(page, True))
    thread.start()
    while not memory._is_released._waiters:
        thread.join(0.001)
    assert memory.reserve_body(page, is_forced=True)
    thread.join(60)
    assert not thread.is_alive() and memory.count == 159


# A file


@pytest.fixture
def space():
    """Room for 100 octets in two files."""
    return SpoolSpace(Budget(100), Budget(2), "aserve-test-")


def counts(space):
    return space.octets.count, space.files.count


def test_a_file_is_counted_while_it_is_open(space):
    """Its possible size and its descriptor are counted once, until the close; closed twice is once."""
    file = SpoolFile(space)
    assert counts(space) == (0, 0)
    assert file.reserve(10) and file.reserve(30) and file.reserve(20)
    assert counts(space) == (30, 1) and file.size_bytes == 30
    assert file.open() is file.open()
    fd = file.open().fileno()
    assert os.fstat(fd).st_nlink == 0
    file.close()
    file.close()
    assert counts(space) == (0, 0)
    with pytest.raises(OSError, match=r"[Bb]ad file"):
        os.fstat(fd)


def test_no_room_on_the_disk(space):
    """A refused size is not counted, nor is a file for it; the rest may be had."""
    one, other = SpoolFile(space), SpoolFile(space)
    assert one.reserve(60) and not other.has_room(41) and not other.reserve(41)
    assert counts(space) == (60, 1)
    assert other.has_room(40) and other.reserve(40) and not one.has_room(61) and not one.reserve(61)
    other.close()
    assert one.has_room(100) and one.reserve(100)
    one.close()


def test_no_room_for_a_file(space):
    """Files over the limit are not made, and their octets are not counted; a present one may grow."""
    files = [SpoolFile(space) for _ in range(3)]
    assert files[0].reserve(1) and files[1].reserve(1)
    assert not files[2].has_room(1) and not files[2].reserve(1)
    assert counts(space) == (2, 2)
    assert files[0].has_room(2) and files[0].reserve(2)
    files[1].close()
    assert files[2].reserve(1)
    for file in files:
        file.close()
    assert counts(space) == (0, 0)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_forgotten_file(space, is_open):
    """A forgotten file counts until it is garbage, and no longer."""
    file = SpoolFile(space)
    file.reserve(100)
    if is_open:
        file.open().close()  # or it would warn
    del file
    for _ in range(100):  # PyPy runs finalizers some time after it has collected
        gc.collect()
        if space.octets.has_room(100) and space.files.has_room(2):
            break
    assert space.octets.has_room(100) and space.files.has_room(2)
    assert counts(space) == (0, 0)


def test_a_file_that_does_not_close(space, caplog):
    """A disk that fails at the end costs a line in the log, and nothing of the budget."""

    class Broken:
        def close(self):
            raise OSError(errno.EIO, "Input/output error")

    file = SpoolFile(space)
    file.reserve(10)
    file.file = Broken()
    file.close()
    assert counts(space) == (0, 0) and "could not be closed: [Errno 5]" in caplog.text


# Request bodies


@pytest.fixture
def bodies():
    """The same for request bodies."""
    return BodySpace(Budget(100), Budget(2), "aserve-test-")


def test_a_body_is_looked_at_before_it_comes(bodies):
    """503 where there is no room now, 413 where there never will be, with the setting's name."""
    bodies.check(100)
    for used, length, status, text in (
        (0, 101, 413, "100 octets (--body-spool-total)"),
        (1, 100, 503, "try again later"),
    ):
        bodies.octets.reserve(used)
        with pytest.raises(budgets_module.RequestRefused) as caught:
            bodies.check(length)
        assert caught.value.status == status and text in str(caught.value)
    assert bodies.octets.count == 1 and bodies.octets.refused_count == 1


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (errno.ENOSPC, 503), (errno.EDQUOT, 503), (errno.EMFILE, 503), (errno.ENFILE, 503), (errno.ENOMEM, 503),
        (errno.EIO, 500), (errno.EACCES, 500), (errno.ENOENT, 500), (errno.EROFS, 500),
    ],
)  # fmt: skip
def test_what_the_system_says(bodies, caplog, number, status):
    """A passing lack is 503, and a lasting one is 500; the log has it once for its whole duration."""
    for _ in range(3):
        assert bodies.refuse_fault(OSError(number, os.strerror(number))).status == status
    assert len(lines(caplog)) == 1
    for _ in range(CALM_SECONDS + 1):
        bodies.on_second()
    assert lines(caplog) == ["no temporary file aserve-test-* has failed for some seconds"]
    bodies.refuse_fault(OSError(number, "again"))
    assert "again; see TMPDIR, `ulimit -n`, --body-spool-total" in lines(caplog)[0]
