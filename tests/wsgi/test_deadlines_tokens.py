"""An app's interruptible places: its own code, never a call of ours within, and once."""

import contextlib
import random
import threading
import time
import types

import pytest
from harness.hanging import HOUR, switching_often
from harness.waiting import PATIENCE_SECONDS

import aserve
from aserve.core.body import LiveBody
from aserve.core.errors import AppError, WrittenOff
from aserve.core.exchange import Exchange
from aserve.wsgi.deadlines import ANSWER_SECONDS, Deadlines, Run


class FakeExecutor:
    def name_of(self, thread_id):
        return "worker"


def new_run(seconds=HOUR):
    return Run(Deadlines(seconds, FakeExecutor(), 1, pytest.fail), Exchange("", 0))


def elsewhere(function):
    """Return a function's result in a thread that is no worker's."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return results[0]


def owns(run):
    """Whether a worker has the exchange."""
    return not elsewhere(lambda: run._ownership.acquire(blocking=False) and run._ownership.release() is None)


def test_nothing_interrupts_what_the_app_calls_of_ours():
    """There is neither token in it, also where it calls itself."""
    run = new_run()

    def is_uninterruptible():
        return not run.take_interruptible() and owns(run)

    def nested():
        assert run.guard(is_uninterruptible)()
        return is_uninterruptible()

    def app():
        assert run.guard(nested)()
        with pytest.raises(ZeroDivisionError):
            run.guard(lambda: 1 // 0)()
        return run._interruptible == [None] and not owns(run)

    assert run.call(app)
    assert is_uninterruptible()


def test_the_app_in_a_worker_that_is_outside_of_it():
    """A finalizer may run there, and call into aserve: nothing may come that it would have to wait for."""
    run = new_run()
    guarded = run.guard(lambda: (bool(run._interruptible), owns(run)))
    said = [guarded()]  # before the app
    assert run.call(lambda: guarded()) == (False, True)
    said.append(guarded())  # between two pieces of it
    run.call(int)
    run.end()
    said.append(guarded())
    assert said == [(False, True)] * 3


@pytest.mark.parametrize("token", ["_disarm", "_regain_ownership"])
def test_a_finalizer_within_a_guard(monkeypatch, token):
    """The collector runs where it likes: a call into aserve just behind either token waits for neither."""
    run, said = new_run(), []
    take = getattr(Run, token)

    def take_then_finalize(self, *arguments):
        taken = take(self, *arguments)
        if not said:
            said.append("finalizer")
            said.append(guarded())
        return taken

    guarded = run.guard(lambda: "ours")
    monkeypatch.setattr(Run, token, take_then_finalize)
    assert run.call(lambda: guarded()) == "ours"
    assert said == ["finalizer", "ours"] and not run._interruptible and owns(run)


def test_a_finalizer_of_another_request():
    """It waits for no exchange in another's worker, as that exchange may be waited for as well."""
    run, other = new_run(), elsewhere(new_run)
    other._deadlines.runs[threading.get_ident()] = run
    other.exchange.connection = types.SimpleNamespace(service=types.SimpleNamespace(loop=None))
    with pytest.raises(AppError, match="the response of another request between two calls of the app"):
        other.guard(int)()


def test_who_misses_a_token_that_was_only_looked_for():
    """A loop that comes too late lets the worker go on."""
    run = new_run()
    assert not run.take_interruptible()
    assert not run._disarm()
    assert run.call(lambda: run.guard(int)()) == 0


def test_a_worker_waits_for_its_interrupt():
    """Where the loop has the token, nothing of ours runs before the interrupt has been made."""
    run = new_run()
    said = []

    def app():
        assert elsewhere(run.take_interruptible)
        threading.Timer(0.02, lambda: said.append("made") or setattr(run, "is_interrupted", True)).start()
        run.guard(lambda: said.append("ours"))()

    run.call(app)
    assert said == ["made", "ours"]


def test_a_second_thread_of_the_app():
    """It is never interrupted, does not make its worker uninterruptible, and may be late."""
    run = new_run()
    results = []
    guarded = run.guard(lambda: results.append(bool(run._interruptible)))

    def app():
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        thread.join(30)

    run.call(app)
    assert results == [True]
    run.end()
    app()
    assert results == [True, False]
    guarded()
    assert len(results) == 3


def test_in_a_child_nobody_waits_for_an_interrupt():
    """A process forked while its request is interrupted, or answered, has no loop to finish that."""
    for take in (lambda run: run.take_interruptible(), lambda run: run.take_interruptible() and run.take_ownership()):
        run = new_run()

        def app(run=run, take=take):
            assert elsewhere(lambda: take(run))
            run._deadlines.on_forked()
            return "done"

        with contextlib.suppress(WrittenOff):
            assert run.call(app) == "done"


def test_an_interrupt_at_the_last_moment():
    """A value returned by then is returned."""
    run = new_run()

    def app():
        return "done"

    class InterruptedLate(Run):
        __slots__ = ()

        def _disarm(self):
            raise aserve.RequestTimeout

    late = InterruptedLate(run._deadlines, run.exchange)
    assert late.call(app) == "done"


def test_an_answer_to_a_refused_body():
    """A worker that waits for its body can answer: the connection is aborted only if the answer is not out some seconds later."""
    aborted = []
    exchange = Exchange("", 0)
    exchange.body = LiveBody(1 << 16, is_chunked=False)
    exchange.connection = types.SimpleNamespace(abort_slow_reader=lambda *what: aborted.append(what))
    deadlines = Deadlines(HOUR, FakeExecutor(), 1, pytest.fail)
    run = Run(deadlines, exchange)
    run.since -= 2 * HOUR
    for _ in range(3):
        deadlines.on_second()
        assert exchange.body.refusal.status == 504 and aborted == []
    run.refused_at -= ANSWER_SECONDS
    deadlines.on_second()
    assert [what[0] for what in aborted] == [exchange]


def test_interrupts_hit_the_app_alone(no_collector):
    """However close to its end: never before it, never behind it, and once at most."""
    executor = FakeExecutor()
    deadlines = Deadlines(HOUR, executor, 1, pytest.fail)
    interrupt = deadlines._interrupt
    assert interrupt is not None
    counts = {"returned": 0, "interrupted": 0, "guarded": 0}
    outside = []
    end = time.monotonic() + 10
    exchange = Exchange("", 0)

    def is_over():
        """Enough has happened; on a busy machine less must do."""
        return min(counts["interrupted"], counts["returned"]) > 200 or time.monotonic() > end

    def ours():
        total = 0
        for number in range(20):
            total += number
        return total

    def work():
        try:
            while not is_over():
                size = random.randrange(60)
                run = Run(deadlines, exchange)
                guarded = run.guard(ours)

                def app(size=size, guarded=guarded):
                    total = 0
                    for number in range(size):
                        total += number
                        if number % 16 == 0:
                            try:
                                guarded()
                            finally:
                                counts["guarded"] += 1
                    return total

                try:
                    for _ in range(2):
                        run.call(app)
                    counts["returned"] += 1
                except aserve.RequestTimeout:
                    counts["interrupted"] += 1
                run.end()
                assert not run._interruptible
                assert run._ownership._is_owned()
                ours()
        except BaseException as exc:
            outside.append(exc)
            raise

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    with switching_often():
        for thread in threads:
            thread.start()
        while not is_over():
            for run in list(deadlines.runs.values()):
                if run.interrupted_at is None and run.take_interruptible():
                    run.interrupted_at = 0.0
                    if random.random() < 0.3:
                        time.sleep(0)  # the worker comes to wait for it
                    interrupt(run.thread_id, aserve.RequestTimeout)
                    run.is_interrupted = True
            time.sleep(random.random() * 0.0005)
        for thread in threads:
            thread.join(30)
    assert outside == []
    assert counts["interrupted"] > 10
    assert counts["returned"] > 10
