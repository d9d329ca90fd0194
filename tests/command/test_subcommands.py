"""The subcommands: each prints, and serves nothing."""

import os
import subprocess
import sys

import pytest

from aserve.command import cli
from aserve.command.subcommands import is_subcommand
from aserve.features import commands

pytestmark = pytest.mark.long_on_pypy


def test_translating_prints_and_serves_nothing(served, capsys, tmp_path):
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = 3\n")
    assert cli.main(["translate", "a.ini"]) == 0
    assert "\nthreads = 3\n" in capsys.readouterr().out
    assert served == []


def test_beginning_writes_files_and_serves_nothing(served, capsys, tmp_path):
    (tmp_path / "app.py").write_text("def app(environ, start_response): pass\n")
    assert cli.main(["init"]) == 0
    assert "aserve.toml: written\n" in capsys.readouterr().out
    assert 'app = "app:app"' in (tmp_path / "aserve.toml").read_text()
    assert served == []


def test_reading_prints_a_page_and_serves_nothing(served, capsys):
    assert cli.main(["docs", "workers"]) == 0
    assert capsys.readouterr().out.startswith("# Worker processes\n")
    assert served == []


def test_a_reader_that_ends_early(tmp_path):
    """`aserve docs settings | head -1` prints no traceback."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-Im", "aserve", "docs", "settings"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_which_words_are_subcommands():
    """Subcommands of features, and three of the command's own; an app in a module of such a name is named with the callable."""
    assert all(
        map(
            is_subcommand,
            (["config"], ["init"], ["docs"], ["status"], ["top"], ["reload", "--control", "x"], ["translate"]),
        )
    )
    assert (
        not is_subcommand([]) and not is_subcommand(["status:app"]) and not is_subcommand(["--threads", "2", "status"])
    )
    assert set(commands()) == {"status", "top", "reload", "recycle", "workers", "balancers", "stacks", "translate"}
