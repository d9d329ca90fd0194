"""The command of this process; tests/e2e/test_upgrade.py shows its second run."""

import os
import subprocess
import sys
import types

import pytest

from aserve.core import command_line
from aserve.features import SETTINGS
from aserve.processes.children.command import Command

OTHER = ["-c", "import os, sys; print(os.getcwd(), os.environ['FD'], os.environ.get('A'), sys.argv[1:])", "a b"]


def _fail():
    raise OSError(28, "No space left on device")


FULL = types.SimpleNamespace(flush=_fail)


@pytest.mark.parametrize("is_known_by", ["/proc", "Python"])
def test_this_process_knows_its_command(monkeypatch, tmp_path, is_known_by):
    """Interpreter and arguments come from the command line, with the interpreter's flags."""
    if is_known_by == "Python":
        monkeypatch.setattr(command_line, "COMMAND_LINE", "/no/such/file")
        monkeypatch.setattr(sys, "orig_argv", ["python", "-I", "x y"], raising=False)
    else:
        (tmp_path / "cmdline").write_bytes(b"python\0-I\0x y\0")
        monkeypatch.setattr(command_line, "COMMAND_LINE", str(tmp_path / "cmdline"))
    monkeypatch.chdir(tmp_path)
    environ = {"A": "1"}
    command = Command.of_this_process(environ)
    environ["A"] = "2"
    assert command == ([sys.executable, "-I", "x y"], {"A": "1"}, str(tmp_path))
    assert command.show(SETTINGS) == f"{sys.executable} -I 'x y'"


def test_the_name_of_the_folder(monkeypatch, tmp_path):
    """The environment's folder is taken, if the same: a link's folder may change later."""
    (tmp_path / "release").mkdir()
    (tmp_path / "current").symlink_to("release")
    monkeypatch.chdir(tmp_path / "current")
    for said, folder in (
        (str(tmp_path / "current"), "current"),
        (str(tmp_path), "release"),
        ("", "release"),
        (".", "release"),
    ):
        assert Command.of_this_process({"PWD": said}).folder == str(tmp_path / folder)


def test_a_folder_that_is_gone(monkeypatch, tmp_path):
    """Then the folder is the process's own."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert Command.of_this_process({"PWD": str(tmp_path / "gone")}).folder == "."


def test_execute_runs_the_command_in_its_folder(tmp_path):
    """The command runs in its folder, with its environment and one variable more, and no printed text is lost."""
    source = (
        "import sys; sys.path[:0] = eval(sys.argv[1]); from aserve.processes.children.command import Command\n"
        "print('before'); Command(*eval(sys.argv[2])).execute('FD', 7)"
    )
    command = Command([sys.executable, *OTHER], {"A": "1"}, str(tmp_path))
    arguments = [sys.executable, "-Ic", source, repr(sys.path), repr(tuple(command))]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["before", f"{tmp_path} 7 1 ['a b']"]


@pytest.mark.parametrize("output", ["full", "closed"])
def test_output_that_nobody_takes(monkeypatch, output):
    """Printed text may be lost; the command is run."""
    run = []
    monkeypatch.setattr(os, "execve", lambda *command: run.append(command))
    monkeypatch.setattr("sys.stdout", FULL if output == "full" else None)
    Command([sys.executable, "-V"], {}, "/").execute("FD", 7)
    assert run == [(sys.executable, [sys.executable, "-V"], {"FD": "7"})]


@pytest.mark.parametrize(
    ("words", "folder", "why"),
    [
        (["/no/such/python", "-V"], "/", "No such file"),
        ([sys.executable, "-V"], "/no/such/folder", "No such file"),
        ([sys.executable], "/", "the command line is not known without /proc"),
    ],
)
def test_what_cannot_be_run(monkeypatch, tmp_path, words, folder, why):
    """After a failure the process is where it was."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=why):
        Command(words, {}, folder).execute("FD", 7)
    assert os.getcwd() == str(tmp_path)


def test_a_command_line_that_nobody_knows(monkeypatch):
    """Then the command can serve, and is not run again."""
    monkeypatch.setattr(command_line, "COMMAND_LINE", "/no/such/file")
    monkeypatch.delattr(sys, "orig_argv", raising=False)
    assert Command.of_this_process({}).words == [sys.executable]
