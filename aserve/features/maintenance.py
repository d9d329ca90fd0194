"""A page in place of all responses, as long as a file exists: --maintenance.

Owns:     Maintenance, the extension; MaintenancePage, the app in front of others.
Thread:   a second thread checks the file once a second: a disk may hang. The page is sent by a worker (with --threads 0: the event loop).
Spec:     RFC 9110 sections 10.2.3 and 15.6.4.
Not here: health checks, unchanged meanwhile (connections/health.py).

A request reads an attribute, not the file. The page is kept in memory, for times when the disk does not answer.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
import threading
from collections.abc import Iterable
from typing import Any

from ..extension import Extension, ServerContext
from ..settings import EngineSettings, row
from ..settings.kinds import FILE, MIB
from ..settings.paths import whole
from ..workers.threads import Watcher
from ..wsgi import WSGIApp

logger = logging.getLogger("aserve")

# Guess: larger than any real page; each process keeps it in memory.
MAX_PAGE_BYTES = MIB
# Guess: obedient clients come back soon after most maintenance, and not earlier.
RETRY_SECONDS = 120
LOOK_SECONDS = 1.0
# Sent if the file is empty, or cannot be read.
PLAIN = b"This site is being maintained. Please come back in a few minutes.\n"
TYPES = {".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".json": "application/json"}
TEXT = "text/plain; charset=utf-8"


class MaintenancePage:
    """A WSGI app that answers with a page while there is one, and otherwise calls another app."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app
        self.page: tuple[str, bytes] | None = None  # the type and the octets

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer 503 with the page, or call the app."""
        page = self.page
        if page is None:
            return self._app(environ, start_response)
        kind, octets = page
        start_response(
            "503 Service Unavailable",
            [
                ("Content-Type", kind),
                ("Content-Length", str(len(octets))),
                ("Cache-Control", "no-store"),
                ("Retry-After", str(RETRY_SECONDS)),
            ],
        )
        return [octets]


class MaintenanceSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    maintenance: str | None = row(
        None, "Serving", "--maintenance", FILE,
        "while this file exists, answer requests with 503 and the file's content, for files and mounts too; health checks go "
        "on, and nothing is restarted; see `aserve docs maintenance`",
        "Only you know the place of this file. aserve looks once a second.",
        path=whole,
    )
    # fmt: on


class Maintenance(Extension[MaintenanceSettings]):
    """--maintenance."""

    switches = ("maintenance",)
    _front: MaintenancePage  # from `wrap_app` on

    def __init__(self, config: MaintenanceSettings) -> None:
        """See Extension."""
        super().__init__(config)
        assert config.maintenance is not None
        self._path = config.maintenance
        # The file's identity and modification time; None: there is no file.
        self._seen: tuple[int, ...] | None = None
        self._logged = ""  # the last logged error

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        self._front = MaintenancePage(app)
        return self._front

    def start(self, context: ServerContext) -> None:
        """Check the file before the first request, then once a second."""
        self._seen = None
        self.look()
        is_over = threading.Event()
        Watcher(functools.partial(self._look_on, is_over), "aserve-maintenance").start()
        context.at_stop(is_over.set)  # without a join of the thread, maybe in a wait for a disk

    def _look_on(self, is_over: threading.Event) -> None:
        while not is_over.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Check whether the file was created, changed, or removed."""
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            if self._seen is not None:
                logger.info("--maintenance: %s is gone: requests reach the app again", self._path)
            self._seen = self._front.page = None
            self._logged = ""
            return
        except OSError as fault:  # unknown: keep the last state
            self._log_once(f"whether there is {self._path} cannot be seen: {fault.strerror}")
            return
        seen = found.st_dev, found.st_ino, found.st_ctime_ns, found.st_size
        if seen == self._seen and not self._logged:
            return
        if self._seen is None:
            logger.info("--maintenance: there is %s: requests are answered with 503 and its content", self._path)
        self._seen = seen
        kind, octets = TYPES.get(os.path.splitext(self._path)[1].lower(), TEXT), self._read(found)
        self._front.page = (kind, octets) if octets else (TEXT, PLAIN)

    def _read(self, found: os.stat_result) -> bytes:
        """Return the page; b"": the file is empty, or cannot be read, and PLAIN is sent."""
        why = ""
        octets = b""
        try:
            if not stat.S_ISREG(found.st_mode):
                why = "is no file"
            elif found.st_size > MAX_PAGE_BYTES:
                why = "has more than 1 MiB"
            else:
                with open(self._path, "rb", opener=_open_at_once) as file:
                    octets = file.read(MAX_PAGE_BYTES)
        except OSError as fault:
            why = f"cannot be read: {fault.strerror}"
        if why:
            self._log_once(f"{self._path} {why}; a line of text is sent in its place")
        else:
            self._logged = ""
        return octets

    def _log_once(self, text: str) -> None:
        """Log an error with the file, but not each second."""
        if text != self._logged:
            self._logged = text
            logger.error("--maintenance: %s", text)


def _open_at_once(path: str, flags: int) -> int:
    """Open without blocking: by now the file may be a named pipe, with a wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
