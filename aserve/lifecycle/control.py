"""The control socket: permission to ask a server, and the exchange of question and answer.

Owns:     Control, a unix socket beside the listeners; Caller, one connection to the socket.
Thread:   the supervisor's only one; without workers, the event loop's.
Spec:     unix(7), SO_PEERCRED.
Not here: the answers (processes/monitoring/questions.py), the commands with questions (features/control/ask.py).

A question is an object in JSON, on one line: {"ask": "status"}. Each line of the answer is an object, too; then the server closes.
The server never waits for a caller: unread octets are kept, up to a limit; then the connection is closed. Only root and the user of the server may
ask. The mode of the file enforces the rule, and the kernel names the caller's user.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import select
import selectors
import socket
from collections.abc import Mapping
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Callable

from ..connections.accepting.acceptor import SHORTAGES
from ..connections.listeners import UnixRights, open_listeners
from ..core import forks
from ..core.descriptors import accept
from ..core.errors import BindError
from ..core.json_text import read_object
from ..proxies.peers import credentials_of
from ..settings import parse_bind

logger = logging.getLogger("aserve")

MAX_CALLERS = 16  # then the oldest is closed. Guess: operators and scripts ask, not clients.
MAX_QUESTION_BYTES = 4096
MAX_UNSENT_BYTES = 16 << 20  # of unread answers. Guess: the stacks of 128 workers are a tenth.
MODE = 0o600
NO_ROOM_SECONDS = 1.0  # until the next caller is accepted

Message = dict[str, Any]
# Calls a function at each of these events (of selectors) of the descriptor; events 0: stop.
Watch = Callable[[int, "Callable[[], None]", int], None]
Later = Callable[[float, "Callable[[], None]"], object]  # call a function after this many seconds
Answer = Callable[["Caller", Message], None]


def watch_with(selector: selectors.BaseSelector) -> Watch:
    """Return a Watch for a process that waits with this selector, and calls the data of ready keys."""

    def watch(fd: int, callback: Callable[[], None], events: int) -> None:
        is_known = fd in selector.get_map()
        if events and is_known:
            selector.modify(fd, events, callback)
        elif events:
            selector.register(fd, events, callback)
        elif is_known:
            selector.unregister(fd)

    return watch


class Caller:
    """One connection to the control socket; the answer may come later."""

    def __init__(self, sock: socket.socket, watch: Watch, answer: Answer) -> None:
        sock.setblocking(False)
        self._socket = sock
        who = credentials_of(sock)
        self.uid = who.uid if who is not None else None  # None: not known here, so the file's mode decides
        self._watch = watch
        self._answer: Answer | None = answer  # until the question
        self._question = bytearray()
        self._unsent = bytearray()
        self._is_ended = False  # the answer is whole
        self._may_speak = True  # the other side is open
        self.is_open = True
        self._watch_for_room(False)

    def say(self, message: Message) -> None:
        self._unsent += json.dumps(message).encode() + b"\n"
        if len(self._unsent) > MAX_UNSENT_BYTES:
            logger.warning("the control socket: a caller does not read its answer, and was closed")
            self.close()
        self._flush()

    def end(self) -> None:
        """Close when the answer is sent."""
        self._is_ended = True
        self._flush()

    def refuse(self, why: str) -> None:
        """Answer with an error, and end."""
        self.say({"error": why})
        self.end()

    def close(self) -> None:
        """Close at once."""
        if self.is_open:
            self.is_open = False
            self._watch(self._socket.fileno(), self._on_event, 0)
            self._socket.close()

    def let_go(self) -> None:
        """See Control.let_go."""
        self._socket.close()

    def _watch_for_room(self, wants_room: bool) -> None:
        events = (EVENT_READ if self._may_speak else 0) | (EVENT_WRITE if wants_room else 0)
        self._watch(self._socket.fileno(), self._on_event, events)

    def _on_event(self) -> None:
        self._flush()
        if self.is_open and self._may_speak:
            self._listen()

    def _listen(self) -> None:
        try:
            octets = self._socket.recv(MAX_QUESTION_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()  # the caller has gone
            return
        if octets and self._answer is not None:
            self._question += octets
            self._ask()
        elif not octets:
            self._on_silence()

    def _on_silence(self) -> None:
        """
        A caller after the question (`echo ... | socat`) may still read. The caller is not watched any more: after a departure before the answer,
        sending fails, or later callers take the place.
        """
        if self._answer is not None or _has_gone(self._socket):
            self.close()
        else:
            self._may_speak = False
            self._watch_for_room(bool(self._unsent))

    def _ask(self) -> None:
        line, newline, _ = self._question.partition(b"\n")
        if not newline and len(line) <= MAX_QUESTION_BYTES:
            return
        answer, self._answer = self._answer, None
        message = _read_question(line)
        if message is not None and answer is not None:
            answer(self, message)
        else:
            self.refuse('a question is an object in JSON on one line, such as {"ask": "status"}')

    def _flush(self) -> None:
        if not self.is_open:
            return
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            self._watch_for_room(True)
            return
        except OSError:
            self.close()  # the caller has gone
            return
        if self._is_ended:
            self.close()
        else:
            self._watch_for_room(False)


def _read_question(line: bytes | bytearray) -> Message | None:
    """Parse a question; None: not valid. The values are numbers, texts or null, so that answers may show any value."""
    if len(line) > MAX_QUESTION_BYTES:
        return None
    try:
        message = read_object(line)
    except ValueError:
        return None
    is_flat = all(isinstance(value, (str, int, type(None))) for value in message.values())
    return message if is_flat else None


def _has_gone(sock: socket.socket) -> bool:
    """Whether the other end is closed for reading, too."""
    poll = select.poll()
    poll.register(sock, 0)
    return bool(poll.poll(0))


class Control:
    """The socket, from the first call to the last."""

    def __init__(self, path: str, watch: Watch, answers: Mapping[str, Answer], later: Later) -> None:
        """
        Listen at this path, and answer each question by name.

        Raises:
            BindError: no socket can be made, or another server uses the path.
        """
        self._answers = answers
        self._watch = watch
        self._later = later
        self._is_open = True
        self._callers: collections.deque[Caller] = collections.deque()
        try:
            (self._listener,) = open_listeners([parse_bind(f"unix:{path}")], UnixRights(mode=MODE))
        except BindError as fault:
            raise BindError(f"{fault}; see --control") from None
        self._address = forks.local_address(self._listener.socket.fileno())
        self._listen()

    def _listen(self) -> None:
        if self._is_open:
            self._watch(self._listener.socket.fileno(), self._on_call, EVENT_READ)

    def close(self) -> None:
        """Stop answering, and close the socket."""
        self._is_open = False
        self._watch(self._listener.socket.fileno(), self._on_call, 0)
        self._listener.close()
        for caller in self._callers:
            caller.close()

    def let_go(self) -> None:
        """Close the copies of a process just forked. (The selector is shared with the parent, which goes on.)"""
        self._listener.socket.close()
        for caller in self._callers:
            caller.let_go()

    def on_forked(self) -> tuple[list[int], list[bytes]]:
        """See forks.ForkAware: the address covers the callers' connections, too."""
        return [], [self._address]

    def _on_call(self) -> None:
        try:
            sock, _ = accept(self._listener.socket)
        except OSError as exc:  # the caller has left; or there is no room, and the accept comes later
            if exc.errno in SHORTAGES:
                self._watch(self._listener.socket.fileno(), self._on_call, 0)  # the socket would be ready all the time
                self._later(NO_ROOM_SECONDS, self._listen)
            return
        caller = Caller(sock, self._watch, self._on_question)
        self._callers = collections.deque(one for one in self._callers if one.is_open)
        self._callers.append(caller)
        if len(self._callers) > MAX_CALLERS:
            self._callers.popleft().close()

    def _on_question(self, caller: Caller, message: Message) -> None:
        answer = self._answers.get(str(message.get("ask")))
        if caller.uid not in (None, 0, os.geteuid()):
            logger.warning("the control socket: user %d asked, and was refused", caller.uid)
            caller.refuse("only root and the user that the server runs as may ask")
        elif answer is None:
            caller.refuse(f"ask for one of {', '.join(sorted(self._answers))}")
        else:
            answer(caller, message)


def open_control(
    path: str, watch: Watch, answers: Mapping[str, Answer], later: Later, level: int | None
) -> Control | None:
    """Return a Control; None: the socket cannot be bound, as a line of this level says; where `level` is None, BindError is raised."""
    try:
        return Control(path, watch, answers, later)
    except BindError as fault:
        if level is None:
            raise
        logger.log(level, "`aserve status` cannot ask this server: %s", fault)
    return None
