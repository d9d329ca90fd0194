"""The budgets of one server: memory, disk and descriptors for its large bodies, by its settings and by the free space.

Owns:     Budgets; the default limits.
Thread:   made and looked at on the event loop; its parts are used by any thread.
Not here: counting, and logging that a budget is used up (core/budgets.py); the values (settings/table.py).
"""

from __future__ import annotations

import os
import resource
import tempfile

from ..core.budgets import UNLIMITED, BodySpace, Budget, MemoryBudget, ResponseSpace
from ..settings import EngineSettings, show_bytes

# The share of RLIMIT_NOFILE (1/4) for temporary files and files being sent: connections and the app get the rest. Guess.
SPOOL_FILES_SHARE = 4
# Shares (1/2, 1/4) of the free space in the folder of temporary files. A body without room is refused, a response
# waits for its client: so bodies get twice as much, and a quarter is left for the app and other programs. Guess.
BODY_DISK_SHARE, RESPONSE_DISK_SHARE = 2, 4


class Budgets:
    """The budgets of one server."""

    def __init__(self, config: EngineSettings) -> None:
        self.memory = MemoryBudget(config.response_memory_bytes)
        count = config.spool_files or default_spool_files()
        self.files = Budget(
            count,
            f"{count} temporary files and files being sent, the limit (--spool-files): request bodies that need one "
            "are answered 503, and responses wait for their clients, until there is room",
            f"fewer than {count} temporary files again (--spool-files)",
        )
        # Bodies in memory that are sent by a descriptor each; further ones are sent by the transport. Guess.
        self.watched = Budget(max(count // 4, 1))
        free_bytes = _free_disk_bytes()
        limit = config.body_spool_total_bytes or free_bytes // BODY_DISK_SHARE
        self.bodies = BodySpace(
            Budget(
                limit,
                f"request bodies fill their {show_bytes(limit)} of temporary files (--body-spool-total): those that "
                "need more are answered 503 until there is room",
                "there is room for the temporary files of request bodies again (--body-spool-total)",
            ),
            self.files,
            "aserve-body-",
        )
        limit = config.response_spool_total_bytes or free_bytes // RESPONSE_DISK_SHARE
        self.responses = ResponseSpace(
            Budget(
                limit,
                f"responses fill their {show_bytes(limit)} of temporary files (--response-spool-total): the app waits "
                "for its clients until there is room",
                "there is room for the temporary files of responses again (--response-spool-total)",
            ),
            self.files,
            "aserve-response-",
        )

    def on_second(self) -> None:
        """Log which budgets have room again; called once a second."""
        self.files.on_second()
        self.bodies.on_second()
        self.responses.on_second()

    # For statistics

    @property
    def response_memory_bytes(self) -> int:
        """Octets of large response bodies that wait in memory."""
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
    def spool_file_count(self) -> int:
        """Descriptors of temporary files, and of files being sent."""
        return self.files.count

    @property
    def refused_count(self) -> int:
        """How often there was no room for a temporary file, since the start."""
        return self.files.refused_count + self.bodies.octets.refused_count + self.responses.octets.refused_count


def default_spool_files() -> int:
    """Return how many descriptors temporary files may have by default."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else max(soft // SPOOL_FILES_SHARE, 1)


def _free_disk_bytes() -> int:
    try:
        status = os.statvfs(tempfile.gettempdir())
    except OSError:
        return UNLIMITED  # no such folder: making the first file will fail, which is logged
    return (status.f_bavail * status.f_frsize) >> 22 << 22  # a multiple of 4 MiB, so that its parts are shown in MiB
