"""The leader of a child of the supervisor: the supervisor's end of its channel, for tests of the child's side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest

from aserve.connections.listeners import bind_listeners
from aserve.features import Config
from aserve.processes.children.channel import Channel, Message
from aserve.processes.fleet.plan import Plan


class Leading:
    """The other end of a child's channel, its listeners, and its words; a test makes the child's Role."""

    def __init__(self, **settings: Any) -> None:
        self.channel, self.theirs = Channel.pair()
        self.plan = Plan(Config(**{"bind": "127.0.0.1:0", **settings}), None)
        self.listeners = bind_listeners(self.plan.config)

    def heard(self, channel: Channel | None = None) -> list[Message]:
        """Return new words, on this channel or its own."""
        found: list[Message] = []
        while True:
            try:
                received = (channel or self.channel).receive()
            except BlockingIOError:
                return found
            if received is None:
                return found
            found.append(received[0])

    def close(self) -> None:
        for end in (self.channel, self.theirs):
            end.close()
        for listener in self.listeners:
            listener.close()


def lead_by(kind: Callable[..., Leading]) -> Any:
    """Return a fixture that makes such, lead(**settings), and closes them."""

    @pytest.fixture
    def lead() -> Iterator[Callable[..., Leading]]:
        made = []

        def make(**settings: Any) -> Leading:
            made.append(kind(**settings))
            return made[-1]

        yield make
        for led in made:
            led.close()

    return lead
