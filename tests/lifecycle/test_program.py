"""A program beside the workers: its name, its environment, what is shown of it."""

from __future__ import annotations

from aserve.features import Config
from aserve.lifecycle.program import Program, environ_for, name_programs


def test_names():
    """A name is one program's; the second of that name has a number."""
    programs = [Program(name, ("x",)) for name in ("a", "a-2", "a", "a")]
    assert [program.name for program in name_programs(programs)] == ["a", "a-2", "a-3", "a-4"]


def test_its_environment():
    """That of the supervisor with --env, but what systemd says to the supervisor."""
    config = Config(env=["A=b=c"])
    assert environ_for(config, {"A": "a", "B": "b", "LISTEN_FDS": "3"}) == {"A": "b=c", "B": "b"}


def test_its_command():
    """Its first word is shown, as others may be secrets; with times, the first of what the shell runs."""
    assert str(Program("a", ("celery", "-p", "x"))) == "celery ..."
    assert str(Program("a", ("/bin/sh", "-c", "run x"), when="* * * * *")) == "run ..."
