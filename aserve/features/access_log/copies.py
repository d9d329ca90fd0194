"""One log in several places: --access-log and --access-log-copy.

Owns:     CopiedTarget; open_targets, for all places; files_of, the files among them; unwritable, the files closed to this user.
Thread:   the thread of the flush, one at a time (log.py).
Not here: each place (core/log_target.py), the lines (log.py).

A place that takes no lines keeps the others from none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from ...core.log_target import LOGGER, SYSLOG, Target, open_target


class CopiedTarget:
    """Several targets with the same lines."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self.why_in_part = ""

    def write(self, lines: str) -> int:
        """See Target.write; a line lost in one place counts as lost, and the most of several."""
        most, first_fault = 0, None
        for target in self._targets:
            try:
                lost = target.write(lines)
            except OSError as fault:
                first_fault = first_fault or fault
                continue
            if lost > most:
                most, self.why_in_part = lost, target.why_in_part
        if first_fault is not None:
            raise first_fault
        return most

    def reopen(self) -> bool:
        """See Target.reopen."""
        has_reopened, first_fault = False, None
        for target in self._targets:
            try:
                has_reopened |= target.reopen()
            except OSError as fault:
                first_fault = first_fault or fault
        if first_fault is not None:
            raise first_fault
        return has_reopened

    def close(self) -> None:
        """See Target.close."""
        for target in self._targets:
            target.close()


def open_targets(names: Sequence[str], is_patient: bool = True) -> Target:
    """
    Return the target of these places; see open_target.

    Raises:
        OSError, ValueError: one cannot be opened.
    """
    with contextlib.ExitStack() as opened:  # closes opened ones if another cannot be opened
        targets: list[Target] = [
            opened.enter_context(contextlib.closing(open_target(name, is_patient))) for name in names
        ]
        opened.pop_all()
    return targets[0] if len(targets) == 1 else CopiedTarget(targets)


def files_of(names: Sequence[str]) -> list[str]:
    """Return the files among these places."""
    return [name for name in names if name not in ("", "-") and not name.startswith((SYSLOG, LOGGER))]


def unwritable(names: Sequence[str]) -> list[str]:
    """Return the files among these places closed to this user's writes."""
    return [
        name
        for name in files_of(names)
        if not os.access(name if os.path.exists(name) else os.path.dirname(os.path.abspath(name)), os.W_OK)
    ]
