"""The app's own metrics: those that it keeps by prometheus_client, if it does.

Owns:     reading the app's registry, in a thread of its own; how a worker's files are called in prometheus_client's multiprocess mode.
Thread:   the event loop's; `_read` its own, one at a time. `name_files` the main thread, before the app is imported.
Spec:     prometheus_client, "Multiprocess Mode".
Not here: where these files are, and what becomes of those of a worker that is gone (features/metrics/app_files.py); who asks (scrapes.py).

With workers, one of them reads the files of all, and not the supervisor: to read a hundred thousand samples takes a second, and takes
prometheus_client, of whatever version the app's code has by now. A process for that alone would have both, for memory
that nobody else needs. In a worker the library is there already; its loop goes on meanwhile, and other threads as the GIL lets them.
When no worker answers, aserve's own metrics are told without the app's.

prometheus_client names files by process, and keeps those of processes that are gone, as their counts must not be lost: with each
worker that is replaced there are more. Here they are named by the worker's page (processes/slots.py), which no two
processes have at the same time: whoever has the page next goes on with its files.
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

Told = Callable[[bytes, str], None]  # with the text; or why there is none

# What the supervisor says to the worker that is to read them, and this answers.
READ, TEXT = "read app", "app metrics"
MAX_FAULT_LENGTH = 500  # it fits into a message

_name, _pid = "", 0  # how this process's files are called, if it is this process


def is_installed() -> bool:
    """Whether an app can keep metrics of its own."""
    return find_spec(PACKAGE) is not None


def name_files(environ: MutableMapping[str, str], folder: str, name: str) -> None:
    """
    Let what the app counts from now on be in files of this folder and name.

    To be called before the app is imported, and once more after a fork, in a process that has another name.
    """
    global _name, _pid
    is_first = not _pid
    _name, _pid = name, os.getpid()
    environ[VARIABLE] = folder
    if is_first:
        from prometheus_client import values  # an optional dependency, which is the app's

        values.ValueClass = values.MultiProcessValue(_identify)  # type: ignore[no-untyped-call]


def _identify() -> str:
    """Return the name of this process's files; a process that the app has forked has its own, as it would have without us."""
    pid = os.getpid()
    return _name if pid == _pid else str(pid)


def telling(say: Say) -> Told:
    """Return what says to the supervisor what the app counts, in a file: it may be more than a message holds."""

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
    """Reads what the app has counted, for those who ask on this loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Told) -> None:
        self._loop = loop
        self._tell = tell
        self._is_reading = False

    def ask(self) -> bool:
        """Have it read, and told on the loop; return False if there is nothing to be told. Whoever asks meanwhile hears the same."""
        if PACKAGE not in sys.modules:
            return False
        if not self._is_reading:
            OwnThread(self._read, "aserve-app-metrics").start()
            self._is_reading = True
        return True

    def answer(self) -> None:
        """Have it read, and told; nothing of it, if there is nothing to be told."""
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
        except BaseException as exc:  # of a collector of the app's; SystemExit and the like, too
            fault = f"{type(exc).__name__}: {exc}"
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_read, text, fault)


def read_app_metrics() -> bytes:
    """
    Return all that the app has counted, in all processes if it is in files, without what aserve tells itself.

    Raises:
        Exception: whatever a collector of the app's raises.
    """
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, values

    registry = REGISTRY
    if values.ValueClass is not values.MutexValue:
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(_Others(registry))


class _Others:
    """A registry without metrics that have the names of ours, such as the start of the process: a name stands in a text once."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Any]:
        """Yield the app's metrics."""
        return (family for family in self._registry.collect() if not {family.name, f"{family.name}_total"} & {*METRICS})
