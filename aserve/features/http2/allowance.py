"""What one client may cost without a request: frames that bring none further.

Owns:     Allowance.
Thread:   event loop only.
Spec:     RFC 9113 section 10.5 (denial of service).
Not here: which frames are counted, and the end of the connection (session.py).
"""

from __future__ import annotations

# A browser that leaves a page resets all its streams at once, and asks for as many again. Guess: ten such pages in a row, then
# one each second.
BURST, EACH_SECOND = 1000, 100
# Updates of windows for each DATA frame that we have sent: a client may give room in portions of 1 KiB. Guess.
UPDATES_PER_FRAME = 16


class Allowance:
    """Frames that a client may still send: resets, pings, settings, empty data, priorities. Refilled once a second."""

    __slots__ = ("_left", "_updates")

    def __init__(self) -> None:
        self._left = BURST
        self._updates = 0

    def spend(self) -> bool:
        """Count a frame; return False if it is one too many."""
        self._left -= 1
        return self._left >= 0

    def is_extra_update(self, sent_count: int) -> bool:
        """Count an update of a window; return whether no DATA frame has asked for it."""
        self._updates += 1
        return self._updates > UPDATES_PER_FRAME * sent_count

    def on_second(self) -> None:
        """Let the client send more."""
        self._left = min(self._left + EACH_SECOND, BURST)
