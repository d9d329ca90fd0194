"""Scrapes on a socket."""

import pytest
from harness.scraping import Answering
from harness.supervising import supervised

__all__ = ["answering", "supervised"]


@pytest.fixture
def answering(monkeypatch, tmp_path):
    """Scrapes on a unix socket."""
    answering = Answering(monkeypatch, tmp_path / "m")
    yield answering
    answering.close()
