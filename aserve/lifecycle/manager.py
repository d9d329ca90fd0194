"""Reports the state and the progress of a service to systemd.

Owns:     Manager: the last reported state.
Thread:   the supervisor's only one; without --workers, the event loop's.
Not here: systemd's protocol (core/systemd.py); the events (server/running.py, processes/events.py), the meaning of progress (processes/monitoring/watch.py).

The owner reports the state after each event, and only changes are sent; a message not taken by systemd is sent again with the next event, at most a
second later. The end is reported once. Reloads and upgrades are exceptions: the answer comes even after a failure at once, or `systemctl reload`
would wait in vain (Type=notify-reload).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ..core.systemd import Notifier, watchdog_seconds

logger = logging.getLogger("aserve")


class Manager:
    """The service manager of this process, if there is one."""

    def __init__(self, notifier: Notifier | None = None, main_pid: int | None = None) -> None:
        """`main_pid`: the main process of the service; None: do not report a main process."""
        self._main_pid = main_pid
        self._notifier = notifier or Notifier.from_environ()
        self.is_heard = self._notifier.is_heard  # whether there is a service manager
        self._is_ready = False  # the last message was READY
        self._unsaid = ""  # an unsent message of a reload
        self._is_stopping = False
        self._status = ""
        self._unchanged = ""  # the last reload or upgrade, if failed
        self._still_seconds = 0  # seconds without progress

    def tell_ready(self, status: str, warnings: Iterable[tuple[str, str]] = ()) -> None:
        """Report READY after another state; and one line of status, with `warnings` of EngineSettings.advise, and a failed reload."""
        if self._is_stopping:
            return
        status += "".join(f"; {text[:1].lower()}{text[1:].rstrip('.')}" for text, _ in warnings)
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
        """Report the begin of a reload or an upgrade; call `tell_ready` at the end."""
        if self._is_stopping:
            return
        self._is_ready, self._unchanged = False, ""
        self._say_reloading(f"reloading: {why}")

    def _say_reloading(self, text: str) -> bool:
        is_said = self._notifier.reloading(text)
        self._unsaid = "" if is_said else text
        return is_said

    def note_unchanged(self, why: str) -> None:
        """Note a failed reload, for `tell_ready` until the next one."""
        self._unchanged = why

    def tell_stopping(self, why: str) -> None:
        """Report, once, the end of the service."""
        if not self._is_stopping:
            self._is_stopping = True
            self._notifier.stopping(why)

    def feed_watchdog(self, has_moved: bool) -> None:
        """Feed the watchdog once a second, if there is one and `has_moved`: progress was made."""
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
                "no progress for %d s: event loops hang, or no thread takes queued requests; in %d s systemd's watchdog "
                "ends this service (WatchdogSec=)", self._still_seconds, round(seconds) - self._still_seconds,
            )  # fmt: skip
