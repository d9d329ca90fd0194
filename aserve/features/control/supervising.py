"""The control socket of a supervisor.

Owns:     ControlSocket.
Thread:   the supervisor's only one.
Not here: the socket (lifecycle/control.py), the answers (processes/answers.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...core.errors import BindError
from ...lifecycle.control import Answer, Control, Later, Watch
from ...lifecycle.supervision import Supervision

logger = logging.getLogger("aserve")


class ControlSocket(Supervision):
    """Answers on a socket."""

    _control: Control | None = None

    def __init__(self, path: str, watch: Watch) -> None:
        self._path, self._watch = path, watch

    def answer(self, answers: Mapping[str, Answer], later: Later, is_upgraded: bool) -> None:
        """See Supervision; after an upgrade, go on without the socket if it cannot be bound: workers serve, and must not end for it."""
        try:
            self._control = Control(self._path, self._watch, answers, later)
        except BindError as fault:
            if not is_upgraded:
                raise
            logger.error("--control: %s; serving without it", fault)

    def close(self, is_end: bool) -> None:
        """See Supervision."""
        if self._control is not None and is_end:
            self._control.close()
        elif self._control is not None:
            self._control.let_go()
