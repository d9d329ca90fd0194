"""The command line of a process's start; with variants: tests/processes/children/test_command.py."""

import sys

from aserve.core import command_line


def test_without_proc_python_may_know_it(monkeypatch):
    """Python knows it, from 3.10 on; before, it is unknown."""
    monkeypatch.setattr(command_line, "COMMAND_LINE", "/no/such/file")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "aserve"], raising=False)
    assert command_line.read_command_line() == ["python", "-m", "aserve"]
    monkeypatch.delattr(sys, "orig_argv")
    assert command_line.read_command_line() == []


def test_with_proc_each_word_is_read(monkeypatch, tmp_path):
    (tmp_path / "cmdline").write_bytes(b"python\0-c\0\0a b\0")
    monkeypatch.setattr(command_line, "COMMAND_LINE", str(tmp_path / "cmdline"))
    assert command_line.read_command_line() == ["python", "-c", "", "a b"]
