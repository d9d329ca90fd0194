"""The app's own metrics, of prometheus_client.

Owns:     reading the app's registry, in a thread of its own; naming a worker's files in prometheus_client's multiprocess mode.
Thread:   the event loop's; `_read` its own, one at a time. `name_files` the main thread, before the app is imported.
Spec:     prometheus_client, "Multiprocess Mode".
Not here: the folder of these files, and removing those of an ended worker (features/metrics/app_files.py); answering clients (scrapes.py).

With workers, one of them reads the files of all, and not the supervisor: to read a hundred thousand samples takes a second, and
prometheus_client in the version of the app's present code. A separate process for it would cost memory. A worker has the library
already; its event loop continues meanwhile, and other threads as the GIL permits.
If no worker answers, aserve's own metrics are sent without the app's.

prometheus_client names files by process, and keeps those of ended processes, since their counts must not be lost: each replaced
worker would add some. Here they are named by the worker's page (processes/children/pages.py), which no two processes have at
the same time: the next process with that page continues its files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator, MutableMapping
from importlib.util import find_spec
from typing import Any, Callable

from ...core.memory_file import open_memory_file
from ...extension import Say
from ...workers.threads import OwnThread
from .table import METRICS

PACKAGE = "prometheus_client"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

Told = Callable[[bytes, str], None]  # with the text; or the reason why there is none

# The supervisor's order to read the app's metrics, and the worker's answer.
READ, TEXT = "read app", "app metrics"
MAX_FAULT_LENGTH = 500  # so that it fits into a message

_name, _pid = "", 0  # the name of this process's files, and the process that they belong to
_why_apart = ""  # why these files are not beside those of the other processes; "": they are


def is_installed() -> bool:
    """Whether prometheus_client is installed."""
    return find_spec(PACKAGE) is not None


def name_files(environ: MutableMapping[str, str], folder: str, name: str, why_apart: str = "") -> None:
    """
    Put the app's metrics from now on into files of this folder and name.

    Call it before the app is imported, and again after a fork, in a process with another name.
    """
    global _name, _pid, _why_apart
    is_first = not _pid
    _name, _pid, _why_apart = name, os.getpid(), why_apart
    environ[VARIABLE] = folder
    if is_first:
        from prometheus_client import values  # an optional dependency of the app

        values.ValueClass = values.MultiProcessValue(_identify)  # type: ignore[no-untyped-call]


def _identify() -> str:
    """Return the name of this process's files; a child that the app has forked has its own, as without aserve."""
    pid = os.getpid()
    return _name if pid == _pid else str(pid)


def telling(say: Say) -> Told:
    """Return a function that sends the app's metrics to the supervisor, in a file, since they may exceed a message."""

    def tell(text: bytes, fault: str) -> None:
        fds = []
        if text:
            try:
                fds = [open_memory_file("aserve-app-metrics")]
                with open(fds[0], "wb", closefd=False) as file:
                    file.write(text)
            except OSError as exc:
                fault = f"{exc.strerror or exc}"
        say({"say": TEXT, "fault": fault[:MAX_FAULT_LENGTH]}, fds)

    return tell


class AppMetrics:
    """Reads the app's metrics, for requests on this event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Told) -> None:
        self._loop = loop
        self._tell = tell
        self._is_reading = False

    def ask(self) -> bool:
        """Begin to read, and call `tell` on the loop with the result; return False if there are no metrics. Calls meanwhile share the result."""
        if PACKAGE not in sys.modules:
            return False
        if not self._is_reading:
            OwnThread(self._read, "aserve-app-metrics").start()
            self._is_reading = True
        return True

    def answer(self) -> None:
        """Begin to read, and call `tell` with the result, or at once with b"" if there are no metrics."""
        if not self.ask():
            self._tell(b"", "")

    def _on_read(self, text: bytes, fault: str) -> None:
        self._is_reading = False
        self._tell(text, fault)

    # --- its thread ---

    def _read(self) -> None:
        text, fault = b"", ""
        try:
            text = read_app_metrics()
        except BaseException as exc:  # from a collector of the app; SystemExit and the like, too
            fault = f"{type(exc).__name__}: {exc}"
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_read, text, fault)


def read_app_metrics() -> bytes:
    """
    Return the app's metrics, of all processes if they are in files, without metrics of aserve's names.

    Raises:
        Exception: any that a collector of the app raises; OSError: this process does not have the files of all.
    """
    if _why_apart:
        raise OSError(_why_apart)
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, values

    registry = REGISTRY
    if values.ValueClass is not values.MutexValue:
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(_Others(registry))


class _Others:
    """A registry without aserve's names, such as the start of the process: a name may occur once in a text."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Any]:
        """Yield the app's metrics."""
        return (family for family in self._registry.collect() if not {family.name, f"{family.name}_total"} & {*METRICS})
