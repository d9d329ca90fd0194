"""One log in several places: --access-log and its --access-log-copy.

Owns:     CopiedTarget; open_targets, which opens all places; unwritable, those that a start could not open.
Thread:   the one that flushes the log, one at a time (log.py).
Not here: each place (core/log_target.py), the lines (log.py).

A place that takes no lines keeps the others from none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from ...core.log_target import LOGGER, SYSLOG, Target, open_target


class CopiedTarget:
    """Several targets that get the same lines."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self.why_in_part = ""

    def write(self, lines: str) -> int:
        """See Target.write; what is lost in one place counts as lost, and the most of several."""
        most = 0
        with contextlib.ExitStack() as faults:  # the others have the lines before an error is raised
            for target in self._targets:
                try:
                    lost = target.write(lines)
                except OSError as fault:
                    faults.callback(_raise, fault)
                    continue
                if lost > most:
                    most, self.why_in_part = lost, target.why_in_part
        return most

    def reopen(self) -> bool:
        """See Target.reopen."""
        with contextlib.ExitStack() as faults:
            found = []
            for target in self._targets:
                try:
                    found.append(target.reopen())
                except OSError as fault:
                    faults.callback(_raise, fault)
        return any(found)

    def close(self) -> None:
        """See Target.close."""
        for target in self._targets:
            target.close()


def _raise(fault: OSError) -> None:
    raise fault


@contextlib.contextmanager
def _closing(targets: Sequence[Target]) -> Iterator[None]:
    """Close the targets that are open if another cannot be."""
    try:
        yield
    except BaseException:
        for target in targets:
            target.close()
        raise


def open_targets(names: Sequence[str], is_patient: bool = True) -> Target:
    """
    Return the target of these places; see open_target.

    Raises:
        OSError, ValueError: one cannot be opened.
    """
    targets: list[Target] = []
    with _closing(targets):
        for name in names:
            targets.append(open_target(name, is_patient))
    return targets[0] if len(targets) == 1 else CopiedTarget(targets)


def unwritable(names: Sequence[str]) -> list[str]:
    """Return the files among these places that this user may not write to, or may not make."""
    files = [name for name in names if name != "-" and not name.startswith((SYSLOG, LOGGER))]
    return [
        name
        for name in files
        if not os.access(name if os.path.exists(name) else os.path.dirname(os.path.abspath(name)), os.W_OK)
    ]
