"""The words of the supervisor's children: which of its nouns handles a message.

Owns:     Words: the handlers, by the kind of process and the `say` of its message.
Thread:   the supervisor's only one.
Not here: the channel (children.py), the handlers: each noun gives its own as `by_word` (reactions.py joins them).
"""

from __future__ import annotations

from ..core.guard import guard
from .channel import Message
from .child import MOLD, TRIAL, Child
from .children import Hear


class Words:
    """The handlers of messages."""

    def __init__(self) -> None:
        self.of_workers: dict[str, Hear] = {"failed": Child.on_failed, "left": Child.on_left}
        self.of_molds: dict[str, Hear] = {}
        self.of_trials: dict[str, Hear] = {}
        self._by_slot = {TRIAL: self.of_trials, MOLD: self.of_molds}

    def hear(self, child: Child, message: Message, fds: list[int]) -> None:
        """Handle a child's message. A bug of ours there must not keep Children from noticing that the sender has ended."""
        words = self._by_slot.get(child.slot, self.of_workers)
        guard(lambda: words[message["say"]](child, message, fds))
