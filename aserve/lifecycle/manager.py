"""What systemd is told while a service runs: where it stands, and that it makes progress.

Owns:     Manager: what was said last.
Thread:   the supervisor's only one; without --workers, the event loop's.
Not here: the words (core/systemd.py); when anything changes (server/running.py, processes/supervisor.py), what is progress (processes/watch.py).

Whoever has one says after each event how things are, and only what has changed goes out; what systemd could not take is said
again with the next event, which is a second later at most. That it ends is said once. A reload is the exception, and so
is an upgrade: they are answered even when they fail at once, or `systemctl reload` waits in vain (Type=notify-reload).
"""

from __future__ import annotations

import logging

from ..core.systemd import Notifier, watchdog_seconds

logger = logging.getLogger("aserve")


class Manager:
    """The service manager that has started this process; without one, nobody."""

    def __init__(self, notifier: Notifier | None = None, main_pid: int | None = None) -> None:
        """`main_pid`: the process that is the service; None: systemd is not told which."""
        self._main_pid = main_pid
        self._notifier = notifier or Notifier.from_environ()
        self._is_ready = False  # the last word was READY
        self._unsaid = ""  # that it reloads, which could not be said
        self._is_stopping = False
        self._status = ""
        self._unchanged = ""  # what has changed nothing, and was the last to try
        self._still_seconds = 0  # since when nothing has made progress

    @property
    def is_heard(self) -> bool:
        """Whether there is one."""
        return self._notifier.is_heard

    def tell_ready(self, status: str) -> None:
        """Say that it serves, unless that was said last; and in one line how it is, and what has failed."""
        if self._is_stopping:
            return
        if self._unchanged:
            status += f"; {self._unchanged} has changed nothing, see the log"
        if self._unsaid and not self._say_reloading(self._unsaid):
            return
        if not self._is_ready:
            is_said = self._notifier.ready(status, self._main_pid)
        else:
            is_said = status != self._status and self._notifier.status(status)
        if is_said:
            self._is_ready, self._status = True, status

    def tell_reloading(self, why: str) -> None:
        """Say that a reload, or an upgrade, has begun: what follows is `tell_ready`, at its end."""
        if self._is_stopping:
            return
        self._is_ready, self._unchanged = False, ""
        self._say_reloading(f"reloading: {why}")

    def _say_reloading(self, text: str) -> bool:
        is_said = self._notifier.reloading(text)
        self._unsaid = "" if is_said else text
        return is_said

    def note_unchanged(self, why: str) -> None:
        """Have `tell_ready` say from now on, until the next reload, that this one has failed."""
        self._unchanged = why

    def tell_stopping(self, why: str) -> None:
        """Say, once, that it ends."""
        if not self._is_stopping:
            self._is_stopping = True
            self._notifier.stopping(why)

    def feed_watchdog(self, has_moved: bool) -> None:
        """Put off the watchdog, if there is one and something has made progress; called once a second."""
        seconds = watchdog_seconds()
        if not seconds:
            return
        if has_moved:
            self._notifier.alive()
            self._still_seconds = 0
            return
        self._still_seconds += 1
        if self._still_seconds == max(round(seconds / 2), 1):
            logger.warning(
                "no progress for %d s: event loops hang, or no thread begins a request that waits; in %d s systemd's watchdog "
                "ends this service (WatchdogSec=)", self._still_seconds, round(seconds) - self._still_seconds,
            )  # fmt: skip
