"""The functions and decorators of mules, with the recorded results and errors of uWSGI 2.0.30."""

import os
import pickle
import sys

import pytest

from aserve.compat.uwsgi_api.mules import functions
from aserve.compat.uwsgi_api.mules.functions import DECORATORS, FUNCTIONS, mule_msg_dispatcher, mulefunc
from aserve.compat.uwsgi_api.mules.post import wait_for
from aserve.compat.uwsgi_api.process import Process, become
from aserve.lifecycle import hooks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mules need Linux")

mule_msg, mule_get_msg, farm_msg = FUNCTIONS["mule_msg"], FUNCTIONS["mule_get_msg"], FUNCTIONS["farm_msg"]
farm_get_msg, in_farm, mule_id = FUNCTIONS["farm_get_msg"], FUNCTIONS["in_farm"], FUNCTIONS["mule_id"]


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """No function is registered."""
    monkeypatch.setattr(functions, "_functions", {})
    monkeypatch.setattr(hooks, "_functions", [])
    monkeypatch.setattr(hooks, "_has_begun", False)


def test_without_mules_a_message_has_no_mule(open_post):
    with pytest.raises(ValueError, match="no mule configured; --uwsgi-mule makes one"):
        mule_msg(b"m")
    assert mule_id() == 0 and in_farm() is None and farm_msg("f", b"m") is None


def test_in_a_worker(post):
    """A worker sends, and receives nothing."""
    assert mule_msg(b"any") is mule_msg("text") is mule_msg(b"two", 2) is True
    assert mule_msg(b"m", 5) is False and farm_msg("f", b"farm") is farm_msg("none", b"m") is None
    with pytest.raises(ValueError, match="invalid mule"):
        mule_msg(b"m", "f")
    for receive, kind in ((mule_get_msg, "mule"), (farm_get_msg, "farm")):
        with pytest.raises(ValueError, match=f"you can receive {kind} messages only in a mule !!!"):
            receive()
    assert in_farm("f") is None
    assert [wait_for(post.inbox(2), 10, 0) for _ in range(4)] == [b"two", b"any", b"text", b"farm"]


def test_in_a_mule(post):
    """A mule receives the mule's own messages, messages for any mule, and the farms', unless not wanted."""
    become(Process(0, mule_id=2))
    assert mule_id() == 2 and in_farm() is in_farm("f") is True and in_farm("g") is None
    farm_msg(b"f", b"one")
    farm_msg("f", b"two")
    assert mule_get_msg(farms=False, timeout=0) == b"" and mule_get_msg() == b"one" and farm_get_msg() == b"two"
    mule_msg(b"longer", 2)
    assert mule_get_msg(True, True, 4) == b"long"


def test_a_call_of_mulefunc_runs_in_a_mule(post):
    """A call is a message to any mule, or to the named one; there the function is called."""
    calls = []

    @mulefunc
    def first(*arguments, **named):
        calls.append((arguments, named))
        return 5

    @mulefunc(2)
    def second():
        """Its text."""
        calls.append("second")

    assert first(1, a=2) is True and second() is True and calls == [] and functions.has_functions()
    assert (second.__name__, second.__doc__) == ("second", "Its text.")
    to_two, to_any = (wait_for(post.inbox(2), 65536) for _ in range(2))
    assert mule_msg_dispatcher(to_any) == 5 and mule_msg_dispatcher(to_two) is None
    assert calls == [((1,), {"a": 2}), "second"]
    assert mule_msg_dispatcher(pickle.dumps({"service": "other"})) is None


class Over(Exception):
    """Ends an endless loop."""


@pytest.mark.parametrize("mule", [0, 1, 2])
def test_programs_of_mules_run_in_their_mule(post, mule):
    become(Process(0, mule_id=mule))
    calls = []
    assert DECORATORS["mule"](2)(lambda: calls.append("mule")) is None
    hooks.call_post_fork()
    assert calls == (["mule"] if mule == 2 else [])


def test_loops_call_again_and_again(post):
    become(Process(0, mule_id=2))
    calls = []

    def note(*what):
        calls.append(what)
        if len(calls) % 2 == 0:
            raise Over

    for decorate, sent in (
        (DECORATORS["muleloop"](2), [(), ()]),
        (DECORATORS["mulemsg"](2), [(b"a",), (b"b",)]),
        (DECORATORS["farm"]("f"), [(b"a",), (b"b",)]),
    ):
        hooks._functions[:] = []
        decorate(note)
        for message in sent:
            if message:
                farm_msg("f", message[0])
        (begin,) = hooks._functions
        with pytest.raises(Over):
            begin()
        assert calls[-2:] == sent


def test_no_farm_runs_no_function(post):
    become(Process(0, mule_id=1))
    DECORATORS["farm"]()(os.abort)
    hooks.call_post_fork()


def test_nothing_has_come(post, monkeypatch):
    """A wait without a message calls nothing."""
    become(Process(0, mule_id=2))
    found = [b"", b"a"]
    monkeypatch.setattr(functions, "waiting", lambda queues, size, seconds: found.pop(0))
    calls = []

    def note(message):
        calls.append(message)
        raise Over

    for decorate in (DECORATORS["mulemsg"](2), DECORATORS["farm"]("f")):
        found[:], hooks._functions[:] = [b"", b"a"], []
        decorate(note)
        with pytest.raises(Over):
            hooks._functions[0]()
    assert calls == [b"a", b"a"]
    functions.wait_by(functions._wait)
    assert functions.waiting is functions._wait
