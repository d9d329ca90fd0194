"""Orders for all workers alike: to reopen their logs, and what balancers are to be told.

Owns:     Notices: a worker that serves gets an order at once; one that starts, when it is ready.
Thread:   the supervisor's only one.
Not here: the orders of one worker (children.py), what a worker does then (worker.py).
"""

from __future__ import annotations

import logging
import signal
import time

from .child import Child, State
from .children import Children
from .overview import Overview

logger = logging.getLogger("aserve")


class Notices:
    """The orders that count now."""

    def __init__(self, children: Children, overview: Overview) -> None:
        self._children = children
        self._overview = overview  # which reports why balancers are sent elsewhere, also after an upgrade
        self._logs_reopened_at = 0.0
        self.by_signal = {signal.SIGUSR1: self._reopen_logs}

    def on_ready(self, child: Child) -> None:
        """Give a worker that serves from now on the orders that it has missed."""
        if child.began_at <= self._logs_reopened_at:
            self._children.tell(child, {"do": "reopen logs"})  # it may have opened them before
        if self._overview.why_unready:
            self._children.tell(child, {"do": "set unready", "why": self._overview.why_unready})

    def set_unready(self, why: str) -> None:
        """Tell balancers why they should send their requests elsewhere, at each of our addresses; "": they need not."""
        logger.info("balancers are told: %s", why or "ready")
        self._overview.why_unready = why
        for child in self._children.having(State.READY):
            self._children.tell(child, {"do": "set unready", "why": why})

    def _reopen_logs(self, number: signal.Signals) -> None:
        self._logs_reopened_at = time.monotonic()
        for child in self._children.having(State.READY, State.DRAINING):
            self._children.tell(child, {"do": "reopen logs"})
