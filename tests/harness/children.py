"""`pytest --children 4`: this process collects the tests once, then forks children that run them.

pytest-xdist has each of its processes collect all tests; here the tests, and on PyPy the JIT's code so far, are there when a child begins. Each child
has a share of the tests in their order, and a child without tests takes half of the largest share. A test whose child dies has failed, and another
child goes on in its place. Where the run ends before its time, as with -x or by SIGTERM, children are interrupted, and tear down their fixtures. A
line tells each failure at once, and each minute the progress of the run.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import multiprocessing.connection
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import pytest

from aserve.core import forks

from .side_by_side import Turns, end_with_parent

ENDS = (signal.SIGINT, signal.SIGTERM)
LOOKS_EACH_SECONDS = 1.0  # for dead children, where no report comes. Guess.
LOSSES_AT_MOST = 10  # dead children; then the run ends. Guess.
TELLS_EACH_SECONDS = 60.0  # how far the run is
END_SECONDS = 30.0  # for a child's teardown. Guess.


def configure(config: pytest.Config) -> None:
    """Take part if asked for; with --pdb, and where tests are only listed, pytest does all itself."""
    option = config.option
    if option.children and not option.collectonly and not option.usepdb:
        config.pluginmanager.register(Parent(option.children, getattr(option, "part", None) or "all"), "parent")


class Shares:
    """The tests left to run: for each child the numbers from a first to an end, in memory shared by all."""

    def __init__(self, children: int, count: int, lock: IO[bytes]) -> None:
        self._lock = lock  # a file; the system releases the lock when the owner dies
        size = array.array("q").itemsize
        cells = memoryview(mmap.mmap(-1, 4 * children * size)).cast("q")
        self._first, self._end = cells[:children], cells[children : 2 * children]
        self._runs, self._follows = cells[2 * children : 3 * children], cells[3 * children :]
        for child in range(children):
            self._first[child], self._end[child] = child * count // children, (child + 1) * count // children
            self._runs[child] = self._follows[child] = -1

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)  # of a process, so shared with no child
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def take(self, child: int) -> int:
        """Return the next test for a child; -1: there is none."""
        with self._alone():
            if self._first[child] == self._end[child]:
                self._take_half(child)
            if self._first[child] == self._end[child]:
                return -1
            self._first[child] += 1
            return self._first[child] - 1

    def _take_half(self, child: int) -> None:
        lefts = [end - first for first, end in zip(self._first, self._end)]
        largest = max(range(len(lefts)), key=lefts.__getitem__)
        count = (lefts[largest] + 1) // 2
        end = self._end[largest]
        self._first[child], self._end[child] = end - count, end
        self._end[largest] = end - count

    def pairs(self, child: int) -> Iterator[tuple[int, int]]:
        """Yield each test for a child, and the next: -1, no more. The next is taken first, as fixtures may outlive a test."""
        number = self._follows[child] if self._follows[child] >= 0 else self.take(child)
        while number >= 0:
            self._follows[child] = -1  # before `runs`: whichever the child dies at, no test runs twice
            self._runs[child] = number
            self._follows[child] = self.take(child)
            yield number, self._follows[child]
            number = self._follows[child]
        self._runs[child] = -1

    def at(self, child: int) -> int:
        """Return the test of a child; -1: none."""
        return self._runs[child]

    def give_up(self, child: int) -> int:
        """Return an ended child's test, and forget the number before the next child; -1: none."""
        number, self._runs[child] = self._runs[child], -1
        return number


class Child(NamedTuple):
    """A process running tests."""

    number: int
    pid: int
    reports: multiprocessing.connection.Connection


class Parent:
    """The plugin in the collecting process."""

    def __init__(self, count: int, part: str) -> None:
        self._count = count
        self._name = f"{platform.python_implementation()} {platform.python_version()}, {part}"
        self._children: dict[Any, Child] = {}  # by their connections
        self._since: dict[int, float] = {}  # when each child began its test
        self._done = self._lost = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Have children run all tests, in place of pytest's own loop."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # pytest ends the run
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        with tempfile.TemporaryDirectory(prefix="aserve-") as self._turns, tempfile.TemporaryFile() as lock:
            self._shares = Shares(self._count, len(session.items), lock)
            tells_at = time.monotonic() + TELLS_EACH_SECONDS
            signal.signal(signal.SIGTERM, lambda *_: self._on_limit(session))
            try:
                for number in range(self._count):
                    self._fork(session, number)
                while self._children:
                    ready = multiprocessing.connection.wait([*self._children], LOOKS_EACH_SECONDS)
                    for connection in ready:
                        self._receive(session, self._children[connection])
                    for child in [] if ready else [*self._children.values()]:
                        self._look(session, child)
                    if time.monotonic() > tells_at:
                        tells_at += TELLS_EACH_SECONDS
                        self._say(f"{self._done} of {len(session.items)} tests, {session.testsfailed} failed")
            finally:
                self._end()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return True

    def _say(self, text: str) -> None:
        """Write a line at once, to the descriptor in TELL: make shows the output of a part only when the part ends."""
        os.write(int(os.environ.get("TELL", 2)), f"{time.strftime('%H:%M:%S')} {self._name}: {text}\n".encode())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell a failure."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else report.longreprtext
            self._say(f"FAILED {report.nodeid}: {reason.partition(chr(10))[0]}")

    def _on_limit(self, session: pytest.Session) -> None:
        """End the run, and tell the state."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ran = [
            f"{session.items[number].nodeid} (for {time.monotonic() - self._since[child.number]:.0f} s)"
            for child in self._children.values()
            if (number := self._shares.at(child.number)) >= 0
        ]
        text = f"SIGTERM after {self._done} of {len(session.items)} tests; these ran: {', '.join(ran)}"
        self._say(text)
        raise session.Interrupted(text)

    def _fork(self, session: pytest.Session, number: int) -> None:
        reports, sender = multiprocessing.Pipe(duplex=False)
        session.config.get_terminal_writer().flush()  # or each child writes the rest, too
        # Not before `run_child` catches the signals, and the child is known here.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        pid = os.fork()
        if pid == 0:
            for connection in [reports, *self._children]:
                connection.close()
            run_child(session, self._shares, number, sender, self._turns)
        sender.close()
        self._children[reports] = Child(number, pid, reports)
        self._since[number] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)

    def _receive(self, session: pytest.Session, child: Child) -> None:
        if not self._tell(session, child):
            self._on_end(session, child, os.waitpid(child.pid, 0)[1])

    def _tell(self, session: pytest.Session, child: Child) -> bool:
        """Pass on the reports of a test; False: no more come."""
        hook = session.config.hook
        messages = None
        with contextlib.suppress(EOFError, OSError):  # OSError: killed while sending
            messages = child.reports.recv()
        if messages is None:
            return False
        self._done += 1
        self._since[child.number] = time.monotonic()
        for data in messages:
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=data))
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _look(self, session: pytest.Session, child: Child) -> None:
        pid, wait_status = os.waitpid(child.pid, os.WNOHANG)
        if pid:  # a process forked by a test holds the pipe open, or the child has just ended
            self._on_end(session, child, wait_status)

    def _on_end(self, session: pytest.Session, child: Child, wait_status: int) -> None:
        del self._children[child.reports]  # first: the child is waited for, and the last words may end the run
        with child.reports:
            while child.reports.poll() and self._tell(session, child):
                pass
        status = os.waitstatus_to_exitcode(wait_status)
        number = self._shares.give_up(child.number)
        if status == 0 and number < 0:
            return
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        if number < 0:
            raise session.Interrupted(f"a process of tests has ended by {name} outside of a test")
        item = session.items[number]
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"the process that ran it has ended: {name}", "call"
        )
        session.config.hook.pytest_runtest_logreport(report=report)
        self._lost += 1
        self._done += 1
        if self._lost > LOSSES_AT_MOST:
            raise session.Interrupted(
                f"{self._lost} processes of tests have ended before they were done, the last by {name}"
            )
        self._fork(session, child.number)

    def _end(self) -> None:
        """Interrupt the remaining children, and wait; kill the rest."""
        pids = [child.pid for child in self._children.values()]
        for child in self._children.values():
            child.reports.close()  # a child with the signal ignored by a test ends at the next report
            os.kill(child.pid, signal.SIGINT)
        ends_at = time.monotonic() + END_SECONDS
        try:
            while pids and time.monotonic() < ends_at:
                for pid in [*pids]:
                    if os.waitpid(pid, os.WNOHANG)[0]:
                        pids.remove(pid)
                time.sleep(0.02)
        finally:  # at a second Ctrl-C, too
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


class Reporter:
    """In a child, in place of the terminal reporter: sends the reports of each test. Timeouts write their stacks to `_tw`."""

    def __init__(self, config: pytest.Config, sender: multiprocessing.connection.Connection) -> None:
        self._config = config
        self._sender = sender
        self._tw = config.get_terminal_writer()
        self._messages: list[Any] = []

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report until the test is done; a silent fixture, set up or ended, is no report."""
        if report.when != "call" and report.passed and not report.sections and not self._config.option.durations:
            return
        self._messages.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        self._sender.send(self._messages)
        self._messages = []


def run_child(
    session: pytest.Session, shares: Shares, number: int, sender: multiprocessing.connection.Connection, turns: str
) -> None:
    """Run tests until none is left, then end this process without a return."""
    status, terminal = 3, 2
    try:
        terminal = os.dup(2)  # capture takes 2 itself
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background commands ignore SIGINT
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        begin_child(session.config, number, sender, turns)
        for at, following in shares.pairs(number):
            item = session.items[at]
            nextitem = session.items[following] if following >= 0 else None
            if nextitem is item:  # --repeat: torn down whole
                nextitem = None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            if session.shouldfail:  # the parent ends the run, and would interrupt the next test at the start
                break
        save_coverage()
        status = 0
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes from the terminal, and from the parent once more
        depth = -1 if isinstance(error, KeyboardInterrupt) else None  # the place is enough
        os.write(terminal, traceback.format_exc(depth).encode())
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)
    finally:
        os._exit(status)


def begin_child(config: pytest.Config, number: int, sender: multiprocessing.connection.Connection, turns: str) -> None:
    """Make the parent's output, folders and turns this process's own."""
    end_with_parent()
    plugins = config.pluginmanager
    capture = plugins.getplugin("capturemanager")
    if capture is not None and capture._global_capturing is not None:  # into a file shared by all children
        capture.stop_global_capturing()
        capture.start_global_capturing()
    reporter = Reporter(config, sender)
    plugins.unregister(name="parent")
    plugins.unregister(plugins.getplugin("terminalreporter"))
    plugins.register(reporter, "terminalreporter")
    plugins.register(Turns(turns))
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"child-{number}"
    factory._basetemp.mkdir(exist_ok=True)
    forks.forked.clear()  # a child of pytest's, and of no app


def save_coverage() -> None:
    """Write the coverage, if measured: this process ends without `atexit`."""
    coverage = sys.modules.get("coverage")
    measuring = coverage.Coverage.current() if coverage is not None else None
    if measuring is not None:
        measuring.stop()
        measuring.save()
