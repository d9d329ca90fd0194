"""A page in the place of all responses, as long as a file exists: --maintenance.

Owns:     Maintenance, the extension; MaintenancePage, the app in front of others.
Thread:   a thread of its own looks at the file once a second: a disk may hang. The page is sent by a worker (with --threads 0: the event loop).
Spec:     RFC 9110 sections 10.2.3 and 15.6.4.
Not here: health checks, which go on (connections/health.py).

A request looks at an attribute, and not at the file. The page is kept in memory, so that it can be sent while a disk is away.
"""

from __future__ import annotations

import dataclasses
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
from ..wsgi import WSGIApp

logger = logging.getLogger("aserve")

# Guess: nobody writes a page so large, and each process keeps it.
MAX_PAGE_BYTES = MIB
# Guess: clients that obey it come back soon after most maintenance, and do not press before.
RETRY_SECONDS = 120
LOOK_SECONDS = 1.0
# What is sent in the place of a file that is empty, or cannot be read.
PLAIN = b"This site is being maintained. Please come back in a few minutes.\n"
TYPES = {".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".json": "application/json"}
TEXT = "text/plain; charset=utf-8"


class MaintenancePage:
    """A WSGI app that answers with a page while there is one, and else calls another."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app
        self.page: tuple[str, bytes] | None = None  # its type and octets

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer 503 with the page, or let the app answer."""
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


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class MaintenanceSettings(EngineSettings):
    """Its settings."""

    # fmt: off
    maintenance: str | None = row(
        None, "Serving", "--maintenance", FILE,
        "while this file exists, answer requests with 503 and its content, for files and mounts too; health checks go on, and nothing is "
        "restarted; see docs/maintenance.md",
        "Only you know where you would put it. It is looked for once a second.",
        path=whole,
    )
    # fmt: on


class Maintenance(Extension[MaintenanceSettings]):
    """--maintenance."""

    _front: MaintenancePage  # from `wrap_app` on
    _is_over: threading.Event  # from `start` on

    def __init__(self, config: MaintenanceSettings) -> None:
        """See Extension."""
        super().__init__(config)
        assert config.maintenance is not None
        self._path = config.maintenance
        # Of the file: which it is, and when it was changed; None: it is not there.
        self._seen: tuple[int, ...] | None = None
        self._logged = ""  # what is wrong with it

    @staticmethod
    def is_on(config: MaintenanceSettings) -> bool:
        """See Extension."""
        return config.maintenance is not None

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        self._front = MaintenancePage(app)
        return self._front

    def start(self, context: ServerContext) -> None:
        """See Extension: the first request knows already."""
        self._seen = None
        self.look()
        self._is_over = threading.Event()
        threading.Thread(target=self._look_on, args=(self._is_over,), name="aserve-maintenance", daemon=True).start()

    def stop(self) -> None:
        """See Extension; the thread may be waiting for a disk, and nothing waits for it."""
        self._is_over.set()

    def _look_on(self, is_over: threading.Event) -> None:
        while not is_over.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """See whether the file has come, has changed, or is gone."""
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            if self._seen is not None:
                logger.info("--maintenance: %s is gone: requests reach the app again", self._path)
            self._seen = self._front.page = None
            self._logged = ""
            return
        except OSError as fault:  # it may be there: what was so goes on
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
        """Return the page; b"": it is empty, or cannot be read, and a line of text is sent in its place."""
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
        """Log what is wrong with the file, but not each second."""
        if text != self._logged:
            self._logged = text
            logger.error("--maintenance: %s", text)


def _open_at_once(path: str, flags: int) -> int:
    """Open what may have become a named pipe meanwhile: that would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
