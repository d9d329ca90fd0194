"""The app's functions for jobs: those of `uwsgi`, and the decorators of `uwsgidecorators`.

Owns:     FUNCTIONS and DECORATORS, by their names; the folders of this process, and the decorated functions.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI Spooler"; uwsgidecorators.py.
Not here: the modules (../module.py), files (folder.py), queues (queues.py), doing jobs (runner.py).
"""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from ..process import present
from ..texts import Text
from .folder import list_jobs, read_job, write_job
from .runner import SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY, values_of
from .supervising import SPOOLER_VARIABLE

if TYPE_CHECKING:
    from .queues import Queue

_OWN = ("spooler", "priority", "at", "body")  # names of values that control the job itself

_folders: Sequence[str] = ()  # of this process
_queues: Mapping[str, Queue] = {}  # the queues among them, which hosts share
_functions: dict[str, _Spooled] = {}  # decorated, by name


def use_folders(folders: Sequence[str], queues: Mapping[str, Queue] = {}) -> None:
    """Set the folders for spool(); the first is the default. `queues`: Redis queues by name."""
    global _folders, _queues
    _folders, _queues = folders, queues


def queue_of(folder: str) -> Queue | None:
    """Return the shared queue of this name; None: it is a folder."""
    return _queues.get(folder)


def spool(values: Mapping[Any, Any] | None = None, **more: Any) -> bytes:
    """
    Add a job for the app's function; return its path when the job is on disk, or the shared server has it.

    Raises:
        ValueError: a value is too long or invalid; or the job names a folder that is not in --spooler.
        OSError: the job cannot be written; see write_job.
    """
    given = {_octets(name): value for name, value in {**(values or {}), **more}.items()}
    own = {name: given.pop(name.encode(), None) for name in _OWN}
    folder = os.fsdecode(_octets(own["spooler"])) if own["spooler"] is not None else _folders[0]
    if folder not in _queues:
        folder = os.path.abspath(folder)
    if folder not in _folders:
        raise ValueError(f"{folder!r} is no folder of jobs: --spooler has {', '.join(_folders)}")
    body = _octets(own["body"]) if own["body"] is not None else b""
    at = float(own["at"]) if own["at"] is not None else 0.0
    priority = _octets(own["priority"]).decode("latin-1") if own["priority"] is not None else ""
    octets, queue = {name: _octets(value) for name, value in given.items()}, _queues.get(folder)
    put = queue.put if queue is not None else functools.partial(write_job, folder)
    return os.fsencode(put(octets, body, at, priority))


def spooler_jobs() -> list[bytes]:
    """
    Return the paths of the jobs that are not done.

    Raises:
        ConnectionError: hosts share them, and the server is away.
    """
    found = [
        _queues[folder].paths() if folder in _queues else [due.path for due in list_jobs(folder)] for folder in _folders
    ]
    return [os.fsencode(path) for paths in found for path in paths]


def spooler_get_task(path: Text) -> dict[str | bytes, Any] | None:
    """Return a job in the form that the app's function gets; None: it does not exist any more, or the server is away."""
    place = os.fsdecode(path)
    queue = _queues.get(place.partition("/")[0])
    try:
        return values_of(place, *(queue.read(place) if queue is not None else read_job(place)))
    except (OSError, ValueError):
        return None


def set_spooler_frequency(seconds: int) -> bool:
    """Do nothing: a job is done as soon as it is due."""
    return True


def spooler_pids() -> list[int]:
    """Return the pids of the processes that do jobs, as far as this user may see them."""
    master, mark = present().masterpid, f"{SPOOLER_VARIABLE}=".encode()
    return [pid for pid in _children_of(master) if any(each.startswith(mark) for each in _environ_of(pid))]


def spooler_pid() -> int:
    """Return the pid of the first process that does jobs; 0: this user may see none."""
    return next(iter(spooler_pids()), 0)


def _children_of(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return []


def _environ_of(pid: int) -> list[bytes]:
    """Return the variables that a process was started with."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _octets(value: Any) -> bytes:
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else str(value).encode()


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (spool, spooler_jobs, spooler_get_task, set_spooler_frequency, spooler_pid, spooler_pids)
}
FUNCTIONS.update(
    send_to_spooler=spool,
    parsefile=spooler_get_task,
    SPOOL_OK=SPOOL_OK,
    SPOOL_RETRY=SPOOL_RETRY,
    SPOOL_IGNORE=SPOOL_IGNORE,
)


# Decorators


class _Spooled:
    """A decorated function, whose calls become jobs."""

    def __init__(self, function: Callable[..., Any], result: int | None, pass_arguments: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = function.__name__
        self._result = result
        self._pass_arguments = pass_arguments
        _functions[self._name] = self
        self.spool = self.__call__

    def __call__(self, *arguments: Any, **named: Any) -> bytes:
        """Add a job that calls the function; see `spool`."""
        values: dict[bytes, Any] = {b"ud_spool_func": self._name}
        if self._result is not None:
            values[b"ud_spool_ret"] = str(self._result)
        if self._pass_arguments:
            values.update({name.encode(): named.pop(name) for name in _OWN if name in named})
            values.update({b"args": pickle.dumps(arguments), b"kwargs": pickle.dumps(named)})
            return spool(values)
        given = {_octets(name): value for name, value in {**(arguments[0] if arguments else {}), **named}.items()}
        return spool({**given, **values})  # arguments, which may come from a client, must not replace these

    def do(self, named: dict[str, Any]) -> Any:
        """Call the function for a job; return uWSGI's code for its result."""
        if self._pass_arguments and "args" in named:  # otherwise values of these names may come from a client
            found = self._function(*pickle.loads(named["args"]), **pickle.loads(named["kwargs"]))  # noqa: S301 - __call__ has written it
        else:
            found = self._function({name: _text(value) for name, value in named.items()})
        return self._result if self._result is not None else found


def _decorator(result: int | None) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any] | None = None, pass_arguments: bool = False) -> Any:
        if function is None:
            return lambda each: _Spooled(each, result, pass_arguments)
        return _Spooled(function, result, pass_arguments)

    return decorate


def do_decorated(values: Mapping[str | bytes, Any]) -> Any:
    """
    Call the decorated function of a job; return uWSGI's code for its result.

    Raises:
        KeyError: the app has no such function.
    """
    named = {_text(name): value for name, value in values.items()}
    spooled = _functions[_text(named.pop("ud_spool_func"))]
    named.pop("ud_spool_ret", None)  # for uWSGI; the decorator knows it, too
    return spooled.do(named)


def has_decorated() -> bool:
    """Whether the app has decorated functions."""
    return bool(_functions)


def _text(value: Any) -> Any:
    """Decode octets that are text; return anything else unchanged."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


DECORATORS: dict[str, Any] = {
    "spool": _decorator(SPOOL_OK),
    "spoolforever": _decorator(SPOOL_RETRY),
    "spoolraw": _decorator(None),
}
