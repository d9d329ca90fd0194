"""Waiting workers: one at a time leads, and another takes over when an app blocks."""

import asyncio
import collections
import copy
import errno
import random
import socket
import threading
import time
import types

import pytest
from harness.executors import FakeHandleSet, answering, resolve, run, run_with_leader, until, wait
from harness.waiting import PATIENCE_SECONDS

from aserve.core.errors import WrittenOff
from aserve.workers import executor as executor_module
from aserve.workers.cpu import CpuMeter


async def test_the_leader_runs_what_it_finds():
    """The waiting worker runs requests in order without the loop, then waits again."""

    async def test(harness, handles):
        for _ in range(3):
            jobs, done = zip(*[answering(harness) for _ in range(5)])
            handles.bring(*jobs)
            assert set(await wait(asyncio.gather(*done))) == {"aserve-worker-1"}
            await until(lambda: handles.is_waiting)
        assert harness.executor.is_idle and harness.worker_names() == {"aserve-worker-1"}
        assert harness.executor._stall_timer is None
        assert handles.waits == [(-1, "aserve-worker-1")] * 4

    assert await run_with_leader(test) == []


async def test_a_wake_without_a_reason():
    """A leader woken for nothing, or whose clients have only left, waits on."""

    async def test(harness, handles):
        handles.wake()
        handles.bring()
        await until(lambda: len(handles.waits) == 3)
        assert harness.executor.is_leader_waiting and not harness.executor.leadership

    assert await run_with_leader(test) == []


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_a_request_that_blocks_holds_up_nobody(count):
    """Another worker takes over the rest of a slow batch, and the waiting."""

    async def test(harness, handles):
        held = [harness.held() for _ in range(count)]
        handles.bring(*[job for job, _, _ in held])
        await wait(held[0][2])
        await handles.stall()
        names = [await wait(started) for _, _, started in held]
        assert len(set(names)) == count
        job, done = answering(harness)
        if count < 8:
            await until(lambda: harness.executor.is_leader_waiting)
        handles.bring(job)
        if count == 8:
            held[3][1].set()
        await wait(done)

    assert await run_with_leader(test) == []


async def test_the_only_request_blocks():
    """While a request blocks alone, another worker waits for more."""

    async def test(harness, handles):
        job, _, started = harness.held()
        handles.bring(job)
        assert await wait(started) == "aserve-worker-1"
        await handles.stall()
        await until(lambda: harness.executor.is_leader_waiting)
        job, done = answering(harness)
        handles.bring(job)
        assert await wait(done) != "aserve-worker-1"

    assert await run_with_leader(test) == []


@pytest.fixture
def blocking(monkeypatch):
    """Every look finds a blocked app, also where the worker only lacks the CPU."""
    monkeypatch.setattr(CpuMeter, "measure", lambda _: False)
    monkeypatch.setattr(executor_module, "is_ready", lambda _: False)


@pytest.mark.usefixtures("blocking")
async def test_after_an_app_was_seen_to_block():
    """A leader then wakes the next worker before a batch, without waiting for the time to be over."""

    async def test(harness, handles):
        first, _, started = harness.held()
        handles.bring(first)
        await wait(started)
        await handles.stall()
        await until(lambda: harness.executor.is_leader_waiting)
        for _ in range(3):
            job, _, started = harness.held()
            handles.bring(job)
            await wait(started)
            await until(lambda: harness.executor.is_leader_waiting)
        for gate in harness.gates:
            gate.set()
        await until(lambda: harness.executor.is_idle)
        job, done = answering(harness)
        handles.bring(job)
        await wait(done)
        await until(lambda: harness.executor.is_leader_waiting)
        assert not harness.executor.app_blocks  # nobody was inside the app: the executor learns anew

    assert await run_with_leader(test) == []


async def test_a_worker_without_a_cpu(monkeypatch):
    """A worker ready to run, but without a CPU, gains nothing by more threads. A sleeping one is blocked."""
    asked, is_ready = [], True
    monkeypatch.setattr(executor_module, "is_ready", lambda number: asked.append(number) or is_ready)
    monkeypatch.setattr(executor_module, "HAS_GIL", True)
    monkeypatch.setattr(executor_module, "BUSY_STALL_SECONDS", 3600)

    async def test(harness, handles):
        nonlocal is_ready
        harness.executor._cpu.measure = lambda: False
        held, gate, started = harness.held()
        job, done = answering(harness)
        handles.bring(held, job)
        await wait(started)
        await handles.stall()
        await until(lambda: len(asked) > 2)
        [worker] = harness.executor.threads.at_work
        assert set(asked) == {worker.native_id} and not harness.executor.app_blocks
        is_ready = False
        assert await wait(done) != await started  # the next one, or the worker behind, if first with a CPU
        assert harness.executor.app_blocks

    assert await run_with_leader(test) == []


@pytest.mark.parametrize("app_blocks", [False, True])
async def test_a_queue_that_moves(app_blocks):
    """The loop looks no more until answers cease; after the sight of a blocked app, soon again."""

    async def test(harness, handles):
        watches, executor = [], harness.executor
        handles.watch = lambda: watches.append(True)
        held, gate, started = harness.held()
        job, done = answering(harness)
        handles.bring(held, job)
        await wait(started)
        executor._seen_waiting, executor.app_blocks = object(), app_blocks
        executor._on_stall_timer()
        assert (executor._seen_waiting is None, executor._stall_timer is None, watches) == (
            (False, False, []) if app_blocks else (True, True, [True])
        )
        gate.set()
        await wait(done)

    assert await run_with_leader(test, max_threads=1) == []


@pytest.mark.parametrize("where", ["wait", "take"])
async def test_the_time_is_over_before_the_batch_has_begun(where):
    """A leader late to a batch (no CPU, no GIL) is watched all the same when the app then blocks."""

    async def test(harness, handles):
        held, gate, started = harness.held()
        job, done = answering(harness)
        late = handles.has_gil if where == "wait" else handles.go_on
        late.clear()
        handles.bring(held, job)
        await until(lambda: not handles.batches if where == "wait" else handles.in_take.is_set())
        await handles.stall()
        for _ in range(10):
            await asyncio.sleep(0.001)  # looks of the executor, at a batch nobody has seen yet
        late.set()
        await wait(started)
        assert await wait(done) != await started

    assert await run_with_leader(test) == []


@pytest.mark.provokes("please report this as a bug")
async def test_a_timer_that_cannot_be_read(caplog, monkeypatch):
    """The batch is watched no longer: no busy loop, and one line."""

    def read(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    async def test(harness, handles):
        with monkeypatch.context() as patch:
            patch.setattr(executor_module.os, "read", read)
            handles.timer.send(b"8 octets")
            while not caplog.records:
                await asyncio.sleep(0)
        assert not harness.loop.remove_reader(handles.stall_fd) and harness.executor._stall_timer is None

    await run_with_leader(test)
    assert caplog.text.count("please report this as a bug in aserve") == 1


async def test_a_pause_is_told_when_requests_cease():
    """A waiter for a pause is told when requests cease; with one long batch after another, behind the end."""
    told = []

    async def test(harness, handles):
        harness.executor.on_pause = lambda: told.append(True)
        handles.timer.send(b"8 octets")
        await until(lambda: told)
        job, gate, started = harness.held()
        handles.bring(job)
        await wait(started)
        del told[:]
        await handles.stall()
        await until(lambda: len(told) > 1)
        gate.set()
        await until(lambda: harness.executor.is_leader_waiting)
        await until(lambda: harness.executor._stall_timer is None)

    assert await run_with_leader(test, max_threads=1) == []


@pytest.mark.provokes("please report this as a bug")
async def test_a_pause_that_fails(caplog):
    """The fault is logged, and the timer goes on."""

    async def test(harness, handles):
        harness.executor.on_pause = [].pop
        handles.timer.send(b"8 octets")
        await until(lambda: caplog.records)
        await until(lambda: harness.executor._stall_timer is None)

    assert await run_with_leader(test) == []
    assert "report this as a bug" in caplog.text


async def test_in_a_child_nothing_more_runs(monkeypatch):
    """A forked child leaves if asked for the next job, and nobody in the child waits for requests."""
    left = []
    monkeypatch.setattr(executor_module, "end_child", lambda _: left.append(True))

    async def test(harness, handles):
        child = copy.copy(harness.executor)  # as after fork()
        child.jobs, child.leadership = child.jobs.copy(), child.leadership.copy()
        child.jobs.append((left.append, "another's"))
        child.on_forked()
        function, argument = child.jobs.popleft()
        function(argument)
        assert left == [True] and not child.jobs and not child.leadership

    await run_with_leader(test)


async def test_the_batch_is_done_after_all():
    """A timer reset before the loop could read means nothing."""

    async def test(harness, handles):
        harness.executor._on_stall()
        assert harness.executor._stall_timer is None
        handles.close()
        handles.clock, handles.timer = socket.socketpair()  # for stop()

    await run_with_leader(test)


async def test_a_job_of_the_loop_wakes_the_leader():
    """With a single worker the leader gives up the token for a job of the loop, and takes the token again."""

    async def test(harness, handles):
        for number in range(3):
            assert await wait(harness.submit(number)) == (number, "aserve-worker-1")
            await until(lambda: harness.executor.is_leader_waiting)

    assert await run_with_leader(test, max_threads=1) == []


async def test_a_job_of_the_loop_prefers_another_worker():
    """While there are more workers, the leader goes on waiting."""

    async def test(harness, handles):
        assert await wait(harness.submit(1)) == (1, "aserve-worker-2")
        assert harness.executor.is_leader_waiting

    assert await run_with_leader(test) == []


class LeadershipToken(list):
    """Calls back when the leader has taken the token, and does not wait yet."""

    def __init__(self, act):
        self.act = act

    def pop(self):
        handles = super().pop()
        act, self.act = self.act, None
        if act is not None:
            act()
        return handles


async def test_a_job_that_comes_as_the_leader_begins_to_wait():
    """A job submitted between the leader's look at the queue and the wait is not left behind."""

    async def test(harness, handles):
        done = harness.loop.create_future()
        woken = threading.Event()

        def submit():
            harness.executor.submit(lambda _: harness.executor.post(resolve, done, None), None)
            harness.loop.call_soon(woken.set)  # behind the executor's own callback

        def act():
            harness.loop.call_soon_threadsafe(submit)
            woken.wait(PATIENCE_SECONDS)

        harness.executor.leadership = LeadershipToken(act)
        handles.bring(lambda _: None)  # the leader takes the batch, and waits again
        await wait(done)

    assert await run_with_leader(test, max_threads=1) == []


async def test_a_job_of_the_loop_leaves_the_token_watched():
    """A leader woken for a job of the loop's starts the timer: the job may block, and nobody would wait."""

    async def test(harness, handles):
        gate, started = harness.submit_held()
        await wait(started)
        assert handles.waits[-1] == (0, "aserve-worker-1")  # behind a wake by the leader
        assert not handles.woken.acquire(blocking=False)

    assert await run_with_leader(test, max_threads=1) == []


async def test_all_workers_are_busy():
    """The loop then looks for new requests, so pings are answered; the rest waits for a worker."""

    async def test(harness, handles):
        job, gate, started = harness.held()
        handles.bring(job)
        await wait(started)
        await handles.stall()
        await until(lambda: handles.waits[-1] == (0, threading.current_thread().name))
        job, done = answering(harness)
        handles.bring(job)
        await until(lambda: harness.executor.waiting_count == 1)
        assert not done.done()
        gate.set()
        assert await wait(done) == "aserve-worker-1"
        await until(lambda: harness.executor.is_leader_waiting)

    assert await run_with_leader(test, max_threads=1) == []


async def test_looks_are_rare():
    """A process whose workers all wait is nearly idle itself."""

    async def test(harness, handles):
        job, gate, started = harness.held()
        handles.bring(job)
        await wait(started)
        await handles.stall()
        before, start = len(handles.waits), time.monotonic()
        await until(lambda: len(handles.waits) >= before + 5)
        # The first may come at once. A busy machine makes the time longer, never shorter.
        assert time.monotonic() - start >= 3 * executor_module.BUSY_POLL_SECONDS

    assert await run_with_leader(test, max_threads=1) == []


@pytest.mark.usefixtures("blocking")
async def test_a_batch_stalls_behind_a_poll():
    async def test(harness, handles):
        held = [harness.held() for _ in range(2)]
        handles.bring(*[job for job, _, _ in held])
        for _, _, started in held:
            await wait(started)
            await handles.stall()
        await until(lambda: harness.executor._stall_timer.when() > harness.loop.time() + 0.01)
        before = len(handles.waits)
        await handles.stall()
        assert len(handles.waits) > before

    assert await run_with_leader(test, max_threads=2) == []


async def test_a_worker_goes_to_sleep_during_a_poll():
    """A worker without the token, taken by the polling loop, is woken to wait for requests."""

    async def test(harness, handles):
        job, gate, started = harness.held()
        handles.bring(job)
        await wait(started)

        def wait_for(milliseconds):
            handles.wait = original
            gate.set()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not harness.executor.workers.idle and time.monotonic() < deadline:
                time.sleep(0.0001)
            return original(milliseconds)

        original, handles.wait = handles.wait, wait_for
        harness.executor._poll_while_busy()
        await until(lambda: harness.executor.is_leader_waiting)
        harness.executor._stall_timer = None

    assert await run_with_leader(test, max_threads=1) == []


async def test_nobody_to_look_for():
    """A poll without the token sees nothing, and harms nothing."""

    async def test(harness, handles):
        harness.executor._poll_while_busy()
        assert harness.executor.is_leader_waiting and handles.waits == [(-1, "aserve-worker-1")]

    assert await run_with_leader(test) == []


async def test_a_leader_that_yields_its_slot():
    """Somebody else takes the token at once."""

    async def test(harness, handles):
        def job(_):
            harness.executor.yield_slot()
            harness.executor.post(resolve, has_yielded, None)
            gate.wait(PATIENCE_SECONDS)

        has_yielded, gate = harness.loop.create_future(), threading.Event()
        harness.gates.append(gate)
        handles.bring(job)
        await wait(has_yielded)
        await until(lambda: harness.executor.is_leader_waiting)

    assert await run_with_leader(test, max_threads=1, extra_threads=1) == []


@pytest.mark.parametrize("is_poll", [False, True])
@pytest.mark.provokes("please report this as a bug")
async def test_handles_that_fail(is_poll, caplog):
    """A fault while a batch is taken is logged as our bug; the next batch is taken."""

    async def test(harness, handles):
        if is_poll:
            held, gate, started = harness.held()
            handles.bring(held)
            await wait(started)
        handles.error = ValueError("no")
        handles.bring(lambda _: None)
        if is_poll:
            await handles.stall()
        await until(lambda: "ValueError: no" in caplog.text)
        job, done = answering(harness)
        handles.bring(job)
        if is_poll:
            gate.set()
        await wait(done)

    assert await run_with_leader(test, max_threads=1) == []
    assert "please report this as a bug" in caplog.text


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_stop_ends_the_leader(is_waiting):
    """Found requests are still run, and nobody waits again."""

    async def test(harness, handles):
        job, done = answering(harness)
        if not is_waiting:
            handles.go_on.clear()
            handles.bring(job)
            assert await harness.loop.run_in_executor(None, handles.in_take.wait, PATIENCE_SECONDS)
        harness.executor.stop()
        handles.go_on.set()
        if not is_waiting:
            await wait(done)
        assert harness.executor.threads.join(PATIENCE_SECONDS) == []
        assert not harness.executor.is_leader_waiting and harness.executor.leadership == []

    assert await run_with_leader(test) == []


@pytest.mark.parametrize("seed", range(3))
async def test_no_request_is_lost_or_run_twice(seed):
    """Batches and jobs of the loop at once, some blocking; a timer going off at any time."""
    choose = random.Random(seed)
    total = 600

    async def test(harness, handles):
        ran, everything = collections.Counter(), harness.loop.create_future()

        def new_job(number, seconds):
            def job(_):
                if seconds:
                    time.sleep(seconds)
                harness.executor.post(answer, number, None)

            return job

        def answer(number, _):
            ran[number] += 1
            if len(ran) == total:
                everything.set_result(None)

        number = 0
        while number < total:
            count = min(choose.choice((1, 1, 2, 5, 40)), total - number)
            jobs = [new_job(number + i, choose.choice((0, 0, 0, 0, 0.0002, 0.002))) for i in range(count)]
            number += count
            if choose.random() < 0.6:
                handles.bring(*jobs)
            else:
                for job in jobs:
                    harness.executor.submit(job, None)
            if choose.random() < 0.3:
                handles.timer.send(b"8 octets")
            await asyncio.sleep(choose.choice((0, 0, 0, 0.0005)))
        while not everything.done():
            handles.timer.send(b"8 octets")
            handles.wake()
            await asyncio.sleep(0.002)
        assert set(ran.values()) == {1}
        executor = harness.executor
        await until(lambda: executor.is_idle and executor.is_leader_waiting and executor.waking == [])

    assert await run_with_leader(test, max_threads=choose.choice((1, 2, 8))) == []


async def test_a_leader_that_has_found_something_is_busy():
    """A count of the workers has the GIL meanwhile."""

    async def test(harness, handles):
        await until(lambda: handles.is_waiting)
        assert harness.executor.workers.idle == 1
        handles.has_gil.clear()
        job, done = answering(harness)
        handles.bring(job)
        await until(lambda: not handles.is_waiting)
        assert harness.executor.is_leader_waiting and harness.executor.workers.idle == 0
        handles.has_gil.set()
        await wait(done)

    assert await run_with_leader(test) == []


class FakeEngine:
    """A leader in C, in the executor's view (connections/lane/native.py): each call of `work` does the next step."""

    waiting = progress = 0

    def __init__(self, *steps):
        self.steps = collections.deque(steps)

    def work(self):
        return self.steps.popleft()()


def fail(exc):
    raise exc


@pytest.mark.provokes("internal error")
async def test_a_leader_in_c(caplog):
    """A fault costs no worker; a written-off worker ends, as does a worker without a slot."""

    async def test(harness):
        executor, gate, taken = harness.executor, threading.Event(), harness.loop.create_future()
        harness.gates.append(gate)
        engine = FakeEngine(
            lambda: fail(ValueError("ours")),
            lambda: executor.yield_slot() or True,
            lambda: executor.post(resolve, taken, None) or gate.wait(PATIENCE_SECONDS),  # in the slot of another
            lambda: fail(WrittenOff()),
        )
        handles = FakeHandleSet(executor)
        executor.attach(handles, types.SimpleNamespace(engine=engine))
        await wait(taken)
        await until(lambda: executor.workers.compensated == 0)
        await until(lambda: sum(thread.is_alive() for thread in executor.threads.at_work) == 1)
        gate.set()
        await until(lambda: not any(thread.is_alive() for thread in executor.threads.at_work))
        executor.stop()
        handles.close()

    assert await run(test, max_threads=1, extra_threads=1) == []
    assert [record.exc_info[1].args for record in caplog.records] == [("ours",)]
