"""The questions on a control socket, and the answers common to a server with a supervisor or without.

Owns:     answers_of: an answer to each question; the refusal of questions for a supervisor if there is none; the form of a status
          and of stacks.
Thread:   the supervisor's only one; without workers, the event loop's.
Not here: the socket (lifecycle/control.py), a supervisor's answers (answers.py), the content of a status (lifecycle/status.py), the wishes for balancers
          (connections/health.py).

Shapes: each row of the table in docs/control.md is an object; the first of a status has no "worker".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Callable

from ...connections.health import WISHES
from ...core.page import MOLD
from ...lifecycle.control import Answer, Caller, Message

if TYPE_CHECKING:
    from ..fleet.facts import Question

# Questions for a supervisor.
SUPERVISED = ("reload", "recycle", "workers")
NO_WORKERS = "this server has no supervisor, which does that: start it with --workers"


def answers_of(
    status: Callable[[], Message],
    stacks: Answer,
    set_unready: Callable[[str], None],
    supervised: Mapping[str, Answer] = MappingProxyType({}),
) -> dict[str, Answer]:
    """Return the answers by question; `status` returns a status with warnings; `supervised`: the answers to SUPERVISED, if there are any."""
    return {
        "status": lambda caller, _: _tell_status(caller, status()),
        "stacks": stacks,
        "balancers": lambda caller, message: _tell_balancers(caller, message, set_unready),
        **{question: supervised.get(question, _refuse) for question in SUPERVISED},
    }


def tell_stacks(caller: Caller, slot: int, pid: int, text: str) -> None:
    """Answer with the stacks of a process; further stacks may follow."""
    process = {"worker": 0, "name": "the mold"} if slot == MOLD else {"worker": slot}
    caller.say({**process, "pid": pid, "text": text})


def say_all(waiting: Iterable[Question], text: str) -> None:
    """Tell callers a fact before the result of their questions."""
    for question in waiting:
        question.caller.say({"text": text})


def answer_all(asked: Iterable[Question], text: str, is_done: bool) -> None:
    """Tell callers the result of their questions."""
    for question in asked:
        if is_done:
            question.caller.say({"text": text})
            question.caller.end()
        else:
            question.caller.refuse(text)


def _refuse(caller: Caller, message: Message) -> None:
    caller.refuse(NO_WORKERS)


def _tell_status(caller: Caller, status: Message) -> None:
    workers = status.pop("workers")
    caller.say(status)
    for worker in workers:
        caller.say({"worker": worker})
    caller.end()


def _tell_balancers(caller: Caller, message: Message, set_unready: Callable[[str], None]) -> None:
    wish = message.get("wish")
    if not isinstance(wish, str) or wish not in WISHES:
        caller.refuse(f"say one of {', '.join(WISHES)}")
        return
    set_unready(WISHES[wish])
    caller.say({"text": f"balancers are told: {wish}"})
    caller.end()
