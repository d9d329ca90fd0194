"""A log line written once.

Owns:     LogOnce.
Thread:   any; two threads at once may both write the line.
Not here: trouble logged each time (incident.py).
"""

from __future__ import annotations

import logging


class LogOnce:
    __slots__ = ("_level", "_logger", "is_said")

    def __init__(self, logger: logging.Logger, level: int) -> None:
        self._logger = logger
        self._level = level
        self.is_said = False  # look here before making costly arguments

    def log(self, text: str, *args: object) -> None:
        """Log the line at the first call."""
        if not self.is_said:
            self.is_said = True
            self._logger.log(self._level, text, *args)

    def reset(self) -> None:
        """Let the next `log` write the line again."""
        self.is_said = False
