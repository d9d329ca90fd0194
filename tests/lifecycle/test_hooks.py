"""An app's functions for each serving process: called once, in order, before it serves."""

import pytest

import aserve
from aserve.lifecycle import hooks
from aserve.lifecycle.hooks import at_end, call_at_end, call_post_fork, post_fork
from aserve.lifecycle.load_error import LoadError


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """A process in which nothing was named, and nothing called."""
    monkeypatch.setattr(hooks, "_functions", [])
    monkeypatch.setattr(hooks, "_has_begun", False)
    monkeypatch.setattr(hooks, "_at_end", [])


def test_hooks_are_called_in_order():
    calls = []
    post_fork(lambda: post_fork(lambda: calls.append("third")))
    post_fork(lambda: calls.append("second"))
    assert calls == []
    call_post_fork()
    assert calls == ["second", "third"]


def test_the_decorator_leaves_the_function_unchanged():
    @aserve.post_fork
    def connect():
        return 5

    assert connect() == 5


def test_a_late_hook_is_called_at_once():
    calls = []
    call_post_fork()
    post_fork(lambda: calls.append(1))
    assert calls == [1]


@pytest.mark.parametrize("fault", [ValueError("no"), SystemExit(3)])
def test_a_function_that_raises(fault):
    """The process cannot serve; the reason, and its traceback, are told."""

    @post_fork
    def connect():
        raise fault

    with pytest.raises(
        LoadError, match=r"calling the post_fork function .*test_hooks:.*connect raised (Val|Sys)"
    ) as told:
        call_post_fork()
    assert "in connect" in told.value.app_traceback


def test_at_the_end():
    calls = []
    at_end(lambda: calls.append("end"))
    call_at_end()
    assert calls == ["end"]
