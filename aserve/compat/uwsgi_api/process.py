"""The facts about this process that the module `uwsgi` shows.

Owns:     Process; the facts of this process.
Thread:   set by the main thread, before the app is imported, or in a fork of a mold; then read by any.
Not here: where the facts come from (__init__.py), the functions that show them (facts.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.named_tuple import NamedTuple
from ...core.page import Field, State
from ...features.sharing.settings import Shared
from .settings import Extras


class Process(NamedTuple):
    """The facts about one process."""

    worker_id: int = 1
    masterpid: int = 0  # 0: no supervisor
    numproc: int = 1
    options: Mapping[str, Any] = {}  # of a configuration of uWSGI, for `uwsgi.opt`
    is_preloaded: bool = False  # workers are forked from a process that has imported the app
    caches: Sequence[str] = ()  # of --uwsgi-cache; a supervisor has made them already
    page: memoryview | None = None  # the page of this worker, with its state
    pages: Any = None  # of all workers: processes.pages.Pages
    spoolers: Sequence[str] = ()  # of --spooler: folders of jobs
    is_spooler: bool = False  # it does jobs, and serves no requests
    shared: Shared | None = None  # of --shared; a supervisor has joined already
    page_number: int = 0  # of `page`; 0: there is none
    mule_id: int = 0  # the number of this mule; 0: it is none
    mules: int = 0  # of --uwsgi-mule: how many there are
    threads: int = 1  # of --threads
    extras: Extras = Extras()

    @property
    def serves(self) -> bool:
        """Whether this process takes signals: a draining worker leaves them to its successor."""
        return self.page is None or self.page[Field.STATE] == State.READY


_present = Process()


def present() -> Process:
    """Return the facts of this process."""
    return _present


def become(process: Process) -> None:
    """Set the facts of this process."""
    global _present
    _present = process
