"""The fixtures of the tests in this folder."""

import pytest
from harness.gateways import closed_streams, fork

from aserve.compat.moving import uwsgi_values

__all__ = ["closed_streams", "fork"]


@pytest.fixture(autouse=True)
def syslog_is_there(monkeypatch):
    """A container has none."""
    monkeypatch.setattr(uwsgi_values, "LOCAL_SYSLOG", __file__)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a file of settings of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.ini").write_text("[uwsgi]\nmodule = a:b\nuid = nobody\nvaccum\nthreads = 2\n[x]\nthreads = 3\n")
    (tmp_path / "paste.ini").write_text("[app:main]\n")
    (tmp_path / "app.xml").write_text("<uwsgi/>")
    (tmp_path / "conf.py").write_text("workers = 2\ndef post_fork(server, worker): server.log.info('x')\n")
    return tmp_path
