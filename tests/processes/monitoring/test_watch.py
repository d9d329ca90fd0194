"""Looks at workers once a second; tests/e2e/test_watch.py has real ones."""

import signal

import pytest
from harness.supervising import slots_of

from aserve.core.footprint import Activity, Memory
from aserve.core.page import Field, State
from aserve.processes.children.child import STACKS_SIGNAL
from aserve.processes.events import LIMITS_SECONDS
from aserve.processes.fleet import plan as plan_module
from aserve.processes.fleet.resources import MIB, Limits
from aserve.processes.monitoring import watch as watch_module
from aserve.processes.monitoring.watch import Watch


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """Each process's memory, by pid; and the asked-for ones."""
    taken, asked = {}, []

    def memory_of(pid, with_shares=False):
        asked.append((pid, with_shares))
        return taken.get(pid)

    monkeypatch.setattr(watch_module, "memory_of", memory_of)
    monkeypatch.setattr(watch_module, "activity_of", lambda pid: Activity("R", 0.0))
    taken["asked"] = asked
    return taken


def page_of(one, child):
    return child.page


def turn(one, *turning):
    """Let a second pass, in which these workers' loops turn; return the started ones."""
    for child in turning:
        page_of(one, child)[Field.TICK] += 1
    return one.turn(1.0)


# Workers at the end of their time


def test_one_after_another(supervised, caplog):
    """Of several due workers the furthest goes first, and the next starts when its successor serves."""
    one = supervised(3, max_requests=10)
    first, second, third = one.start()
    page_of(one, first)[Field.REQUESTS] = 10
    page_of(one, third)[Field.REQUESTS] = 20
    turn(one, first, second, third)
    assert "worker 3 is to be replaced: it has answered 20 requests (--max-requests 10)" in caplog.text
    (successor,) = one.turn() or one.children[-1:]
    assert successor.slot == 3 and third.state is State.READY
    assert turn(one, first, second, third) == []
    one.say(successor, say="ready")
    assert third.state is State.DRAINING
    turn(one, first, second, successor)
    assert [child.slot for child in one.children if child.state is State.STARTING] == [1]


def test_a_worker_has_one_lifespan(supervised):
    """Its jitter is drawn once, and its successor's anew."""
    one = supervised(1, max_requests=10, max_requests_jitter=1_000_000)
    (worker,) = one.start()
    watch = one.supervisor.parts.watch
    turn(one, worker)
    lifespan = watch._watched[worker].lifespan
    turn(one, worker)
    assert watch._watched[worker].lifespan == lifespan and lifespan.requests > 10


def test_settings_of_a_reload_count(supervised):
    """The limits are of the settings for new workers."""
    one = supervised(1)
    (worker,) = one.start()
    page_of(one, worker)[Field.REQUESTS] = 10
    assert turn(one, worker) == []
    one.settings["max_requests"] = 5
    one.supervisor.events.reload("asked")
    (successor,) = one.turn()
    one.say(successor, say="ready")
    page_of(one, successor)[Field.REQUESTS] = 5
    turn(one, worker, successor)
    assert [child.state for child in one.children] == [State.DRAINING, State.READY, State.STARTING]


def test_memory_beyond_its_limit_is_a_reason(supervised, memory, caplog):
    one = supervised(2, max_rss_bytes=100 * MIB)
    first, second = one.start()
    memory[second.pid] = Memory(200 * MIB)
    turn(one, first, second)
    assert memory["asked"] == [(first.pid, False), (second.pid, False)]
    assert "worker 2 is to be replaced: its RSS is 200.0 MiB (--max-rss 100MiB)" in caplog.text


def test_no_limit_of_memory(supervised, memory):
    """Without a limit memory is not read."""
    one = supervised(2)
    turn(one, *one.start())
    assert memory["asked"] == []


def test_shares_of_memory_in_turn(supervised, memory):
    """Costly memory is read of one worker a second."""
    one = supervised(2, max_pss_bytes=100 * MIB)
    first, second = one.start()
    for _ in range(4):
        turn(one, first, second)
    assert memory["asked"] in ([(first.pid, True), (second.pid, True)] * 2, [(second.pid, True), (first.pid, True)] * 2)


def test_auto_by_the_size_of_the_first(supervised, memory, monkeypatch, caplog):
    """With --workers auto the first worker shows how many there is room for, and the banner the deciding limit."""
    monkeypatch.setattr(plan_module, "read_limits", lambda: Limits(cpus=8, memory_bytes=1 << 30))
    one = supervised("auto")
    (first,) = one.turn()
    memory[first.pid] = Memory(256 * MIB)
    one.system.workers_ends[first.pid].send({"say": "ready"})
    assert [child.slot for child in one.turn()] == [2, 3]
    assert "serving on  with 3 workers (--workers auto: memory: 1GiB, and a worker takes 256MiB)" in caplog.text


def test_auto_by_limits_that_change(supervised, memory, monkeypatch, caplog):
    """With --workers auto the number of workers follows CPUs and memory, down and up again; a number set by hand stays until then."""
    before = limits = Limits(cpus=3, memory_bytes=1 << 30)
    monkeypatch.setattr(plan_module, "read_limits", lambda: limits)
    one = supervised("auto")

    def serving():
        for child in one.children:
            memory[child.pid] = Memory(200 * MIB)
        one.turn(LIMITS_SECONDS + 1)
        for child in one.start():
            if child.state is State.DRAINING:
                one.end(child)
        return len(one.start())

    one.start()
    assert serving() == 3
    limits = before._replace(cpus=1)
    assert serving() == 1
    limits = before
    assert serving() == 3
    limits = before._replace(cpus=8)  # there is memory for three
    assert serving() == 3
    limits = before._replace(memory_bytes=600 << 20)
    assert serving() == 2
    one.signal(signal.SIGTTIN)
    assert serving() == 3 and "SIGTTIN: the number of workers is 3 now" in caplog.text
    limits = before._replace(cpu_quota=0.5)
    assert serving() == 1
    assert (
        "--workers auto: memory: 600MiB, and a worker takes 200MiB: the number of workers is 2 now; it was 3"
        in caplog.text
    )
    assert "--workers auto: CPU quota: 0.5: the number of workers is 1 now; it was 3" in caplog.text


def test_a_number_of_workers_that_the_machine_does_not_change(supervised, memory, monkeypatch):
    """A number of the settings stays, whatever the limits are."""
    monkeypatch.setattr(plan_module, "read_limits", lambda: pytest.fail("the limits were read"))
    one = supervised(2)
    one.start()
    assert one.turn(3) == [] and slots_of(one.children) == [1, 2]


# Whose loop hangs


def test_a_loop_that_hangs(supervised, caplog):
    """The log tells a hanging loop, with all stacks; then its successor starts, and the worker is ended once that serves."""
    one = supervised(2, hang_warning_seconds=3, hang_timeout_seconds=5)
    first, second = one.start()
    turn(one, first, second)
    for _ in range(3):
        turn(one, first)
    assert one.system.signals == [(second.pid, STACKS_SIGNAL)]
    assert f"{second}: its event loop has not turned for 3 s" in caplog.text
    assert "; after 5 s (--hang-timeout) it is replaced; its stacks follow" in caplog.text
    turn(one, first)
    assert not second.is_hung
    turn(one, first)
    assert "worker 2 is to be replaced: its event loop has not turned for 5 s" in caplog.text
    (successor,) = [child for child in one.children if child.state is State.STARTING] or one.turn()
    assert second.state is State.READY and one.system.signals == [(second.pid, STACKS_SIGNAL)]
    one.say(successor, say="ready")
    assert one.system.signals[1:] == [(second.pid, signal.SIGABRT)]
    assert one.end(second, number=signal.SIGABRT) == []
    assert f"{second} has ended: it was killed by SIGABRT" in caplog.text
    assert [child.slot for child in one.children] == [1, 2]


def test_a_loop_that_turns_again(supervised, caplog):
    """The log tells the turn; a worker under replacement is replaced, but drains."""
    one = supervised(1, hang_warning_seconds=2, hang_timeout_seconds=3)
    (worker,) = one.start()
    turn(one, worker)
    for _ in range(3):
        turn(one)
    turn(one, worker)
    assert f"{worker}: its event loop turns again, after 3 s" in caplog.text
    (successor,) = [child for child in one.children if child.state is State.STARTING]
    one.say(successor, say="ready")
    assert worker.state is State.DRAINING


def test_a_stop_of_all(supervised):
    """A supervisor stopped together with its worker sees no hang; the worker has as long as before."""
    one = supervised(1, hang_timeout_seconds=5)
    (child,) = one.start()
    turn(one, child)
    one.system.now += 3600
    assert [turn(one) for _ in range(4)] == [[]] * 4
    assert slots_of(turn(one)) == [1]


def test_only_a_warning(supervised, caplog):
    """Without a time-out nobody is replaced, and the log says so, once."""
    one = supervised(1, hang_warning_seconds=2, hang_timeout_seconds=0)
    (worker,) = one.start()
    for _ in range(9):
        assert turn(one) == []
    assert caplog.text.count("it is not replaced (--hang-timeout 0); its stacks follow") == 1


def has_moved(one):
    """Let a second pass for the workers' pages, and ask as for systemd's watchdog."""
    one.supervisor.parts.children.on_second()
    return one.supervisor.parts.watch.has_moved()


def test_whether_any_loop_turns(supervised):
    """One turning loop is enough for systemd's watchdog."""
    one = supervised(2)
    first, second = one.start()
    assert not has_moved(one)
    page_of(one, second)[Field.TICK] = 1
    assert has_moved(one) and not has_moved(one)
    one.supervisor.parts.children.drain(second, is_replaced=True)
    page_of(one, second)[Field.TICK] = 2
    assert has_moved(one)


def test_whether_threads_begin_what_waits(supervised):
    """A turning loop is not enough, where every thread is stuck and requests wait."""
    one = supervised(2)
    first, second = one.start()
    for child in (first, second):
        page_of(one, child)[Field.TICK] = 1
        page_of(one, child)[Field.STALLED_SECONDS] = 3
    assert not has_moved(one)
    page_of(one, second)[Field.TICK], page_of(one, second)[Field.STALLED_SECONDS] = 2, 0
    assert has_moved(one)


def test_whether_any_loop_turns_where_there_is_none(supervised):
    """While a successor of the only worker starts, or waits to, nothing hangs that a restart could help."""
    one = supervised(1)
    (first,) = one.start()
    assert not has_moved(one)
    one.end(first, number=9)
    assert one.children == [] and has_moved(one)
    one.turn(0.11)
    assert one.children != [] and has_moved(one)


# Workers killed for want of memory


class Kernel:
    """Control groups with a count of kills."""

    def __init__(self, count):
        self.count = count

    def oom_kill_count(self):
        return self.count


@pytest.mark.parametrize(
    ("before", "after", "how", "is_told"),
    [
        (3, 4, "was killed by SIGKILL", True),
        (3, 3, "was killed by SIGKILL", False),
        (3, 4, "was killed by SIGSEGV", False),
        (None, None, "was killed by SIGKILL", False),
    ],
)
def test_out_of_memory(supervised, before, after, how, is_told):
    """A kill is the kernel's if its count has risen within the last look or two."""
    one = supervised(1)
    one.start()
    kernel = Kernel(before)
    watch = Watch(one.supervisor.parts.children, kernel)
    config = one.supervisor.fleet.plan.config
    watch.look(config, 0.0)
    kernel.count = after
    watch.look(config, 1.0)  # just before the reaping
    told = watch.explain(how)
    assert told.startswith(how) and ("as memory ran out (its count of such kills has risen to 4)" in told) is is_told
    watch.look(config, 2.0)
    assert watch.explain(how) == how


def test_a_crash_is_explained(supervised, caplog, monkeypatch):
    """The log line of the crash says so."""
    one = supervised(1)
    (worker,) = one.start()
    monkeypatch.setattr(one.supervisor.parts.watch, "explain", lambda how: f"{how}, explained")
    one.end(worker, number=signal.SIGKILL)
    assert "it was killed by SIGKILL, explained; another is started" in caplog.text
