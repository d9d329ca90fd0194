"""The notes of a name: whose certificate, and the failures since.

Owns:     Notes, the only reader and writer of names/NAME.json.
Thread:   any; files of several writing processes are written under turn.py's lock.
Not here: the conclusions (facts.py), the certificate's dates (issued.py).

In the file each note has the field's name, and a note with the default is left out. Unknown keys are not read; a number in another form, or outside
all times, makes the file a damaged one, without notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.named_tuple import NamedTuple
from .folder import Folder

# Let's Encrypt allows five failures for a name in an hour.
QUICK_FAILURES, QUICK_SECONDS = 3, 60.0
# The longest obeyed Retry-After of an authority: Let's Encrypt counts by weeks.
MAX_RETRY_SECONDS = 8 * 24 * 3600.0
NUMBERS = ("failures", "at", "again")
# Before and after 1970; a time further away is no date.
MAX_TIME = 6e10


class Notes(NamedTuple):
    """The notes of one name. Times are the wall clock's."""

    directory: str = ""  # of the authority behind the certificate; "": there is a placeholder
    failures: int = 0  # one after another, since the last certificate
    at: float = 0.0  # time of the last failure
    again: float = 0.0  # no order before; 0: none has failed
    fault: str = ""  # the reason of the last failure, for the log
    is_asked: bool = False  # the authority has asked for that delay
    asked: str = ""  # the directory of the failed authority; "": the configured one

    @classmethod
    def of(cls, folder: Folder, name: str) -> Notes:
        """Return the notes of a name; none if the file is missing or damaged."""
        found = folder.read_json(name)
        return cls._of_json(found) if all(_is_number(found.get(key, 0)) for key in NUMBERS) else cls()

    @classmethod
    def _of_json(cls, found: Mapping[str, Any]) -> Notes:
        return cls(
            directory=_text(found, "directory"),
            failures=int(found.get("failures", 0)),
            at=found.get("at", 0.0),
            again=found.get("again", 0.0),
            fault=_text(found, "fault"),
            is_asked=bool(found.get("is_asked")),
            asked=_text(found, "asked"),
        )

    def write(self, folder: Folder, name: str) -> None:
        """
        Put these in place of a name's notes.

        Raises:
            OSError: a failed write; the old ones are there.
        """
        empty = Notes()._asdict()
        folder.write_json(name, {key: value for key, value in self._asdict().items() if value != empty[key]})

    @property
    def has_certificate(self) -> bool:
        """Whether an authority has signed the certificate."""
        return bool(self.directory)

    def is_waiting(self, now: float) -> bool:
        """Whether a failure forbids an order now. A time without an explaining delay comes from a wrong clock."""
        return now < self.again <= now + MAX_RETRY_SECONDS

    def for_authority(self, directory: str) -> Notes:
        """Return the notes of this authority: another one's failures do not count."""
        return self if self.asked in ("", directory) else Notes(self.directory)

    def after_start(self) -> Notes:
        """
        Return the notes for the start of a server: perhaps the user has mended something, and does not want to wait.

        Some starts a day are so; starts of a server that dies again and again are not, nor does a start change a delay asked by the authority.
        """
        if self.is_asked or self.failures > QUICK_FAILURES:
            return self
        return self._replace(again=min(self.again, self.at + QUICK_SECONDS))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_TIME


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""
