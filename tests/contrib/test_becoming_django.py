"""manage.py runaserve; the served pages are tested end to end, in a separate process."""

import argparse

import pytest

pytest.importorskip("django")
from django.conf import settings

from aserve.contrib.django.management.commands import runaserve


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--reload"]),
        (["--noreload"], []),
        (["8001"], ["--reload", "--bind", "127.0.0.1:8001"]),
        (["8001", "--", "--threads", "4"], ["--reload", "--bind", "127.0.0.1:8001", "--threads", "4"]),
        (["--", "--threads", "4"], ["--reload", "--threads", "4"]),
    ],
)
def test_the_command_takes_flags_of_both(monkeypatch, arguments, words):
    """Flags of aserve stand behind --."""
    if not settings.configured:
        settings.configure()
    became = []
    monkeypatch.setattr(runaserve, "become_aserve", became.append)
    parser = argparse.ArgumentParser()
    command = runaserve.Command()
    command.add_arguments(parser)
    command.handle(**vars(parser.parse_args(arguments)))
    assert became == [["-m", "aserve", runaserve.APP, *words]]
