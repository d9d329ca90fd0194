"""docs/moving-table.md: no more differs from uWSGI and gunicorn than it says; `make moving` compares with these servers themselves."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys

import pytest
from harness.interpreter import ONCE
from moving import compare

RECORDED = json.loads(compare.RECORDED.read_text())
# One or two of each kind: files, sockets with rights, logs, static files, command lines.
SHORT = [
    "d02_letters.cmd", "d03_file.cmd", "d04_file_last.cmd", "d05_placeholder.cmd", "d07_threads.cmd", "g03_threads.py", "g05_preload.py",
    "u02_nginx_socket.ini", "u18_sections.ini", "u13_chdir.ini",
]  # fmt: skip


@ONCE
@pytest.mark.skipif(sys.platform != "linux", reason="worker processes need Linux")
@pytest.mark.parametrize("name", SHORT)
def test_no_more_differs(name):
    """Each differs from the other server in what the table has, and in nothing else."""
    aserve = shutil.which("aserve", path=os.path.dirname(sys.executable))
    ours = compare.run(compare.Case(compare.CASES / name), [aserve])
    theirs, recorded = RECORDED[name]["theirs"], RECORDED[name]["ours"]
    assert ours["starts"], ours["said"]
    ours["at once"] = recorded["at once"]  # which a busy machine may change
    now = compare.differences(theirs, ours)
    assert {what: text for what, text in now.items() if what not in compare.differences(theirs, recorded)} == {}


def test_the_table_is_of_the_records():
    """Each case has a row; `make moving` writes it."""
    assert compare.table_of(RECORDED) == compare.TABLE.read_text()
    assert {path.name for path in compare.CASES.iterdir()} == set(RECORDED)
    assert all(pathlib.Path(name).suffix in (*compare.UWSGI_FILES, ".py", ".cmd") for name in RECORDED)
