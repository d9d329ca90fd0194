"""gunicorn.util: importing an app."""

import sys

import pytest

from aserve.compat.gunicorn.util import import_app
from aserve.lifecycle.load_error import LoadError


def test_import_app_knows_gunicorns_names(tmp_path, monkeypatch):
    (tmp_path / "util_shop.py").write_text(
        "def application(environ, start_response): pass\ndef make(n): return application\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    found = import_app("util_shop")
    assert found.__name__ == "application" and import_app("util_shop:make(1)") is found
    with pytest.raises(LoadError, match="no 'app' in util_shop"):
        import_app("util_shop:app")
