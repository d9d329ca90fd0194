"""The processes of mules, as a supervisor sees them.

Owns:     Mules, the part of --uwsgi-mule in a supervisor; MuleProcess, one process.
Thread:   the supervisor's only one.
Not here: starting and ending processes (processes/programs/attached.py), their messages (post.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....lifecycle.program import Program, name_programs
from ....lifecycle.supervision import Supervision
from .. import memory
from .post import Post, passed_on, shared
from .settings import MULE_VARIABLE

MULE = "mule"


class Mules(Supervision):
    """All processes of --uwsgi-mule."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words`: of the supervisor's command, which is that of a mule, too."""
        self._words = words

    def programs(self, config: Any) -> Sequence[Program]:
        """Return a program for each mule."""
        post = shared()
        if post is None:
            return []
        programs = name_programs(Program(MULE, tuple(self._words)) for _ in range(post.mules))
        return [program._replace(own=MuleProcess(post, number)) for number, program in enumerate(programs, 1)]


class MuleProcess:
    """One process: an Own (lifecycle/program.py)."""

    may_end = False

    def __init__(self, post: Post, number: int) -> None:
        self._post, self._number = post, number
        self.fds: Sequence[int] = [memory.shared().fd, *post.fds]

    def variables(self) -> Mapping[str, str]:
        """Return the variable by which the process finds its number, the memory and its messages."""
        return {MULE_VARIABLE: passed_on(self._post, self._number, memory.shared().fd)}

    def on_end(self) -> None:
        """Do nothing: messages wait for the next process."""

    def overdue(self) -> str:
        """See Own: a mule may take any time."""
        return ""
