"""The extension of --spooler."""

import sys

import pytest

from aserve.compat.uwsgi_api.spooler import Spooling
from aserve.compat.uwsgi_api.spooler.supervising import Spoolers
from aserve.core import command_line
from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.lifecycle.supervision import SupervisorContext
from aserve.settings import ConfigError


def test_a_supervisor_asks():
    """Always, as a reload may name the first folder."""
    assert Spooling.is_on(Config(workers=1, spooler=["/x"])) and not Spooling.is_on(Config())
    assert Spooling.is_supervised(Config())
    assert isinstance(Spooling(Config()).supervise(SupervisorContext(None, {}, None, None)), Spoolers)


def test_without_proc_a_spooler_is_refused(monkeypatch):
    """An interpreter with an unknown command line (before 3.10) cannot start another like it: the error comes at once."""
    spooling = Spooling(Config(workers=1, spooler=["/tmp"]))
    monkeypatch.setattr(command_line, "COMMAND_LINE", "/no/such/file")
    monkeypatch.delattr(sys, "orig_argv", raising=False)
    spooling.on_life(Life.STARTS, LifeContext(None))
    with pytest.raises(ConfigError, match=r"spooler: the command line, .* is not known without /proc"):
        spooling.on_life(Life.READ, LifeContext(None))
