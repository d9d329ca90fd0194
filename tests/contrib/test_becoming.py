"""How a framework's command becomes ours."""

import os
import sys

import pytest

from aserve.contrib.becoming import become_aserve, words_of


@pytest.mark.parametrize(
    ("bind", "more", "words"),
    [
        (None, [], []),
        ("8001", [], ["--bind", "127.0.0.1:8001"]),
        ("0.0.0.0:80", ["--threads", "4"], ["--bind", "0.0.0.0:80", "--threads", "4"]),
        ("[::1]:80", [], ["--bind", "[::1]:80"]),
    ],
)
def test_words_of_runserver_become_ours(bind, more, words):
    """An address has runserver's form: a port alone is on loopback."""
    assert words_of("a:b", False, bind, more) == ["-m", "aserve", "a:b", *words]
    assert words_of("a:b", True, bind, more) == ["-m", "aserve", "a:b", "--reload", *words]


def test_become_replaces_the_process(monkeypatch):
    executed = []
    monkeypatch.setattr(os, "execv", lambda *arguments: executed.append(arguments))
    become_aserve(["-m", "aserve"])
    assert executed == [(sys.executable, [sys.executable, "-m", "aserve"])]
