"""The fixtures of the tests in this folder."""

import logging
import sys

import pytest
from harness.gateways import closed_streams, fork

from aserve.compat.moving import uwsgi_values
from aserve.compat.moving.gunicorn_logger import ACCESS, ERROR

__all__ = ["closed_streams", "fork"]


@pytest.fixture(autouse=True)
def syslog_is_there(monkeypatch):
    """A container has none."""
    monkeypatch.setattr(uwsgi_values, "LOCAL_SYSLOG", __file__)


@pytest.fixture
def gunicorn_loggers(monkeypatch):
    """Leave sys.path and the loggers as they were."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    found = [logging.getLogger(name) for name in ("aserve", ERROR, ACCESS, "")]
    before = [(each.handlers[:], each.level, each.propagate) for each in found]
    yield
    for each, (handlers, level, propagate) in zip(found, before):
        for handler in set(each.handlers) - set(handlers):
            handler.close()
        each.handlers[:], each.level, each.propagate = handlers, level, propagate


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a file of settings of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.ini").write_text("[uwsgi]\nmodule = a:b\nuid = nobody\nvaccum\nthreads = 2\n[x]\nthreads = 3\n")
    (tmp_path / "paste.ini").write_text("[app:main]\n")
    (tmp_path / "app.xml").write_text("<uwsgi/>")
    (tmp_path / "conf.py").write_text("workers = 2\ndef post_fork(server, worker): server.log.info('x')\n")
    return tmp_path
