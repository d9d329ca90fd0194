"""Locks among processes: a single process has a lock, and a dying process lets the lock go."""

import threading

import pytest

from aserve.compat.uwsgi_api.locks import Inside

LOCKED = "memory.locks.lock(3)\ntell('locked')\nwait()\nmemory.locks.unlock(3)\ntell('unlocked')\nwait()\n"


def test_in_one_process(memory):
    locks = memory.locks
    locks.lock(0)
    assert locks.is_locked(0) and not locks.is_locked(1)
    locks.unlock(0)
    locks.unlock(0)
    assert not locks.is_locked(0)


@pytest.mark.parametrize("number", [-1, 256])
def test_no_such_lock(memory, number):
    for use in (memory.locks.lock, memory.locks.unlock, memory.locks.is_locked):
        with pytest.raises(ValueError, match=f"there is no lock {number}"):
            use(number)


@pytest.mark.parametrize("number", [1.0, "1", None])
def test_no_number_changes_nothing(memory, number):
    for use in (memory.locks.lock, memory.locks.unlock, memory.locks.is_locked):
        with pytest.raises(TypeError):
            use(number)
    assert not memory.locks.is_locked(1)


def test_another_thread_waits(memory):
    """Two threads of a process never have the lock at once; any thread may let the lock go."""
    memory.locks.lock(0)
    order = []
    thread = threading.Thread(target=lambda: (memory.locks.lock(0), order.append("second")))
    thread.start()
    order.append("first")
    memory.locks.unlock(0)
    thread.join(20)
    assert order == ["first", "second"] and memory.locks.is_locked(0)


def test_another_process_has_it(memory, other):
    """An asking process sees the lock, and a waiting process gets the lock afterwards."""
    process = other(memory, LOCKED)
    assert process.hear() == "locked"
    assert memory.locks.is_locked(3)
    process.go_on()
    memory.locks.lock(3)
    assert process.hear() == "unlocked"
    memory.locks.unlock(3)


def test_a_process_that_is_killed(memory, other):
    """The killed process lets go; a waiting one gets the lock."""
    process = other(memory, LOCKED)
    assert process.hear() == "locked"
    process.process.kill()
    memory.locks.lock(3)
    memory.locks.unlock(3)


def test_an_interrupted_wait_leaves_nothing(memory, other, monkeypatch):
    """An interrupted waiter has nothing: others in the process can wait, too."""
    process = other(memory, LOCKED)
    assert process.hear() == "locked"

    def interrupt(seconds):
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr("aserve.compat.uwsgi_api.locks.time.sleep", interrupt)
        with pytest.raises(TimeoutError):
            memory.locks.lock(3)
    process.go_on()
    memory.locks.lock(3)
    memory.locks.unlock(3)


def test_one_at_a_time(memory, other):
    """One thread of all processes runs at a time: no addition is lost."""
    count = 300
    code = f"""
def add():
    n = int.from_bytes(memory.octets[4096:4100], "little") + 1
    memory.octets[4096:4100] = n.to_bytes(4, "little")
tell('ready')
wait()
for _ in range({count}):
    memory.locks.run(add)
tell('done')
wait()
"""
    processes = [other(memory, code) for _ in range(2)]
    assert [process.hear() for process in processes] == ["ready"] * 2
    for process in processes:
        process.go_on()
    assert [process.hear() for process in processes] == ["done"] * 2
    assert int.from_bytes(memory.octets[4096:4100], "little") == 2 * count


def test_run_lets_go_of_it(memory):
    """Also after an exception; the result is returned."""
    with pytest.raises(ZeroDivisionError):
        memory.locks.run(lambda: 1 // 0)
    assert memory.locks.run(lambda x: x + 1, 2) == 3


def test_inside_the_lock_a_call_is_told_so(memory):
    """A thread under the lock is told so, in place of a wait for itself; later calls come in order."""
    done = []

    def interrupted():
        with pytest.raises(Inside):
            memory.locks.run(done.append, "nested")
        for number in range(2):
            memory.locks.after(memory.locks.run, done.append, number)
        done.append("inside")

    memory.locks.run(interrupted)
    memory.locks.after(done.append, "at once")
    assert done == ["inside", 0, 1, "at once"]


def test_what_waits_for_the_end_of_a_call(memory):
    """The later call comes also after an exception, and the rest with the next call after its own."""
    done = []

    def interrupted():
        for number in range(2):
            memory.locks.after(lambda number=number: (done.append(number), 1 // number))
        raise TimeoutError

    with pytest.raises(ZeroDivisionError):
        memory.locks.run(interrupted)
    memory.locks.run(lambda: None)
    assert done == [0, 1]


def test_signals_that_run(memory, other):
    """A single process runs a signal; another cannot until the run's end, or the process's death."""
    process = other(memory, "tell(memory.locks.begin(5))\nwait()\nmemory.locks.end(5)\ntell('ended')\nwait()\n")
    assert process.hear() == "True"
    assert not memory.locks.begin(5) and memory.locks.begin(6)
    process.go_on()
    assert process.hear() == "ended"
    assert memory.locks.begin(5)


FORKED = """
memory.locks.lock(1)
pid = os.fork()
if not pid:
    memory.locks.unlock(1)  # it is not this one's
    os._exit(0 if memory.locks.is_locked(1) and memory.locks.run(lambda: True) else 1)
tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
tell(memory.locks.is_locked(1))
"""


def test_a_forked_process_has_no_lock(memory, other):
    process = other(memory, FORKED)
    assert process.hear() == "0" and process.hear() == "True"
