"""The extension of --uwsgi-mule."""

import sys

import pytest

from aserve.compat.uwsgi_api.mules import UwsgiMules, post
from aserve.compat.uwsgi_api.mules.supervising import Mules
from aserve.core import command_line
from aserve.core.page import TRIAL
from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.lifecycle.supervision import SupervisorContext
from aserve.processes.children.role import Role
from aserve.processes.fleet.plan import Plan
from aserve.settings import ConfigError

CONFIG = Config(workers=1, uwsgi_mule=["-"])


def test_when_it_is_on():
    """With a mule."""
    assert UwsgiMules.is_on(CONFIG) and not UwsgiMules.is_on(Config())
    assert isinstance(UwsgiMules(CONFIG).supervise(SupervisorContext(None, {}, None, None)), Mules)


def test_without_proc_mules_are_refused(monkeypatch):
    """An interpreter with an unknown command line cannot start another like it: the error comes at once."""
    monkeypatch.setattr(command_line, "COMMAND_LINE", "/no/such/file")
    monkeypatch.delattr(sys, "orig_argv", raising=False)
    with pytest.raises(ConfigError, match=r"uwsgi-mule: the command line, .* is not known without /proc"):
        UwsgiMules(CONFIG).on_life(Life.READ, LifeContext(None))


def test_the_queues_are_made_before_workers(monkeypatch):
    """Queues are made before the first worker; a trial of new code has separate queues; all further processes inherit the queues."""
    made = []
    monkeypatch.setattr(post.Post, "open", lambda *what: made.append(what))
    monkeypatch.setattr(post, "_post", None)
    extension, plan = UwsgiMules(CONFIG), Plan(CONFIG, "hello:app")
    extension.on_life(Life.WORKERS_BEGIN, LifeContext(plan, kept={"a": 3}))
    extension.on_life(Life.IMPORTS, LifeContext(plan, Role(TRIAL, 1, plan, None, (), None)))
    extension.on_life(Life.IMPORTS, LifeContext(plan, Role(1, 1, plan, None, (), None)))
    extension.on_life(Life.READ, LifeContext(plan))
    assert made == [(1, (), {"a": 3}), (1, (), {})]


def test_no_descriptor_is_one_line(monkeypatch):
    def fail(*what):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(post.Post, "open", fail)
    with pytest.raises(ConfigError, match="there is no descriptor for its messages: Too many open files"):
        UwsgiMules(CONFIG).on_life(Life.WORKERS_BEGIN, LifeContext(Plan(CONFIG, "hello:app")))
