"""The queues of a server with mules, for a test alone."""

import os

import pytest

from aserve.compat.uwsgi_api import process as process_module
from aserve.compat.uwsgi_api.mules import post as module
from aserve.compat.uwsgi_api.process import Process


@pytest.fixture
def open_post(monkeypatch):
    """Make queues: open_post(mules, *farms) -> Post; their descriptors are closed behind the test."""
    monkeypatch.setattr(module, "KEPT", {})
    monkeypatch.setattr(module, "_post", None)
    monkeypatch.setattr(module, "_number", 0)
    monkeypatch.setattr(process_module, "_present", Process())
    yield lambda mules, *farms: module.Post.open(mules, farms)
    for fd in module.KEPT.values():
        os.close(fd)


@pytest.fixture
def post(open_post):
    """The queues of two mules, the second in a farm; this process is a worker."""
    found = open_post(2, "f:2")
    module.share(found)
    return found
