"""An app with many ways to hang: some end by an exception, some by nothing; and with ways to come back late."""

import contextlib
import sys
import threading
import time

import aserve

from . import apps

HOUR = 3600.0
CHUNK = b"x" * (1 << 16)


class Hanging:
    """An app with a way to hang for each path; shows the threads inside, and releases them when asked."""

    def __init__(self):
        self.inside = threading.Semaphore(0)  # released by each request that has begun to hang
        self.gate = threading.Lock()  # a hanging thread waits for this: a call that no exception ends
        self.gate.acquire()
        self.seen = []
        self.workers = []
        self.is_let_go = self.is_over = False

    def __call__(self, environ, start_response):
        self.workers.append(threading.current_thread())
        name = environ["PATH_INFO"][1:]
        try:
            return getattr(self, name)(environ, start_response) if name else apps.hello(environ, start_response)
        finally:
            if self.is_over:
                self.let_go()  # the next that hangs

    def end(self):
        """Let go all hanging threads, in turn: a later test looks at all threads of the process."""
        self.is_over = True
        self.let_go()

    def let_go(self):
        self.is_let_go = True
        with contextlib.suppress(RuntimeError):  # free already
            self.gate.release()

    def wait_for_one(self):
        assert self.inside.acquire(timeout=30)

    def compute(self):
        self.inside.release()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.001)

    def pass_gate(self):
        """Block in one call, which no exception ends; not even one that comes before the call has begun."""
        try:
            self.inside.release()
            self.gate.acquire(timeout=30)
        except aserve.RequestTimeout:
            if not self.is_let_go:
                self.gate.acquire(timeout=30)
            raise

    def block(self):
        try:
            self.pass_gate()
            for _ in range(1000):
                pass  # the end of a call is not always where CPython 3.14 and later raise a waiting exception; a loop's step is
        except aserve.RequestTimeout:
            self.seen.append("minded nothing")

    # Ways ended by an exception

    def computes(self, environ, start_response):
        try:
            self.compute()
        except Exception:
            self.seen.append("an Exception")  # it is none
        finally:
            self.seen.append("finally")
        return apps.hello(environ, start_response)

    def translates(self, environ, start_response):
        try:
            self.compute()
        finally:
            raise ValueError("made of it")

    def answers_itself(self, environ, start_response):
        try:
            self.compute()
        except aserve.RequestTimeout as exc:
            start_response("503 Too Slow", apps.PLAIN)
            return [str(exc).encode()]

    def started(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.compute()

    def lazily(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.compute()
        yield b"never"

    def closes(self, environ, start_response):
        start_response("200 OK", [("Content-Length", "4")])
        return ComputingClose(self)

    def streams(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one "
        self.compute()

    def minds_nothing(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one "
        try:
            self.compute()
        except BaseException:
            yield b"two"
        yield b"three"

    def writes(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)(b"one ")
        self.compute()

    # Ways not ended by one

    def blocks(self, environ, start_response):
        self.pass_gate()
        return apps.hello(environ, start_response)

    def swallows(self, environ, start_response):
        while not self.gate.acquire(blocking=False):
            try:
                self.inside.release()
                while not self.gate.acquire(blocking=False):
                    time.sleep(0.001)
                break
            except BaseException:
                self.seen.append("swallowed")
        return apps.hello(environ, start_response)

    def blocks_then_writes(self, environ, start_response):
        self.block()
        try:
            start_response("200 OK", apps.PLAIN)(b"late")
        finally:
            self.seen.append(sys.exc_info()[0])
        return []

    def blocks_until_it_writes(self, environ, start_response):
        self.inside.release()
        try:
            self.gate.acquire(timeout=30)
            start_response("200 OK", apps.PLAIN)(b"late")
        except aserve.RequestTimeout:
            self.seen.append("interrupted")
            raise

    def blocks_then_hints(self, environ, start_response):
        self.block()
        environ["wsgi.early_hints"]([("Link", "</style.css>")])

    def blocks_then_raises(self, environ, start_response):
        self.block()
        raise ValueError("late")

    def blocks_then_streams(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.block()
        return ClosingIterable(self.seen)

    def blocks_lazily(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.block()
        yield b"late"

    def streams_then_blocks(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one "
        self.block()
        yield b"late"

    def writes_then_blocks(self, environ, start_response):
        write = start_response("200 OK", apps.PLAIN)
        write(b"one ")
        self.block()
        write(b"late")
        return [b"later"]

    def floods(self, environ, start_response):
        start_response("200 OK", apps.PLAIN)
        self.inside.release()
        try:
            while True:
                yield CHUNK
        finally:
            self.seen.append("finally")

    def reads(self, environ, start_response):
        self.inside.release()
        start_response("200 OK", apps.PLAIN)
        return [environ["wsgi.input"].read()]


class ClosingIterable:
    """An iterable that tells its close."""

    def __init__(self, seen):
        self.seen = seen

    def __iter__(self):
        return iter([b"late"])

    def close(self):
        self.seen.append("closed")
        raise ValueError("in close()")


class ComputingClose(list):
    """A whole body, whose close() takes its time."""

    def __init__(self, app):
        super().__init__([b"four"])
        self.app = app

    def close(self):
        self.app.compute()


def deadlines_of(server):
    """Return the deadlines for which the tests let time pass."""
    return server.server._threads.deadlines


def messages(caplog, level="ERROR"):
    return [record.getMessage() for record in caplog.records if record.levelname == level]


@contextlib.contextmanager
def switching_often():
    """Let threads meet one another where they seldom do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
