"""When saved files are looked for, and the told changes."""

import asyncio
import builtins
import logging
import os

import pytest
from harness.interpreter import has_module

from aserve.processes.worker import reloading
from aserve.processes.worker.reloading import Reloader
from aserve.processes.worker.sources import Sources

WAYS = ["poll", "watchfiles"] if has_module("watchfiles") else ["poll"]


class Watched:
    """A watched folder, and the told changes."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "a.html").write_text("a")
        self.said = asyncio.Queue()
        self.reloader = Reloader(Sources([str(folder)], []), self.said.put_nowait)
        self.task = asyncio.ensure_future(self.reloader.run())

    async def stop(self):
        self.reloader.stop()
        await asyncio.wait_for(self.task, 30)


@pytest.fixture(params=WAYS)
async def watched(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "poll":
        monkeypatch.setattr(reloading, "find_spec", lambda name: None)
    one = Watched(tmp_path)
    yield one
    await one.stop()


async def test_a_change_is_told_once(watched):
    """Each change is told once, with the file's name."""
    for number in (1, 2):
        (watched.folder / "a.html").write_text("more" * number)
        assert await asyncio.wait_for(watched.said.get(), 30) == "a.html has changed"
    assert watched.said.empty()


async def test_a_new_file(watched):
    (watched.folder / "b.html").write_text("")
    assert await asyncio.wait_for(watched.said.get(), 30) == "b.html has changed"


async def test_several_files_are_one_change(watched, monkeypatch):
    """Files saved together are one change, when all are there."""
    monkeypatch.setattr(reloading, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reloading, "MAX_SETTLE_SECONDS", 60)
    rounds = iter([["a"], ["b", "a"], ["c"], []])
    monkeypatch.setattr(watched.reloader._sources, "find_changed", lambda: next(rounds, []))
    assert await asyncio.wait_for(watched.said.get(), 30) == "a and 2 more have changed"


async def test_no_end_of_changes(tmp_path, monkeypatch):
    """Files written all the time, as by a build, do not put the reload off for ever."""
    monkeypatch.setattr(reloading, "MAX_SETTLE_SECONDS", 0.02)
    monkeypatch.setattr(reloading, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reloading, "find_spec", lambda name: None)
    one = Watched(tmp_path)
    monkeypatch.setattr(one.reloader._sources, "find_changed", lambda: ["a"])
    assert await asyncio.wait_for(one.said.get(), 30) == "a has changed"
    await one.stop()


async def test_a_save_during_an_import(watched):
    """From the first change on, every file of the project counts: the import may fail for one not imported yet."""
    watched.reloader._looked_around_at += 1000  # a look around would find the new file, too
    (watched.folder / "b.py").write_text("")
    watched.reloader._sources._folders = (str(watched.folder),)
    (watched.folder / "a.html").write_text("more")
    assert await asyncio.wait_for(watched.said.get(), 30) == "a.html has changed"
    (watched.folder / "b.py").write_text("mended")
    assert await asyncio.wait_for(watched.said.get(), 30) == "b.py has changed"


async def test_all_files_count_after_a_failure(watched):
    """After a failed start all code is watched."""
    watched.reloader._sources._folders = (str(watched.folder),)
    watched.reloader.look_at_all()
    (watched.folder / "new.py").write_text("")
    assert await asyncio.wait_for(watched.said.get(), 30) == "new.py has changed"


@pytest.mark.skipif("watchfiles" not in WAYS, reason="watchfiles is not installed")
async def test_more_is_imported(tmp_path, monkeypatch):
    """The kernel is asked about later folders, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reloading, "AROUND_SECONDS", 0.05)
    one = Watched(tmp_path)
    asked = []
    folders = one.reloader._sources.folders
    monkeypatch.setattr(one.reloader._sources, "folders", lambda: asked.append(folders()) or asked[-1])
    os.mkdir("sub")
    open("sub/b.html", "w").close()
    assert await asyncio.wait_for(one.said.get(), 30)
    while not any(str(tmp_path / "sub") in found for found in asked):
        await asyncio.sleep(0.01)
    await one.stop()


async def test_a_failing_watchfiles_is_replaced_by_looks(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "aserve")
    monkeypatch.setattr(logging.getLogger("aserve"), "propagate", True)
    monkeypatch.setattr(reloading, "find_spec", lambda name: "here")
    real = builtins.__import__

    def fail(name, *arguments, **more):
        if name == "watchfiles":
            raise OSError("OS file watch limit reached")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", fail)
    one = Watched(tmp_path)
    (tmp_path / "b.html").write_text("")
    assert "b.html" in await asyncio.wait_for(one.said.get(), 30)
    assert "--reload: watchfiles fails (OS file watch limit reached); looking at the files themselves" in caplog.text
    await one.stop()
