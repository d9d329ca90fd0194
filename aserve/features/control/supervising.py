"""The control socket of a supervisor.

Owns:     ControlSocket.
Thread:   the supervisor's only one.
Not here: the socket (lifecycle/control.py), the answers (processes/answers.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...lifecycle.control import Answer, Control, Later, Watch, open_control
from ...lifecycle.supervision import Supervision


class ControlSocket(Supervision):
    """Answers on a socket."""

    _control: Control | None = None

    def __init__(self, path: str, watch: Watch, is_asked_for: bool = True) -> None:
        self._path, self._watch, self._is_asked_for = path, watch, is_asked_for

    def answer(self, answers: Mapping[str, Answer], later: Later, is_upgraded: bool) -> None:
        """See Supervision; after an upgrade, and where nobody has asked for the socket, go on without: workers serve, and must not end for it."""
        level = logging.INFO if not self._is_asked_for else logging.ERROR if is_upgraded else None
        self._control = open_control(self._path, self._watch, answers, later, level)

    def close(self, is_end: bool) -> None:
        """See Supervision."""
        if self._control is not None and is_end:
            self._control.close()
        elif self._control is not None:
            self._control.let_go()
