"""What a server answers to `aserve balancers`, with a supervisor or without.

Owns:     tell_balancers.
Thread:   the supervisor's only one; without workers, the event loop's.
Not here: the wishes themselves (../metrics/balance.py), the other answers (answers.py, ../alone.py).
"""

from __future__ import annotations

from typing import Callable

from ..metrics.balance import WISHES
from .control import Caller, Message


def tell_balancers(caller: Caller, message: Message, set_unready: Callable[[str], None]) -> None:
    """Answer a wish of `aserve balancers`."""
    wish = message.get("wish")
    if not isinstance(wish, str) or wish not in WISHES:
        caller.refuse(f"say one of {', '.join(WISHES)}")
        return
    set_unready(WISHES[wish])
    caller.say({"text": f"balancers are told: {wish}"})
    caller.end()
