"""The module in gunicorn's place in processes of a program."""

import importlib
import sys

import pytest

from aserve.compat.gunicorn import children, python


@pytest.fixture
def forgotten(monkeypatch):
    """Nothing of gunicorn is imported."""
    for name in python.STAND_INS:
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.syspath_prepend(children.__path__[0])


@pytest.mark.usefixtures("forgotten")
def test_importing_gunicorn_gives_aserves():
    base = importlib.import_module("gunicorn.app.base")
    assert base.BaseApplication.__module__ == "aserve.compat.gunicorn.app.base"
    assert sys.modules["gunicorn"] is python.STAND_INS["gunicorn"]
