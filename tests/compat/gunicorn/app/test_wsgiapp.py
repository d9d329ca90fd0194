"""Applications whose app is named."""

import runpy
import sys

import pytest

from aserve.compat.gunicorn.app import base, wsgiapp
from aserve.lifecycle.load_error import LoadError
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


class Named(wsgiapp.WSGIApplication):
    """The application of gunicorn's documentation for an app imported in workers."""

    def __init__(self, app_uri):
        self.app_uri = app_uri
        super().__init__()

    def load_config(self):
        """Set nothing."""


def test_a_name_is_imported_by_load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "named_shop.py").write_text("def application(environ, start_response): pass\ndef other(e, s): pass\n")
    try:
        assert Named("named_shop").load().__name__ == "application"
        assert Named("named_shop:other").load().__name__ == "other"
    finally:
        sys.modules.pop("named_shop", None)
    named = Named(str(tmp_path / "no.ini"))
    named.cfg.set("paste", "no.ini")
    with pytest.raises(LoadError, match=r"there is no file .*no\.ini"):
        named.load()


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["std", "-w", "3", "shop:app"])
    application = wsgiapp.WSGIApplication()
    assert (application.app_uri == "shop:app" and application.cfg.workers == "3") or application.cfg.workers == 3
    monkeypatch.setattr(sys, "argv", ["std", "--paste", "a.ini"])
    assert wsgiapp.WSGIApplication().app_uri == f"{tmp_path}/a.ini"
    (tmp_path / "gunicorn.conf.py").write_text("wsgi_app = 'a:b'\n")
    monkeypatch.setattr(sys, "argv", ["std"])
    assert wsgiapp.WSGIApplication().app_uri == "a:b"
    (tmp_path / "gunicorn.conf.py").unlink()
    with pytest.raises(ConfigError, match="No application module specified"):
        wsgiapp.WSGIApplication.load_config(object.__new__(_Empty))


class _Empty(wsgiapp.WSGIApplication):
    cfg = base.Cfg()


def test_run_is_the_command_gunicorn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["std", "shop:app"])
    monkeypatch.setattr(base, "_running", None)
    monkeypatch.setattr(base, "run_program", lambda program, flags: 0)
    with pytest.raises(SystemExit):
        wsgiapp.run()
    assert base._running.app_uri == "shop:app"
    calls = []
    monkeypatch.setattr(wsgiapp, "run", lambda: calls.append("run"))
    runpy.run_module("aserve.compat.gunicorn", run_name="__main__")
    assert calls == ["run"]
