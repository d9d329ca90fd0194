"""A line for the log that is said once.

Owns:     LogOnce.
Thread:   any; two threads at once may both say it.
Not here: what is told again when it was over (episode.py).
"""

from __future__ import annotations

import logging


class LogOnce:
    """A line of one logger and level."""

    __slots__ = ("_level", "_logger", "is_said")

    def __init__(self, logger: logging.Logger, level: int) -> None:
        self._logger = logger
        self._level = level
        self.is_said = False  # to be looked at before its arguments are made

    def log(self, text: str, *args: object) -> None:
        """Log the line, unless it was said already."""
        if not self.is_said:
            self.is_said = True
            self._logger.log(self._level, text, *args)

    def reset(self) -> None:
        """Say it again the next time."""
        self.is_said = False
