"""[NAME=]COMMAND of --attach, and the same with times of --cron."""

import pytest
from harness.refusals import error_of

from aserve.features import Config
from aserve.features.programs.commands import parse_program, parse_timed
from aserve.lifecycle.program import name_programs


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("celery -A shop worker", "celery", ("celery", "-A", "shop", "worker")),
        ("/usr/bin/celery", "celery", ("/usr/bin/celery",)),
        ("beat=celery -A shop beat", "beat", ("celery", "-A", "shop", "beat")),
        ("sh -c 'exec worker --tmp=\"$TMP\"'", "sh", ("sh", "-c", 'exec worker --tmp="$TMP"')),
        ("a=b c=d", "a", ("b", "c=d")),
        ("env A=b c", "env", ("env", "A=b", "c")),
        ("bin/", "bin/", ("bin/",)),
    ],
)
def test_commands_are_words_of_a_shell(text, name, words):
    assert parse_program(text) == (name, words, "", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A=b celery", "begins with a variable, and no shell reads it: write env before it"),
        ("a=B=c celery", "begins with a variable"),
        ("a='", "has no command|no closing quotation"),
        ("sh -c 'x", "no closing quotation"),
        ("''", "has no command"),
        ("'a\0'", "has no command"),
    ],
)
def test_what_is_none(text, why):
    with pytest.raises(ValueError, match=why):
        parse_program(text)
    assert "--attach" not in error_of(Config, workers=1, attach=[text])


def test_several_programs_have_different_names():
    """A name is one program's; programs without a name are counted."""
    programs = [parse_program(text) for text in ("celery worker", "celery-2=celery beat", "celery purge", "celery x")]
    assert [program.name for program in name_programs(programs)] == ["celery", "celery-2", "celery-3", "celery-4"]
    assert Config(workers=1, attach="a=b\nb=a\n").attach == ("a=b", "b=a")
    assert "beat is named twice" in error_of(Config, workers=1, attach=["beat=a", "beat=b"])


@pytest.mark.parametrize(
    ("text", "name", "when", "command"),
    [
        ("0 3 * * * ./manage.py clearsessions", "cron manage.py", "0 3 * * *", "./manage.py clearsessions"),
        ("  */5  1-5 * *\t1,3  cd /srv && a > b", "cron cd", "*/5 1-5 * * 1,3", "cd /srv && a > b"),
        ("prune=0 3 * * * /usr/bin/env x", "cron prune", "0 3 * * *", "/usr/bin/env x"),
        ("0 3 * * * A=b x", "cron sh", "0 3 * * *", "A=b x"),
        ("0 3 * * * (a)", "cron sh", "0 3 * * *", "(a)"),
    ],
)
def test_timed_commands_have_times_and_a_shell(text, name, when, command):
    assert parse_timed(text) == (name, ("/bin/sh", "-c", command), when, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 3 * * *", "is not five times and a command"),
        ("0 3 * * x", "is not five times and a command"),
        ("0 3 * * * a\0b", "is not five times and a command"),
        ("@daily a b c d e", "'@daily' is no minute"),
        ("0 3 * * ./manage.py clear", "'./manage.py' is no day of the week"),
    ],
)
def test_what_is_not_timed(text, why):
    """A wrong one is refused, with the reason; a name is one command's."""
    assert why in error_of(Config, workers=1, cron=[text])
    assert Config(workers=1, cron="a=* * * * * x\n").cron == ("a=* * * * * x",)
    assert "a is named twice" in error_of(Config, workers=1, cron=["a=* * * * * x", "a=0 * * * * y"])
