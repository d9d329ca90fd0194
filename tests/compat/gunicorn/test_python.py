"""`aserve python PROGRAM`: a program for gunicorn, unchanged."""

import os
import subprocess
import sys

import pytest

from aserve.command.handed_down import HandedDescriptors
from aserve.compat.gunicorn import python, serving
from aserve.lifecycle.load_error import LoadError
from aserve.settings import ConfigError

HANDED = HandedDescriptors(None, None)
SOURCE = """\
import pathlib, sys
from gunicorn.app.base import BaseApplication
from gunicorn.app.wsgiapp import WSGIApplication
from gunicorn import util
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
import gunicorn
assert gunicorn.config.Config is Config and gunicorn.util is util and gunicorn.arbiter.Arbiter is Arbiter
pathlib.Path("seen").write_text(f"{__name__} {sys.argv} {sys.path[0]} {BaseApplication.__module__} {gunicorn.SERVER}")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a program; the run's changes to this process are put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv[:])
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(serving, "_begun", None)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a", python.CHILDREN, ""]))
    for name in python.STAND_INS:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "std.py").write_text(SOURCE)
    return tmp_path


def test_a_file_runs_as_the_main_program(folder):
    """The file runs as the main program, with its own arguments, and finds ours under gunicorn's names."""
    assert python.run_python(["-u", "std.py", "--port", "1"], {"workers": "2"}, HANDED) == 0
    assert (
        folder / "seen"
    ).read_text() == f"__main__ ['std.py', '--port', '1'] {folder} aserve.compat.gunicorn.app.base gunicorn"
    assert serving._begun == ({"workers": "2"}, HANDED)


def test_a_module_runs_as_with_python(folder):
    assert python.run_python(["-m", "std", "x"], {}, HANDED) == 0
    assert (folder / "seen").read_text().startswith(f"__main__ ['{folder}/std.py', 'x'] {folder} ")


@pytest.mark.parametrize("words", [["std.py"], ["-m", "std"]])
def test_one_that_raises(folder, words):
    """The traceback begins in the program."""
    (folder / "std.py").write_text("def f():\n    raise KeyError('x')\n\nf()\n")
    with pytest.raises(LoadError, match=rf"^running {words[-1]} raised KeyError: 'x'$") as caught:
        python.run_python(words, {}, HANDED)
    lines = [line.split(", ")[1] for line in caught.value.app_traceback.splitlines() if line.startswith("  File")]
    assert lines == ["line 4", "line 2"]


def test_processes_of_a_program(folder):
    """Python processes started by the program find the same; their earlier paths come behind."""
    (folder / "std.py").write_text("")
    python.run_python(["std.py"], {}, HANDED)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([python.CHILDREN, "/a"])
    assert sys.path[:2] == [str(folder), python.CHILDREN]
    source = "from gunicorn.app.base import BaseApplication as one; import gunicorn.util; print(one.__module__, gunicorn.__name__)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["aserve.compat.gunicorn.app.base", "aserve.compat.gunicorn"]
    done = subprocess.run([sys.executable, "-m", "gunicorn", "--nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode and "gunicorn has no such flag" in done.stderr


def test_a_module_that_is_not_there(folder):
    """A module missing in gunicorn's place is named; a missing module of the program's is the program's error."""
    (folder / "std.py").write_text("from gunicorn.six import iteritems")
    with pytest.raises(
        ConfigError, match=r"^std\.py: No module named 'gunicorn\.six': do without it; of .* gunicorn\.app\.base, "
    ):
        python.run_python(["std.py"], {}, HANDED)
    (folder / "std.py").write_text("import no_such_shop")
    with pytest.raises(
        LoadError,
        match=r"^running std\.py raised ModuleNotFoundError: No module named 'no_such_shop'; .* has no such module: ",
    ):
        python.run_python(["std.py"], {}, HANDED)


@pytest.mark.parametrize("words", [[], ["-c", "1"], ["-m"], ["none.py"]])
def test_no_program_is_an_error(folder, words):
    with pytest.raises(ConfigError, match="aserve python takes FILE or -m MODULE"):
        python.run_python(words, {}, HANDED)
