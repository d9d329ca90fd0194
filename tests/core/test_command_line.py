"""The command line that started a process; with variants of it: tests/processes/children/test_command.py."""

from __future__ import annotations

import sys

from aserve.core import command_line


def test_without_proc(monkeypatch):
    """Python knows it, from 3.10 on; before that nothing is known."""
    monkeypatch.setattr(command_line, "COMMAND_LINE", "/no/such/file")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "aserve"], raising=False)
    assert command_line.read_command_line() == ["python", "-m", "aserve"]
    monkeypatch.delattr(sys, "orig_argv")
    assert command_line.read_command_line() == []


def test_with_proc(monkeypatch, tmp_path):
    """Each word as it was given, also one that is empty."""
    (tmp_path / "cmdline").write_bytes(b"python\0-c\0\0a b\0")
    monkeypatch.setattr(command_line, "COMMAND_LINE", str(tmp_path / "cmdline"))
    assert command_line.read_command_line() == ["python", "-c", "", "a b"]
