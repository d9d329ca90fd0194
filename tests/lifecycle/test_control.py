"""The control socket: its users, one question and its answer, and misbehaving callers."""

import errno
import logging
import os
import selectors
import socket
import stat
import types

import pytest
from harness.callers import TestCaller

from aserve.core import forks
from aserve.core.errors import BindError
from aserve.lifecycle import control as control_module
from aserve.lifecycle.control import Control, open_control, watch_with


class Loop:
    """A selector that turns on demand."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()

        self.watch = watch_with(self.selector)
        self.delayed = []

    def later(self, seconds, call):
        self.delayed.append((seconds, call))

    def turn(self):
        for _ in range(1000):
            ready = self.selector.select(0)
            if not ready:
                return
            for key, _ in ready:
                if key.fd in self.selector.get_map():
                    key.data()
        pytest.fail(f"it spins: {ready}")


class Refusing:
    """A listener without descriptors."""

    def __init__(self, listener, number):
        self.socket = self
        self.fileno = listener.socket.fileno
        self._number = number

    def accept(self):
        raise OSError(self._number, os.strerror(self._number))


class Setup:
    def __init__(self, path):
        self.path, self.loop, self.asked, self.callers = path, Loop(), [], []
        self.control = self.new({"it": self._answer, "later": self._keep})

    def new(self, answers):
        return Control(str(self.path), self.loop.watch, answers, self.loop.later)

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
    """The answer is a line, and the connection closes; a question may come in parts."""
    caller = setup.call()
    caller.sock.sendall(b'{"ask": "it", ')
    setup.loop.turn()
    assert caller.read() == [] and not caller.is_answered
    caller.sock.sendall(b'"what": 1}\n')
    setup.loop.turn()
    assert caller.read() == [{"said": 1}] and caller.is_answered


@pytest.mark.parametrize(
    "octets",
    [
        b"status\n",
        b"[1]\n",
        b"x" * 5000,
        b"\xff\n",
        b"[" * 4000 + b"\n",
        b'{"ask": ["status"]}\n',
        b'{"ask": "it", "what": {}}\n',
    ],
    ids=["a word", "a list", "long", "octets", "deep", "a list in it", "an object in it"],
)
def test_what_is_no_question(setup, octets):
    """The answer shows a right question."""
    caller = setup.call()
    caller.sock.sendall(octets)
    setup.loop.turn()
    assert caller.read()[0]["error"].startswith("a question is an object in JSON") and caller.is_answered


def test_an_unknown_question(setup):
    """The answer has the known questions."""
    caller = setup.call()
    caller.ask(ask="nothing")
    setup.loop.turn()
    assert caller.read() == [{"error": "ask for one of it, later"}]


def test_only_the_own_user_may_ask(setup, monkeypatch, caplog):
    """Nobody else can open the file; if somebody could, the kernel tells the caller."""
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
    """The caller waits; its further octets are not read as a question."""
    caller = setup.call()
    caller.ask(ask="later")
    caller.ask(ask="it")
    setup.loop.turn()
    (kept,) = setup.asked
    kept.say({"a": 1})
    kept.end()
    assert caller.read() == [{"a": 1}] and caller.is_answered


def test_a_caller_that_does_not_read(setup, monkeypatch, caplog):
    """The caller is closed when too much waits for it."""
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


def test_a_caller_that_goes_without_reading(setup):
    """The kernel tells a reset; its earlier octets are not read as a question."""
    caller = setup.call()
    for _ in range(2):
        caller.ask(ask="later")
        setup.loop.turn()
    (kept,) = setup.asked
    kept.say({"text": "x"})
    caller.close()
    setup.loop.turn()
    assert not kept.is_open


@pytest.mark.parametrize("is_half_closed", [False, True])
def test_a_caller_that_reads_late(setup, is_half_closed):
    """A caller with a closed side has asked, too; unread octets of a long answer wait in memory, and everything arrives."""
    caller = setup.call()
    caller.ask(ask="later")
    if is_half_closed:
        caller.sock.shutdown(socket.SHUT_WR)
    setup.loop.turn()
    (kept,) = setup.asked
    assert kept.is_open
    for number in range(20):
        kept.say({"number": number, "text": "x" * 50_000})
    kept.end()
    setup.loop.turn()  # it waits for room, and for nothing else
    while not caller.is_answered:
        found = caller.read()
        setup.loop.turn()
    assert [message["number"] for message in found] == list(range(20)) and not kept.is_open


def test_a_caller_that_says_no_more_and_goes(setup):
    """The caller is closed when its answer cannot be sent, whether coming or begun."""
    callers = setup.call(), setup.call()
    for caller in callers:
        caller.ask(ask="later")
        caller.sock.shutdown(socket.SHUT_WR)
    setup.loop.turn()
    begun, waiting = setup.asked
    begun.say({"text": "x" * 1_000_000})
    for caller in callers:
        caller.close()
    setup.loop.turn()
    assert not begun.is_open and waiting.is_open
    waiting.say({"text": "x"})
    assert not waiting.is_open


def test_a_caller_that_leaves_without_a_question(setup):
    """Nothing is kept of it."""
    caller = setup.call()
    caller.sock.sendall(b'{"ask": ')
    caller.sock.shutdown(socket.SHUT_WR)
    setup.loop.turn()
    assert caller.read() == [] and caller.is_answered


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_no_descriptor_is_left(setup, monkeypatch, number):
    """The caller waits for a second, and the loop does not spin."""
    with monkeypatch.context() as patch:
        patch.setattr(setup.control, "_listener", Refusing(setup.control._listener, number))
        caller = setup.call()
        caller.ask(ask="it")
        setup.loop.turn()
        assert caller.read() == [] and not caller.is_answered
    ((seconds, again),) = setup.loop.delayed
    again()
    setup.loop.turn()
    assert seconds == 1 and caller.read() == [{"said": None}]
    setup.control.close()
    again()  # it was closed meanwhile
    setup.control = setup.new({})


def test_a_call_that_was_given_up(setup, monkeypatch):
    """Others are accepted as before."""
    with monkeypatch.context() as patch:
        patch.setattr(setup.control, "_listener", Refusing(setup.control._listener, errno.ECONNABORTED))
        setup.control._on_call()
    assert setup.loop.delayed == []
    caller = setup.call()
    caller.ask(ask="it")
    setup.loop.turn()
    assert caller.read() == [{"said": None}]


def test_too_many_callers(setup, monkeypatch):
    """The oldest is closed."""
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
    with pytest.raises(BindError, match="another program listens on this socket"):
        setup.new({})


def test_a_socket_that_cannot_be_had(setup, caplog):
    """The failure is an error, or a line of the level named by the caller."""
    args = str(setup.path), lambda *_: None, {}, lambda *_: None
    with pytest.raises(BindError, match="see --control"):
        open_control(*args, None)
    assert open_control(*args, logging.ERROR) is None and "cannot ask this server: cannot listen on" in caplog.text


def test_the_end_removes_the_file(setup):
    caller = setup.call()
    setup.control.close()
    caller.read()
    assert caller.is_answered and not setup.path.exists()
    setup.control = setup.new({})


def test_a_process_that_was_forked(setup):
    """The child closes its copies; the file stays."""
    setup.call()
    assert setup.control.on_forked() == ([], [forks.local_address(setup.control._listener.socket.fileno())])
    fds = list(setup.loop.selector.get_map())
    setup.control.let_go()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    assert setup.path.exists()
    setup.control = types.SimpleNamespace(close=lambda: None)
