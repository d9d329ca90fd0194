"""The settings of a program for gunicorn."""

import sys
import types

import pytest
from harness.interpreter import NEEDS_LINUX

from aserve.compat.moving.gunicorn_cfg import Cfg
from aserve.compat.moving.gunicorn_programs import GunicornProgram, load_program
from aserve.compat.moving.origin import read_origin
from aserve.lifecycle.load_error import LoadError
from aserve.settings import ConfigError

pytestmark = NEEDS_LINUX


def read(**settings):
    """Return the function of a program with these settings."""
    cfg = Cfg()
    for name, value in settings.items():
        cfg.set(name, value)
    return lambda: cfg


def test_settings_of_a_program_become_ours():
    def post_fork(server, worker):
        worker.log.info("forked")

    draft, hooks = load_program(
        GunicornProgram("std.py", "a:b()", read(workers="2", threads=3, bind="127.0.0.1:0", post_fork=post_fork)), {}
    )
    assert draft.app == "a:b()" and draft.facts["hooks"] == ["post_fork"]
    assert {name: draft.settings[name] for name in ("workers", "threads", "bind")} == {
        "workers": 2,
        "threads": 3,
        "bind": ["127.0.0.1:0"],
    }
    origin = read_origin({"gunicorn_program": GunicornProgram("std.py", "a:b()", read(reload=True))}, {})
    assert origin.draft.app == "a:b()" and str(origin.draft.notes[0]).startswith(
        "std.py: reload = True: it has no effect here"
    )


def test_mistakes_name_the_program():
    """A wrong value is named with the program; code that raises is the program's fault, and ends no supervisor."""
    with pytest.raises(ConfigError, match=r"^std\.py: workers = many: 'many' is not a number$"):
        load_program(GunicornProgram("std.py", "a:b()", read(workers="many")), {})
    with pytest.raises(LoadError, match=r"^reading the settings of std\.py raised SystemExit: 1$"):
        load_program(GunicornProgram("std.py", "a:b()", lambda: sys.exit(1)), {})


def test_the_name_of_the_server(monkeypatch):
    """A program's value that hides the server's name is --server-name."""
    module = types.ModuleType("aserve.compat.gunicorn")
    module.SERVER, module.SERVER_SOFTWARE = "gunicorn", "web"
    monkeypatch.setitem(sys.modules, "aserve.compat.gunicorn", module)
    assert load_program(GunicornProgram("std.py", "a:b()", read()), {})[0].settings["server-name"] == "web"
