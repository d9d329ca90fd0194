"""The budgets of one server: memory, disk and descriptors for large bodies, by the settings and by the free space.

Owns:     Budgets; the default limits, adapted to the machine each second; the log lines when the disk has no room for bodies.
Thread:   made and looked at on the event loop; the parts are used by any thread.
Not here: counting, and the log line of a full budget (core/budgets.py); the values (settings/table.py).
"""

from __future__ import annotations

import logging
import os
import resource

from ..core.budgets import UNLIMITED, BodySpace, Budget, MemoryBudget, ResponseSpace, temporary_folder
from ..core.incident import Incident
from ..settings import EngineSettings, show_bytes

logger = logging.getLogger("aserve")

# The share of RLIMIT_NOFILE (1/4) for temporary files and files being sent: connections and the app get the rest. Guess.
SPOOL_FILES_SHARE = 4
# Shares (1/2, 1/4) of the free space in the folder of temporary files. A body without room is refused, a response waits for the client: so bodies
# get twice as much, and a quarter is left for the app and other programs. Guess.
BODY_DISK_SHARE, RESPONSE_DISK_SHARE = 2, 4


class Budgets:
    def __init__(self, config: EngineSettings) -> None:
        self.memory = MemoryBudget(config.response_memory_bytes)
        count = config.spool_files or default_spool_files()
        self.files = Budget(count, *_texts_of_files(count))
        # Bodies in memory with a descriptor each; further ones are sent by the transport. Guess.
        self.watched = Budget(max(count // 4, 1))
        self._config, self._lack = config, Incident()
        folder = self._folder = temporary_folder()
        filled = _name_total(config.body_spool_total_bytes, BODY_DISK_SHARE, folder)
        self.bodies = BodySpace(
            Budget(
                config.body_spool_total_bytes,
                f"request bodies fill their {filled} (--body-spool-total): those that need more are answered 503 until there is room",
                "there is room for the temporary files of request bodies again (--body-spool-total)",
            ),
            self.files,
            "aserve-body-",
            folder,
        )
        self.bodies.is_measured = not config.body_spool_total_bytes
        filled = _name_total(config.response_spool_total_bytes, RESPONSE_DISK_SHARE, folder)
        self.responses = ResponseSpace(
            Budget(
                config.response_spool_total_bytes,
                f"responses fill their {filled} (--response-spool-total): the app waits for its clients until there is room",
                "there is room for the temporary files of responses again (--response-spool-total)",
            ),
            self.files,
            "aserve-response-",
            folder,
        )
        self.lacks_room = False  # on the disk, for a request body above --body-memory
        self._measure()

    def look(self) -> None:
        """Look at the free space; log the begin and the end of a lack of room for request bodies."""
        free_bytes, config = self._measure(), self._config
        needs_files = config.body != "stream" and config.body_memory_bytes < config.max_body_bytes
        self.lacks_room = needs_files and min(self.bodies.octets.limit, free_bytes) <= config.body_memory_bytes
        if self.lacks_room and self._lack.begins():
            why = f"{free_bytes} octets are free" if free_bytes else "full, or no folder that this user may write to"
            logger.warning(
                "no room for request bodies over --body-memory in %s (TMPDIR): %s; refusing them", self._folder, why
            )
        elif not self.lacks_room and self._lack.is_over_at_second():
            logger.warning("there is room for request bodies in %s again", self._folder)

    def _measure(self) -> int:
        """Set the limits by shares of the free space; return the usable free space."""
        free_bytes, config = _free_bytes(self._folder), self._config
        whole = UNLIMITED  # without a folder making a file fails, and the log has the reason
        if free_bytes is not None:
            whole = free_bytes + self.body_spool_bytes + self.response_spool_bytes
        if not config.body_spool_total_bytes:
            self.bodies.octets.limit = whole // BODY_DISK_SHARE
        if not config.response_spool_total_bytes:
            self.responses.octets.limit = whole // RESPONSE_DISK_SHARE
        return free_bytes or 0

    def on_second(self) -> None:
        """Look at the free space, and log budgets with room again; called once a second."""
        self.look()
        if not self._config.spool_files and (count := default_spool_files()) != self.files.limit:
            self.files.change_limit(count, *_texts_of_files(count))
        self.files.on_second()
        self.bodies.on_second()
        self.responses.on_second()

    # For statistics

    @property
    def response_memory_bytes(self) -> int:
        """Octets of large response bodies waiting in memory."""
        return self.memory.count

    @property
    def body_spool_bytes(self) -> int:
        """Octets of request bodies in temporary files."""
        return self.bodies.octets.count

    @property
    def response_spool_bytes(self) -> int:
        """Octets of the temporary files of responses."""
        return self.responses.octets.count

    @property
    def refused_count(self) -> int:
        """How often there was no room for a temporary file, since the start."""
        return self.files.refused_count + self.bodies.octets.refused_count + self.responses.octets.refused_count


def default_spool_files() -> int:
    """Return how many descriptors temporary files may have by default."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else max(soft // SPOOL_FILES_SHARE, 1)


def _texts_of_files(count: int) -> tuple[str, str]:
    return (
        f"{count} temporary files and files being sent, the limit (--spool-files): request bodies that need one "
        "are answered 503, and responses wait for their clients, until there is room",
        f"fewer than {count} temporary files again (--spool-files)",
    )


def _name_total(limit: int, share: int, folder: str) -> str:
    return f"{show_bytes(limit)} of temporary files" if limit else f"1/{share} of the free space in {folder}"


def _free_bytes(folder: str) -> int | None:
    """Return the free space; None: no file can be made there."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize if os.access(folder, os.W_OK | os.X_OK) else None
