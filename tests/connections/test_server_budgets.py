"""Limits for a server's large bodies: by the settings, or by free space."""

import os
import resource

import pytest

from aserve.connections.server_budgets import Budgets
from aserve.core.budgets import SpoolFile
from aserve.core.errors import RequestRefused
from aserve.core.incident import CALM_SECONDS
from aserve.features import Config


def test_what_is_set(monkeypatch):
    """The settings' numbers are the limits."""
    budgets = Budgets(
        Config(response_memory_bytes=1, body_spool_total_bytes=2, response_spool_total_bytes=3, spool_files=4)
    )
    assert budgets.memory.limit == 1 and budgets.files.limit == 4
    assert budgets.bodies.octets.limit == 2 and budgets.responses.octets.limit == 3
    assert budgets.bodies.files is budgets.responses.files is budgets.files


@pytest.mark.parametrize(("soft", "count"), [(1024, 256), (256, 64), (1, 1), (resource.RLIM_INFINITY, 1 << 62)])
def test_a_quarter_of_the_descriptors_is_for_files(monkeypatch, soft, count):
    monkeypatch.setattr(resource, "getrlimit", lambda which: {resource.RLIMIT_NOFILE: (soft, 1 << 20)}[which])
    assert Budgets(Config()).files.limit == count


@pytest.mark.parametrize("chosen", [0, 9])
def test_a_limit_of_descriptors_that_changes(monkeypatch, caplog, chosen):
    """The default number of files follows `ulimit -n` down and up again; a number of the settings stays."""
    budgets, soft = Budgets(Config(spool_files=chosen)), [0]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft[0], 1 << 20))
    for count in (64, 4096):
        soft[0] = count
        budgets.on_second()
        assert budgets.files.limit == (chosen or count // 4)
    assert not budgets.files.reserve(2000) and f"{chosen or 1024} temporary files" in caplog.text


def test_half_of_the_free_disk_is_for_requests(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    budgets, status = Budgets(Config()), os.statvfs(tmp_path)
    free_bytes = status.f_bavail * status.f_frsize
    assert budgets.bodies.octets.limit == 2 * budgets.responses.octets.limit
    assert abs(budgets.bodies.octets.limit * 2 - free_bytes) < max(free_bytes / 10, 1 << 24)


class Disk:
    """The numbers of statvfs."""

    f_bavail, f_frsize = 1 << 20, 4096


@pytest.fixture
def disk(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda folder: Disk)
    monkeypatch.setattr(Disk, "f_bavail", 1 << 20)
    return Disk


def test_a_disk_that_fills_and_empties(disk, caplog):
    """The limits follow the free space, without the server's own files; a lack is told at its begin and at its end."""
    budgets, whole = Budgets(Config()), 4 << 30
    body = SpoolFile(budgets.bodies)
    assert body.reserve(1 << 20)
    for blocks in (1 << 19, 0, 1 << 20):
        disk.f_bavail = blocks - 256 if blocks else 0
        budgets.on_second()
        assert budgets.bodies.octets.limit == (max(blocks * 4096, 1 << 20)) // 2
        assert budgets.responses.octets.limit == budgets.bodies.octets.limit // 2
        assert budgets.lacks_room is not bool(blocks)
    assert budgets.bodies.octets.limit == whole // 2
    assert "no room for request bodies" in caplog.text and "there is room for" not in caplog.text
    for _ in range(CALM_SECONDS + 1):
        budgets.on_second()
    assert caplog.text.count("there is room for request bodies") == 1
    body.close()


def test_a_body_larger_than_the_free_space(disk):
    """Such a body may come again, and is over no set limit."""
    budgets = Budgets(Config())
    with pytest.raises(RequestRefused) as caught:
        budgets.bodies.check(3 << 30)
    assert caught.value.status == 503 and "no room" in str(caught.value)
    assert budgets.bodies.check(2 << 30) is None


@pytest.mark.parametrize(
    "settings", [{"body": "stream"}, {"body_memory_bytes": 1 << 20, "max_body_bytes": 1 << 20}], ids=str
)
def test_a_full_disk_that_nobody_needs(disk, settings, caplog):
    """Where no body goes to the disk nothing lacks."""
    disk.f_bavail = 0
    budgets = Budgets(Config(**settings))
    budgets.look()
    assert not budgets.lacks_room and not caplog.text


@pytest.mark.parametrize("total", [0, 1 << 30])
def test_a_full_disk_and_a_limit_of_the_user(disk, total):
    """The disk lacks room, whatever the limit."""
    disk.f_bavail = 0
    budgets = Budgets(Config(body_spool_total_bytes=total))
    budgets.look()
    assert budgets.lacks_room


def test_no_folder_for_temporary_files(monkeypatch, caplog):
    """The start says so; and each body, with the system's reason, as no file goes to another folder."""
    monkeypatch.setenv("TMPDIR", "/nonexistent/folder")
    budgets = Budgets(Config())
    budgets.look()
    assert "/nonexistent/folder (TMPDIR): full, or no folder" in caplog.text
    file = SpoolFile(budgets.bodies)
    assert file.reserve(1 << 30)
    with pytest.raises(FileNotFoundError):
        file.open()
    file.close()


def test_statistics_tell_the_use_by_name():
    budgets = Budgets(Config(body_spool_total_bytes=100, response_spool_total_bytes=100, spool_files=3))
    body, response = SpoolFile(budgets.bodies), SpoolFile(budgets.responses)
    assert body.reserve(50) and response.reserve(70) and budgets.memory.reserve(5)
    assert not SpoolFile(budgets.responses).reserve(31)
    assert (budgets.body_spool_bytes, budgets.response_spool_bytes, budgets.response_memory_bytes) == (50, 70, 5)
    assert (budgets.files.count, budgets.refused_count) == (2, 1)
    body.close()
    response.close()
    budgets.on_second()
    assert (budgets.body_spool_bytes, budgets.response_spool_bytes, budgets.files.count) == (0, 0, 0)
