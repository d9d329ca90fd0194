"""Configurations that import gunicorn, where there is none."""

import importlib
import importlib.util
import sys

import pytest

from aserve.compat.moving import gunicorn_logger
from aserve.compat.moving.gunicorn_stand_in import TYPES, stand_in


@pytest.fixture(autouse=True)
def absent(monkeypatch):
    """gunicorn is not installed, and the test's imports are forgotten."""
    for name in ("gunicorn", "gunicorn.glogging", *TYPES):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "gunicorn" else found(name, *more)
    )


def test_what_is_there():
    """The server's name, and a named Logger, are there; all further imports fail as usual."""
    stand_in(b"import gunicorn")
    module = importlib.import_module("gunicorn")
    assert (module.SERVER, module.SERVER_SOFTWARE, module.__version__) == ("gunicorn", "gunicorn/23.0.0", "23.0.0")
    with pytest.raises(ModuleNotFoundError, match=r"gunicorn\.glogging"):
        importlib.import_module("gunicorn.glogging")
    del sys.modules["gunicorn"]
    stand_in(b"from gunicorn import glogging")
    assert (
        importlib.import_module("gunicorn.glogging") is gunicorn_logger is importlib.import_module("gunicorn").glogging
    )
    with pytest.raises(ModuleNotFoundError, match=r"gunicorn\.util"):
        importlib.import_module("gunicorn.util")


def test_types_for_annotations_are_there():
    """A file with annotated hooks may import the classes, and derive new classes; the classes have no objects."""
    stand_in(b"from gunicorn.arbiter import Arbiter")
    found = {name: importlib.import_module(name) for name in TYPES}
    assert [*vars(found["gunicorn.http.message"])][-2:] == ["Request", "__path__"]
    assert importlib.import_module("gunicorn").workers.base.Worker is found["gunicorn.workers.base"].Worker
    with pytest.raises(NotImplementedError, match=r"^gunicorn's Arbiter has only its name here"):
        found["gunicorn.arbiter"].Arbiter(None)


def test_not_needed_means_no_stand_in(monkeypatch):
    """A file without its name has no stand-in; an installed gunicorn stays."""
    stand_in(b"workers = 2")
    assert "gunicorn" not in sys.modules
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    stand_in(b"import gunicorn")
    assert "gunicorn" not in sys.modules
