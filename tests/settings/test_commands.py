"""[NAME=]COMMAND of --attach."""

from __future__ import annotations

import pytest
from harness.refusals import error_of

from aserve.settings import Config
from aserve.settings.commands import name_programs, parse_program


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
def test_commands(text, name, words):
    """Words as a shell has them, and a name."""
    assert parse_program(text) == (name, words, ())


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
    """It is refused, and why."""
    with pytest.raises(ValueError, match=why):
        parse_program(text)
    assert "--attach" not in error_of(Config, workers=1, attach=[text])


def test_several():
    """A name is one program's; programs without a name are counted."""
    programs = [parse_program(text) for text in ("celery worker", "celery-2=celery beat", "celery purge", "celery x")]
    assert [program.name for program in name_programs(programs)] == ["celery", "celery-2", "celery-3", "celery-4"]
    assert Config(workers=1, attach="a=b\nb=a\n").attach == ("a=b", "b=a")
    assert "beat is named twice" in error_of(Config, workers=1, attach=["beat=a", "beat=b"])
