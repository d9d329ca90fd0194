"""Fields whose names have an underscore, which no app sees: the log says so, once.

Owns:     Underscores, one for each listener.
Thread:   event loop, or the lane's leader.
Spec:     RFC 3875 section 4.1.18: in the environ `X_A` and `X-A` have the same name.
Not here: dropping them (cparsers/vars.c, httptools1.py).
"""

from __future__ import annotations

import logging
import re

from ..log_once import LogOnce

logger = logging.getLogger("aserve")

_NAME = re.compile(rb"\r\n([^\r:]*_[^\r:]*):")
_MAX_SHOWN = 100


class Underscores:
    """What is said of them."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._line = LogOnce(logger, logging.INFO)

    def look_at(self, head: bytes) -> None:
        """Tell of a field that was dropped from this head, unless one was told of before."""
        if not self._line.is_said:
            found = _NAME.search(head)
            if found is not None:
                self.tell(found[1])

    def tell(self, field: bytes) -> None:
        """Tell of a field by its name, unless one was told of before."""
        name = field.decode("latin-1")[:_MAX_SHOWN]
        self._line.log(
            "%s: the field %s came, and the app does not see it, as any whose name has an underscore: %s would be the same to it. If a proxy of "
            "yours sets it, let its name have hyphens (said once)",
            self._where,
            name,
            name.replace("_", "-"),
        )
