"""A program beside the workers: its name, its environment, its shown command."""

from aserve.features import Config
from aserve.lifecycle.program import Program, environ_for, name_programs


def test_names_of_programs_differ():
    programs = [Program(name, ("x",)) for name in ("a", "a-2", "a", "a")]
    assert [program.name for program in name_programs(programs)] == ["a", "a-2", "a-3", "a-4"]


def test_its_environment_is_the_supervisors():
    """The environment is the supervisor's with --env, without systemd's words to the supervisor."""
    config = Config(env=["A=b=c"])
    assert environ_for(config, {"A": "a", "B": "b", "LISTEN_FDS": "3"}) == {"A": "b=c", "B": "b"}


def test_its_command_shows_one_word():
    """Its first word is shown, as others may be secrets; with times, the first of the shell's words."""
    assert str(Program("a", ("celery", "-p", "x"))) == "celery ..."
    assert str(Program("a", ("/bin/sh", "-c", "run x"), when="* * * * *")) == "run ..."
