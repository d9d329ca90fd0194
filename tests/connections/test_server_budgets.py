"""What the large bodies of a server may take: by the settings, or by what is free."""

from __future__ import annotations

import os
import resource
import tempfile

import pytest

from aserve.connections.server_budgets import Budgets
from aserve.core.budgets import SpoolFile
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
def test_default_files(monkeypatch, soft, count):
    """A quarter of the descriptors, and one at least."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: {resource.RLIMIT_NOFILE: (soft, 1 << 20)}[which])
    assert Budgets(Config()).files.limit == count


def test_default_disk(monkeypatch, tmp_path):
    """Half of what is free for request bodies, a quarter for responses."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    budgets, status = Budgets(Config()), os.statvfs(tmp_path)
    free_bytes = status.f_bavail * status.f_frsize
    assert budgets.bodies.octets.limit == 2 * budgets.responses.octets.limit
    assert abs(budgets.bodies.octets.limit * 2 - free_bytes) < max(free_bytes / 10, 1 << 24)


def test_no_folder_for_temporary_files(monkeypatch):
    """Then the first file says so, and not the start."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent/folder")
    assert Budgets(Config()).bodies.octets.limit > 1 << 60


def test_statistics():
    """What is in use, by name."""
    budgets = Budgets(Config(body_spool_total_bytes=100, response_spool_total_bytes=100, spool_files=3))
    body, response = SpoolFile(budgets.bodies), SpoolFile(budgets.responses)
    assert body.reserve(50) and response.reserve(70) and budgets.memory.reserve(5)
    assert not SpoolFile(budgets.responses).reserve(31)
    assert (budgets.body_spool_bytes, budgets.response_spool_bytes, budgets.response_memory_bytes) == (50, 70, 5)
    assert (budgets.spool_file_count, budgets.refused_count) == (2, 1)
    body.close()
    response.close()
    budgets.on_second()
    assert (budgets.body_spool_bytes, budgets.response_spool_bytes, budgets.spool_file_count) == (0, 0, 0)
