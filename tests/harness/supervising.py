"""A supervisor without processes: forks, signals and ends are the test's, and so is the time."""

from __future__ import annotations

import os
import signal
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from aserve.compat.uwsgi_api.spooler.supervising import Spoolers
from aserve.core.page import MOLD, State
from aserve.features import Config, on_life
from aserve.features.control.supervising import ControlSocket
from aserve.features.metrics.several import Several
from aserve.features.programs import Named
from aserve.features.slow_requests.reports import Reports
from aserve.lifecycle.supervision import Supervision, SupervisorContext
from aserve.processes import acts as acts_module
from aserve.processes import crew as crew_module
from aserve.processes import supervisor as supervisor_module
from aserve.processes.children import child as child_module
from aserve.processes.children import children as children_module
from aserve.processes.children.channel import Channel, Message
from aserve.processes.children.child import Child
from aserve.processes.children.command import Command
from aserve.processes.children.poller import Clock
from aserve.processes.fleet.plan import Plan
from aserve.processes.monitoring import status as status_module
from aserve.processes.site import Site
from aserve.processes.supervisor import Supervisor
from aserve.processes.upgrade import upgrade as upgrade_module
from aserve.processes.upgrade.inheritance import Inheritance

# The modules that look at the clock.
CLOCKED = (acts_module, child_module, children_module, crew_module, status_module, upgrade_module)
COMMAND = Command(["/no/such/python", "-m", "aserve"], {}, "/")


class System:
    """The kernel's place: processes of numbers alone."""

    def __init__(self, monkeypatch: Any) -> None:
        self.now = 1000.0
        self.forks = 0
        self.fork_error: OSError | None = None
        self.signals: list[tuple[int, int]] = []  # pid, number
        self.ends: list[tuple[int, int]] = []  # pid, status in waitpid()'s form
        self.workers_ends: dict[int, Channel] = {}  # by pid
        self._pair, self._receive = Channel.pair, Channel.receive
        self._last: Channel | None = None
        clock = types.SimpleNamespace(
            monotonic=lambda: self.now, monotonic_ns=time.monotonic_ns
        )  # pages have the real one
        for module in CLOCKED:
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(os, "fork", self._fork)
        monkeypatch.setattr(os, "kill", lambda pid, number: self.signals.append((pid, number)))
        monkeypatch.setattr(os, "waitpid", self._waitpid)
        monkeypatch.setattr(children_module.Channel, "pair", self._new_pair)
        monkeypatch.setattr(Channel, "receive", lambda channel: self._receive_from(channel))
        monkeypatch.setattr(supervisor_module, "lib", types.SimpleNamespace(subreaper_begin=lambda: self.subreaper))
        self.subreaper = 0

    def close(self) -> None:
        """Close the workers' ends."""
        for channel in self.workers_ends.values():
            channel.close()

    def _new_pair(self) -> tuple[Channel, Channel]:
        ours, theirs = self._pair()
        self._last = theirs
        return ours, Channel(theirs._socket.dup())

    def _receive_from(self, channel: Channel) -> Any:
        """Receive, with the sender named by the message."""
        received = self._receive(channel)
        if received is not None and "pid" in received[0]:
            channel.sender_pid = received[0]["pid"]
        return received

    def fork_from_mold(self, fds: list[int]) -> int:
        """Fork as a mold is told to, with these descriptors; return the pid."""
        self.forget_last()
        os.close(fds[1])
        self._last = Channel.inherit(fds[0])
        return self._fork()

    def forget_last(self) -> None:
        """Leave the last worker's end of its channel to others, if it has not been forked here."""
        if self._last is not None and self._last not in self.workers_ends.values():
            self._last.close()

    def _fork(self) -> int:
        if self.fork_error is not None:
            assert self._last is not None
            self._last.close()
            raise self.fork_error
        self.forks += 1
        pid = 100 + self.forks
        assert self._last is not None
        self.workers_ends[pid] = self._last
        return pid

    def _waitpid(self, pid: int, flags: int) -> tuple[int, int]:
        assert (pid, flags) == (-1, os.WNOHANG)
        if self.ends:
            return self.ends.pop(0)
        raise ChildProcessError


class Supervised:
    """A Supervisor whose loop turns on demand."""

    def __init__(
        self,
        monkeypatch: Any,
        size: int = 2,
        inherited: Inheritance | None = None,
        listeners: Any = (),
        metrics_listeners: Any = (),
        environ: Any = None,
        extensions: Sequence[Supervision] = (),
        **settings: Any,
    ) -> None:
        self.system = System(monkeypatch)
        # Its workers are none, and never tick.
        self.settings = {"workers": size, "hang_warning_seconds": 0, "hang_timeout_seconds": 0, **settings}
        self.read_error: Exception | None = None
        self._metrics_listeners, self.extensions, self._inherited = metrics_listeners, extensions, inherited
        plan = (inherited.plan if inherited else None) or self._read()
        command = COMMAND._replace(environ=environ or {})
        site = Site(plan, self._read, listeners, command, self._supervise, on_life)
        self.supervisor = Supervisor(site, Clock(lambda: self.system.now))
        self.supervisor.open(inherited)
        selector = self.supervisor.parts.poller.selector
        select = selector.select
        selector.select = lambda seconds: select(0.0)  # type: ignore[method-assign,assignment,misc]

    def _supervise(self, context: SupervisorContext) -> list[Supervision]:
        """Count, also where nothing asks for numbers."""
        self.context = context
        self.several = Several(context._replace(bound=self._metrics_listeners), context.observed.config)
        kept = self._inherited.kept if self._inherited is not None else {}
        path = context.observed.config.control
        sockets = [ControlSocket(path, context.watch)] if path is not None else []
        return [self.several, *sockets, Reports(), Spoolers(context.words, kept), Named(), *self.extensions]

    def close(self) -> None:
        """Let go of all descriptors."""
        for child in self.children:
            child.close()
        self.system.close()
        self.supervisor.parts.let_go()

    def _read(self, before: Plan | None = None) -> Plan:
        if self.read_error is not None:
            raise self.read_error
        return Plan(Config(**self.settings), "a:app")

    @property
    def children(self) -> list[Child]:
        """Its children, the oldest first."""
        return list(self.supervisor.parts.children)

    def turn(self, seconds: float = 0.0) -> list[Child]:
        """Let so much time pass, while the loop turns; return the started children."""
        before = self.children
        for _ in range(int(seconds)):  # the acts of each second are done
            self._turn(1.0)
        self._turn(seconds % 1.0)
        return [child for child in self.children if child not in before]

    def _turn(self, seconds: float) -> None:
        self.system.now += seconds
        self.supervisor._wait()
        for _ in range(2):
            for start in self.supervisor._settle():
                forked = self.supervisor.fork(start)
                assert forked in (True, False), "this is no child"
                self.system.forget_last()
                if not forked:
                    break

    def start(self) -> list[Child]:
        """Let all become ready; return them."""
        while starting := [child for child in (self.turn(), self.children)[1] if child.state == State.STARTING]:
            for child in starting:
                self.say(child, say="ready")
        return self.children

    @property
    def molds(self) -> list[Child]:
        """Its molds, the oldest first."""
        return [child for child in self.children if child.slot == MOLD]

    def fork_from(self, mold: Child) -> list[Child]:
        """Let a mold obey; return the begun workers."""
        pids = []
        for message, fds in self.heard(mold):
            if message["do"] == "fork":
                pids.append(self.system.fork_from_mold(fds))
                self.system.workers_ends[pids[-1]].send({"say": "begun", "pid": pids[-1]})
        self.turn()
        return [child for child in self.children if child.pid in pids]

    def say(self, child: Child, fd: int | None = None, **message: Any) -> None:
        """Let a worker say something, and the supervisor hear it."""
        self.system.workers_ends[child.pid].send(message, [] if fd is None else [fd])
        self.turn()

    def heard(self, child: Child) -> list[tuple[Message, list[int]]]:
        """Return a worker's orders, with descriptors, since the last time."""
        found = []
        while True:
            try:
                received = self.system.workers_ends[child.pid].receive()
            except BlockingIOError:
                return found
            if received is None:
                return found
            found.append(received)

    def leave(self, *children: Child) -> None:
        """Let draining workers tell that they accept nobody any more."""
        for child in children:
            self.say(child, say="left")

    def end(self, child: Child, status: int = 0, number: int = 0) -> list[Child]:
        """Let a worker end, with this status or by this signal; return the children started then."""
        self.system.workers_ends[child.pid].close()
        self.system.ends.append((child.pid, number or status << 8))
        self.signal(signal.SIGCHLD)
        return self.turn()

    def reap(self) -> None:
        """Let the supervisor see to its ended children, before anything else happens."""
        self.supervisor.events.reap()
        self.supervisor._settle()

    def signal(self, number: signal.Signals) -> None:
        signal.raise_signal(number)
        self.turn()


@pytest.fixture
def system(monkeypatch: Any) -> Iterator[System]:
    system = System(monkeypatch)
    yield system
    system.close()


@pytest.fixture
def supervised(monkeypatch: Any, caplog: Any) -> Iterator[Any]:
    """each gives signals back to their former owner"""
    caplog.set_level("INFO", "aserve")
    made = []

    def make(size: int = 2, **settings: Any) -> Supervised:
        made.append(Supervised(monkeypatch, size, **settings))
        return made[-1]

    yield make
    for one in reversed(made):  # each gives signals back to who had them before it
        one.close()


# A worker's order when another takes its place.
LEAVE = {"do": "drain", "stopping": False}


def slots_of(children: Iterable[Child]) -> list[int]:
    return [child.slot for child in children]


def told(one: Supervised, child: Child) -> list[Message]:
    """Return a worker's orders since the last look."""
    return [message for message, _ in one.heard(child)]
