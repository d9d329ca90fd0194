"""The functions and decorators of mules: those of `uwsgi`, and of `uwsgidecorators`.

Owns:     FUNCTIONS and DECORATORS, by their names; the functions of @mulefunc.
Thread:   any; those that receive: a mule's main thread.
Spec:     uWSGI 2.0.30, "uWSGI Mules"; uwsgidecorators.py.
Not here: the queues (post.py), the process of a mule (runner.py), the modules (../module.py).
"""

from __future__ import annotations

import functools
import pickle
from typing import Any, Callable

from ....lifecycle.hooks import post_fork
from ..process import present
from ..texts import Text, octets_of
from .post import ANY, Post, shared, wait_for

MESSAGE_BYTES = 65536  # uWSGI's
_SERVICE = "uwsgi_mulefunc"

_functions: dict[str, Callable[..., Any]] = {}  # of @mulefunc, by name


def mule_id() -> int:
    """Return the number of this mule; 0: this process is none."""
    return present().mule_id


def mule_msg(message: Text, mule: int = 0) -> bool:
    """
    Send a message to a mule, by its number, or to any; False: there is no such mule, or its queue is full.

    Raises:
        ValueError: there are no mules; the number is none; or the message is longer than a queue can hold.
    """
    post = shared()
    if post is None:
        raise ValueError("no mule configured; --uwsgi-mule makes one")
    if not isinstance(mule, int):
        raise ValueError("invalid mule")
    name = str(mule) if mule else ANY
    return name in post.queues and post.send(name, octets_of(message))


def farm_msg(farm: Text, message: Text) -> None:
    """
    Send a message to any mule of a farm; do nothing if there is no such farm, as uWSGI does.

    Raises:
        ValueError: the message is longer than a queue can hold.
    """
    post, name = shared(), f"farm:{octets_of(farm).decode()}"
    if post is not None and name in post.queues:
        post.send(name, octets_of(message))


def in_farm(farm: Text | None = None) -> bool | None:
    """Return True if this mule is in a farm, of this name if one is given; None: it is not."""
    post, number = shared(), mule_id()
    if post is None or not number:
        return None
    names = [name for name, members in post.farms.items() if number in members]
    return (bool(names) if farm is None else octets_of(farm).decode() in names) or None


def mule_get_msg(
    signals: bool = True, farms: bool = True, buffer_size: int = MESSAGE_BYTES, timeout: float = -1
) -> bytes:
    """
    Wait for the next message of this mule; b"": `timeout` seconds have passed. `signals` has no effect: they have threads of their own.

    Raises:
        ValueError: this process is no mule.
    """
    post = _own_post("mule")
    queues = post.inbox(mule_id()) if farms else post.inbox(mule_id())[:2]
    return waiting(queues, buffer_size, timeout)


def farm_get_msg() -> bytes:
    """
    Wait for the next message of this mule's farms.

    Raises:
        ValueError: this process is no mule.
    """
    return waiting(_own_post("farm").farm_inbox(mule_id()), MESSAGE_BYTES, -1)


def _own_post(kind: str) -> Post:
    post = shared()
    if post is None or not mule_id():
        raise ValueError(f"you can receive {kind} messages only in a mule !!!")
    return post


def _wait(queues: Any, size: int, seconds: float) -> bytes:
    return wait_for(queues, size, seconds) or b""


# Waits for a message; a mule's process takes its place, to end there (runner.py).
waiting: Callable[[Any, int, float], bytes] = _wait


def wait_by(function: Callable[[Any, int, float], bytes]) -> None:
    """Wait for messages by this function from now on."""
    global waiting
    waiting = function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (mule_id, mule_msg, mule_get_msg, farm_msg, farm_get_msg, in_farm)
}


# Decorators


class mulefunc:
    """Has a function called in a mule: `@mulefunc`, in any; `@mulefunc(2)`, in mule 2."""

    def __init__(self, function: Callable[..., Any] | int) -> None:
        self._mule = 0 if callable(function) else function
        self._name = ""
        if callable(function):
            self._take(function)

    def _take(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._name = function.__name__
        _functions[self._name] = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Take the function at the first call; send a message that calls it afterwards."""
        if not self._name:
            self._take(arguments[0])
            return self
        return mule_msg(
            pickle.dumps({"service": _SERVICE, "func": self._name, "args": arguments, "kwargs": named}), self._mule
        )


def mule_msg_dispatcher(message: bytes) -> Any:
    """
    Call the function of @mulefunc that a message names.

    Raises:
        KeyError: the app has no such function.
    """
    found = pickle.loads(message)  # noqa: S301 - only processes of this server can send
    return _functions[found["func"]](*found["args"], **found["kwargs"]) if found["service"] == _SERVICE else None


def has_functions() -> bool:
    """Whether the app has functions of @mulefunc."""
    return bool(_functions)


def _in_mule(runs: Callable[[Callable[..., Any]], object]) -> Callable[[int], Any]:
    """Return a decorator by the number of a mule, in which `runs` gets the function once the app is imported."""

    def numbered(number: int) -> Callable[[Callable[..., Any]], None]:
        def decorate(function: Callable[..., Any]) -> None:
            def begin() -> None:
                if mule_id() == number:
                    runs(function)

            post_fork(functools.wraps(function)(begin))

        return decorate

    return numbered


def _for_ever(function: Callable[..., Any]) -> None:
    while True:
        function()


def _with_messages(function: Callable[..., Any]) -> None:
    while True:
        message = mule_get_msg()
        if message:
            function(message)


def farm(name: Text | None = None, **named: Any) -> Callable[[Callable[..., Any]], None]:
    """Call the function with each message of a farm, in its mules."""

    def decorate(function: Callable[..., Any]) -> None:
        def begin() -> None:
            while in_farm(name):
                message = farm_get_msg()
                if message:
                    function(message)

        post_fork(functools.wraps(function)(begin))

    return decorate


DECORATORS: dict[str, Any] = {
    "mulefunc": mulefunc,
    "mule": _in_mule(lambda function: function()),
    "muleloop": _in_mule(_for_ever),
    "mulemsg": _in_mule(_with_messages),
    "farm": farm,
    "mule_msg_dispatcher": mule_msg_dispatcher,
}
