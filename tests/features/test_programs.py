"""--attach and --cron: the programs to run, and the words about a missing one."""

import pytest

from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.features.programs import Named, Programs
from aserve.processes.fleet.plan import Plan
from aserve.settings import ConfigError


def check(config, environ):
    """Look for the programs, as when settings are read."""
    Programs(config).on_life(Life.READ, LifeContext(Plan(config, None), environ=environ))


def test_a_supervisor_asks():
    """Always, as a reload may name the first one; programs come in the order of the settings."""
    config = Config(workers=1, attach=["b", "a"], cron=["* * * * * c"])
    assert Programs.is_on(config) and not Programs.is_on(Config()) and Programs.is_supervised(Config())
    named = Programs(config).supervise(None)
    assert isinstance(named, Named) and named.programs(Config()) == []
    assert [program.name for program in named.programs(config)] == ["b", "a", "cron c"]


def test_other_events_look_for_nothing():
    Programs(Config(workers=1, attach=["no-such-program"])).on_life(Life.STARTS, LifeContext(None))


def test_what_is_not_there(tmp_path):
    """A missing program is told before anything starts."""
    (tmp_path / "run").write_text("#!/bin/sh\n")
    check(Config(workers=1, attach=["sh -c x"]), {"PATH": "/bin:/usr/bin"})
    for attach, env, why in (
        (
            "no-such-program x",
            (),
            r"--attach: cannot run 'no-such-program' of 'no-such-program ...': it is in no folder of PATH",
        ),
        ("sh", ("PATH=/nowhere",), r"it is in no folder of PATH \(/nowhere\)"),
        ("./run", (), "there is no such file that can be run"),
    ):
        with pytest.raises(ConfigError, match=why):
            check(Config(workers=1, attach=[attach], env=env, chdir=str(tmp_path)), {})
    (tmp_path / "run").chmod(0o755)
    check(Config(workers=1, attach=["./run"], chdir=str(tmp_path)), {})
