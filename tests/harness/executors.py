"""An executor for its tests: on a running loop, with real threads, driven by events.

`await run(test)` calls `await test(harness)`, `run_with_leader` also gives the handle set of the waiting worker; then every worker must end.
`harness.submit` returns a future that a job resolves: it posts, and the loop sets it.
"""

import asyncio
import collections
import socket
import threading
import time

from aserve.workers.executor import Executor

from .waiting import PATIENCE_SECONDS


class ExecutorHarness:
    """An executor on a running loop, and jobs that can be held."""

    def __init__(self, loop, max_threads, extra_threads):
        self.loop = loop
        self.executor = Executor(loop, max_threads, extra_threads)
        self.gates = []
        self._others = set(threading.enumerate())  # a worker of an earlier test may still be on its way out

    def held(self):
        """Return a job that blocks until its gate opens, the gate, and a future of its thread's name."""
        gate, started = threading.Event(), self.loop.create_future()
        self.gates.append(gate)

        def job(_):
            self.executor.post(resolve, started, threading.current_thread().name)
            gate.wait(2 * PATIENCE_SECONDS)  # longer than any wait of the test: it goes on only where the gate opens

        return job, gate, started

    def submit(self, value=None):
        """Submit a job that answers at once; return a future of (value, its thread's name)."""
        done = self.loop.create_future()

        def job(given):
            self.executor.post(resolve, done, (given, threading.current_thread().name))

        self.executor.submit(job, value)
        return done

    def submit_held(self):
        """Submit a held job; return its gate and a future of its thread's name."""
        job, gate, started = self.held()
        self.executor.submit(job, None)
        return gate, started

    async def wait_for_idle(self, count):
        """Wait until `count` workers are idle."""
        deadline = self.loop.time() + PATIENCE_SECONDS
        while self.executor.workers.idle != count:
            assert self.loop.time() < deadline, "the workers do not go to sleep"
            await asyncio.sleep(0)

    def worker_names(self):
        """Return the names of this executor's living workers."""
        names = (thread.name for thread in threading.enumerate() if thread not in self._others)
        return {name for name in names if name.startswith("aserve-worker-")}

    async def start_workers(self, count):
        """Start `count` workers; they sleep in the order of their numbers.

        From then on the executor does not look for a standing queue. So it wakes no other worker beside a woken one without CPU, and the worker of
        each job is certain.
        """
        threads = self.executor.threads
        max_threads, threads.max_threads = threads.max_threads, count  # a slow machine would start more
        held = [self.submit_held() for _ in range(count)]
        names = [await wait(started) for _, started in held]
        threads.max_threads = max_threads
        assert sorted(names) == [f"aserve-worker-{number + 1}" for number in range(count)]
        for sleepers, name in enumerate(sorted(names), 1):
            held[names.index(name)][0].set()
            await self.wait_for_idle(sleepers)
        self.executor._on_stall_timer = lambda: None
        if self.executor._stall_timer is not None:
            self.executor._stall_timer.cancel()


def resolve(future, value):
    if not future.done():
        future.set_result(value)


async def wait(future):
    return await asyncio.wait_for(future, PATIENCE_SECONDS)


async def run(test, max_threads=8, extra_threads=0):
    """Run `await test(harness)`; then every worker must end. Return the faults of the loop's exception handler."""
    loop = asyncio.get_running_loop()
    faults = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    harness = ExecutorHarness(loop, max_threads, extra_threads)
    try:
        await test(harness)
    finally:
        for gate in harness.gates:
            gate.set()
        harness.executor.stop()
        await asyncio.sleep(0)
    assert harness.executor.threads.join(PATIENCE_SECONDS) == []
    return faults


async def until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.0005)  # or the process would count as busy


class FakeHandleSet:
    """A lane without sockets: requests come, time passes and batches are taken when the test says so."""

    def __init__(self, executor):
        self.executor = executor
        self.batches = collections.deque()  # of jobs, each a batch of one `wait`
        self.woken = threading.Semaphore(0)
        self.waits = []  # milliseconds, and the waiting worker
        self.in_take = threading.Event()
        self.go_on = threading.Event()  # `take` waits for it
        self.go_on.set()
        self.error = None  # the error of `take`
        self.has_gil = threading.Event()  # `wait` returns only then, though something has come
        self.has_gil.set()
        self.is_waiting = False
        self.brought = ()  # by the last `wait`, and not yet taken
        self.clock, self.timer = socket.socketpair()
        self.clock.setblocking(False)

    @property
    def stall_fd(self):
        return self.clock.fileno()

    def wait(self, milliseconds):
        self.waits.append((milliseconds, threading.current_thread().name))
        self.is_waiting = True
        self.woken.acquire(timeout=3 * PATIENCE_SECONDS if milliseconds else 0)
        self.is_waiting = False
        self.brought = self.batches.popleft() if self.batches else []
        assert self.has_gil.wait(PATIENCE_SECONDS)
        return len(self.brought)

    def submit_arrivals(self, count):
        brought, self.brought = self.brought, ()
        assert count == len(brought)  # 0: the executor stops before the leader has waited
        self.in_take.set()
        assert self.go_on.wait(PATIENCE_SECONDS)
        error, self.error = self.error, None
        if error is not None:
            raise error
        for job in brought:
            self.executor.submit_here((job, None))

    def wake(self):
        self.woken.release()

    def flush(self):
        """There is nothing to be sent together."""

    def watch(self):
        self.timer.send(b"8 octets")  # the time is over at once

    # Acts of the test

    def bring(self, *jobs):
        """Requests come, all at once."""
        self.batches.append(jobs)
        self.woken.release()

    async def stall(self):
        """The time for a batch is over; return when the loop has seen it."""
        self.timer.send(b"8 octets")
        while True:
            await asyncio.sleep(0)
            try:
                self.clock.recv(8, socket.MSG_PEEK)
            except BlockingIOError:
                return

    def close(self):
        self.clock.close()
        self.timer.close()


async def run_with_leader(test, max_threads=8, extra_threads=0):
    """Run `await test(harness, handles)` with a leading worker; then every worker must end."""

    async def test_with_handles(harness):
        handles = FakeHandleSet(harness.executor)
        harness.executor.attach(handles)
        # A leader that only begins to wait would find a job of the loop's by itself.
        await until(lambda: handles.is_waiting)
        try:
            await test(harness, handles)
        finally:
            handles.go_on.set()
            for gate in harness.gates:
                gate.set()
            harness.executor.stop()
            await asyncio.sleep(0)
            assert harness.executor.threads.join(PATIENCE_SECONDS) == []
            handles.close()

    return await run(test_with_handles, max_threads, extra_threads)


def answering(harness):
    """Return a job, and a future of its thread's name."""
    done = harness.loop.create_future()
    return lambda _: harness.executor.post(resolve, done, threading.current_thread().name), done
