"""Questions answered with a supervisor and without."""

import pytest

from aserve.core.page import MOLD
from aserve.processes.monitoring.questions import NO_WORKERS, SUPERVISED, answers_of, tell_stacks


class Listening:
    """A caller that keeps its answers."""

    def __init__(self):
        self.told = []

    def refuse(self, why):
        self.told.append({"error": why})

    def say(self, message):
        self.told.append(message)

    def end(self):
        self.told.append("end")


def ask(question, status=dict, stacks=None, set_unready=None, supervised=(), **message):
    caller = Listening()
    answers_of(status, stacks, set_unready, dict(supervised))[question](caller, message)
    return caller.told


def test_what_needs_a_supervisor():
    """Without a supervisor each answer tells how to start one; with one the question is the supervisor's."""
    for question in SUPERVISED:
        assert ask(question) == [{"error": NO_WORKERS}]
        assert ask(question, supervised={question: lambda caller, message: caller.say(message)}, count=3) == [
            {"count": 3}
        ]


@pytest.mark.parametrize("workers", [[], [{"slot": 0}], [{"slot": 1}, {"slot": 2}]], ids=len)
def test_a_status_has_a_line_for_each_process(workers):
    """The answer is the server, and a line for each of its processes, however many there are."""
    told = ask("status", status=lambda: {"text": "well", "workers": workers})
    assert told == [{"text": "well"}, *({"worker": worker} for worker in workers), "end"]


def test_stacks_name_their_process():
    """Stacks are told of a process, and others may follow."""
    told = ask("stacks", stacks=lambda caller, _: tell_stacks(caller, 2, 4321, "waiting"))
    assert told == [{"worker": 2, "pid": 4321, "text": "waiting"}]
    told = ask("stacks", stacks=lambda caller, _: tell_stacks(caller, MOLD, 4321, "none"))
    assert told == [{"worker": 0, "name": "the mold", "pid": 4321, "text": "none"}]


@pytest.mark.parametrize(("wish", "why"), [("ready", ""), ("drain", "drained by aserve balancers")])
def test_a_wish_is_done_and_answered(wish, why):
    done = []
    told = ask("balancers", set_unready=done.append, wish=wish)
    assert done == [why] and told == [{"text": f"balancers are told: {wish}"}, "end"]


@pytest.mark.parametrize("wish", ["stopped", 7, None, ["drain"]])
def test_no_such_wish(wish):
    """An unknown wish changes nothing, and the answer has the known words."""
    done = []
    told = ask("balancers", set_unready=done.append, wish=wish)
    assert done == [] and told == [{"error": "say one of ready, drain, maint"}]
