"""What is answered to `aserve balancers`."""

from __future__ import annotations

import pytest

from aserve.processes.wishes import tell_balancers


class Listening:
    """A caller that keeps what it is told."""

    def __init__(self):
        self.told = []

    def refuse(self, why):
        self.told.append({"error": why})

    def say(self, message):
        self.told.append(message)

    def end(self):
        self.told.append("end")


@pytest.mark.parametrize(("wish", "why"), [("ready", ""), ("drain", "drained by aserve balancers")])
def test_a_wish(wish, why):
    """It is done, and the answer says so."""
    caller, done = Listening(), []
    tell_balancers(caller, {"wish": wish}, done.append)
    assert done == [why] and caller.told == [{"text": f"balancers are told: {wish}"}, "end"]


@pytest.mark.parametrize("wish", ["stopped", 7, None, ["drain"]])
def test_no_such_wish(wish):
    """It changes nothing, and the answer has the words that there are."""
    caller, done = Listening(), []
    tell_balancers(caller, {"wish": wish}, done.append)
    assert done == [] and caller.told == [{"error": "say one of ready, drain, maint"}]
