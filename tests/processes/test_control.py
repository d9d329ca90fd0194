"""The control socket: who may ask, one question and its answer, and callers that misbehave."""

from __future__ import annotations

import os
import selectors
import stat
import types

import pytest
from harness.callers import TestCaller

from aserve import forks
from aserve.errors import BindError
from aserve.processes import control as control_module
from aserve.processes.control import Control, open_control


class Loop:
    """A selector that turns when it is told to."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()

    def watch(self, fd, callback, wants_room):
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_room else 0)
        if callback is None:
            self.selector.unregister(fd)
        elif fd in self.selector.get_map():
            self.selector.modify(fd, events, callback)
        else:
            self.selector.register(fd, events, callback)

    def turn(self):
        while ready := self.selector.select(0):
            for key, _ in ready:
                if key.fd in self.selector.get_map():
                    key.data()


class Setup:
    def __init__(self, path):
        self.path, self.loop, self.asked, self.callers = path, Loop(), [], []
        self.control = Control(str(path), self.loop.watch, {"it": self._answer, "later": self._keep})

    def _answer(self, caller, message):
        self.asked.append(message)
        caller.say({"said": message.get("what")})
        caller.end()

    def _keep(self, caller, message):
        self.asked.append(caller)

    def call(self):
        self.callers.append(TestCaller(self.path))
        self.loop.turn()
        return self.callers[-1]

    def close(self):
        for caller in self.callers:
            caller.close()
        self.control.close()
        self.loop.selector.close()


@pytest.fixture
def setup(tmp_path):
    one = Setup(tmp_path / "control")
    yield one
    one.close()


def test_question_and_answer(setup):
    """It is answered on a line of its own, and the connection closed; a question may come in parts."""
    caller = setup.call()
    caller.sock.sendall(b'{"ask": "it", ')
    setup.loop.turn()
    assert caller.read() == [] and not caller.is_answered
    caller.sock.sendall(b'"what": 1}\n')
    setup.loop.turn()
    assert caller.read() == [{"said": 1}] and caller.is_answered


@pytest.mark.parametrize("octets", [b"status\n", b"[1]\n", b"x" * 5000, b"\xff\n"])
def test_what_is_no_question(setup, octets):
    """It is told what one looks like."""
    caller = setup.call()
    caller.sock.sendall(octets)
    setup.loop.turn()
    assert caller.read()[0]["error"].startswith("a question is an object in JSON") and caller.is_answered


def test_an_unknown_question(setup):
    """It is told what it may ask for."""
    caller = setup.call()
    caller.ask(ask="nothing")
    setup.loop.turn()
    assert caller.read() == [{"error": "ask for one of it, later"}]


def test_only_the_own_user_may_ask(setup, monkeypatch, caplog):
    """Nobody else can open the file; and if somebody else could, the kernel tells who it is."""
    assert stat.S_IMODE(os.stat(setup.path).st_mode) == 0o600
    monkeypatch.setattr(control_module, "credentials_of", lambda sock: types.SimpleNamespace(uid=os.geteuid() + 4711))
    caller = setup.call()
    caller.ask(ask="it")
    setup.loop.turn()
    assert caller.read() == [{"error": "only root and the user that the server runs as may ask"}]
    assert setup.asked == [] and f"user {os.geteuid() + 4711} asked, and was refused" in caplog.text


def test_where_the_system_does_not_tell_who_calls(setup, monkeypatch):
    """The file's mode decides alone."""
    monkeypatch.setattr(control_module, "credentials_of", lambda sock: None)
    caller = setup.call()
    caller.ask(ask="it")
    setup.loop.turn()
    assert caller.read() == [{"said": None}]


def test_an_answer_that_comes_later(setup):
    """The caller waits; what else it sends is not read as a question."""
    caller = setup.call()
    caller.ask(ask="later")
    caller.ask(ask="it")
    setup.loop.turn()
    (kept,) = setup.asked
    kept.say({"a": 1})
    kept.end()
    assert caller.read() == [{"a": 1}] and caller.is_answered


def test_a_caller_that_reads_late(setup):
    """What it has not read waits in memory; everything arrives."""
    caller = setup.call()
    caller.ask(ask="later")
    setup.loop.turn()
    (kept,) = setup.asked
    for number in range(20):
        kept.say({"number": number, "text": "x" * 50_000})
    kept.end()
    while not caller.is_answered:
        found = caller.read()
        setup.loop.turn()
    assert [message["number"] for message in found] == list(range(20))


def test_a_caller_that_does_not_read(setup, monkeypatch, caplog):
    """It is closed when too much waits for it."""
    monkeypatch.setattr(control_module, "MAX_UNSENT_BYTES", 1000)
    caller = setup.call()
    caller.ask(ask="later")
    setup.loop.turn()
    (kept,) = setup.asked
    kept.say({"text": "x" * 1000})
    kept.say({"text": "more"})
    assert not kept.is_open and "does not read its answer" in caplog.text


def test_a_caller_that_goes(setup):
    """An answer for one that has gone is dropped."""
    caller, other = setup.call(), setup.call()
    for one in (caller, other):
        one.ask(ask="later")
    setup.loop.turn()
    caller.close()
    setup.asked[0].say({"text": "x"})
    other.close()
    setup.loop.turn()
    for kept in setup.asked:
        assert not kept.is_open
        kept.say({"text": "x"})
        kept.end()


def test_too_many_callers(setup, monkeypatch):
    """The one that came first is closed."""
    monkeypatch.setattr(control_module, "MAX_CALLERS", 2)
    first, second, third = (setup.call() for _ in range(3))
    first.read()
    assert first.is_answered
    for caller in (second, third):
        caller.ask(ask="it")
        setup.loop.turn()
        assert caller.read() == [{"said": None}]


def test_another_server_is_there(setup):
    """A path where somebody answers is not taken away."""
    with pytest.raises(BindError, match="another program is serving on this socket"):
        Control(str(setup.path), setup.loop.watch, {})


def test_the_end(setup):
    """The file goes, and who has asked hears that there is no answer."""
    caller = setup.call()
    setup.control.close()
    caller.read()
    assert caller.is_answered and not setup.path.exists()
    setup.control = Control(str(setup.path), setup.loop.watch, {})


def test_a_process_that_was_forked(setup):
    """It closes what it has of all that; the file stays."""
    setup.call()
    assert setup.control.on_forked() == ([], [forks.local_address(setup.control._listener.socket.fileno())])
    fds = list(setup.loop.selector.get_map())
    setup.control.let_go()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    assert setup.path.exists()
    setup.control = types.SimpleNamespace(close=lambda: None)


def test_a_socket_that_cannot_be_had(tmp_path, caplog):
    """At the start it is an error; new code of a supervisor whose workers serve goes on without it."""
    path = str(tmp_path / "no" / "control")
    with pytest.raises(BindError, match=r"the folder .* does not exist"):
        open_control(path, lambda *_: None, {}, is_upgraded=False)
    assert open_control(path, lambda *_: None, {}, is_upgraded=True) is None
    assert "--control: cannot listen on" in caplog.text and "; serving without it" in caplog.text


def test_none_is_asked_for():
    """Without --control there is none."""
    assert open_control(None, lambda *_: None, {}, is_upgraded=False) is None
