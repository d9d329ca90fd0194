"""The list of features: none is forgotten, and each is read from the feature's own settings."""

import dataclasses
import importlib
import importlib.util
import subprocess
import sys
import types

from harness.modules import MODULES

from aserve import features
from aserve.compat.moving.gunicorn_hooks import GunicornHooks
from aserve.compat.moving.gunicorn_logs import GunicornLogs
from aserve.compat.moving.uwsgi_hooks import UwsgiHooks
from aserve.compat.moving.uwsgi_imports import UwsgiImports
from aserve.compat.moving.uwsgi_log_files import UwsgiLogFiles
from aserve.extension import Extension, Life, LifeContext
from aserve.features import FEATURES, SETTINGS, Config, extensions_of, on_life
from aserve.features.wire_log import WireLog
from aserve.processes.fleet.plan import Plan
from aserve.settings import EngineSettings

# Only a child process imports these, with --https; these import the extra `acme`.
OF_A_CHILD = {f"features.https.{name}" for name in ("account", "challenges", "keys", "order", "program")}
HAS_ACME = importlib.util.find_spec("acme") is not None


def classes_of_features():
    """Return the classes of the modules of features."""
    rooms = ("features.", "compat.moving.", "compat.routes", "compat.uwsgi_api")
    names = [name for name in MODULES if name.startswith(rooms) and (name not in OF_A_CHILD or HAS_ACME)]
    modules = [importlib.import_module(f"aserve.{name}") for name in names]
    return {
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__
    }


def test_all_are_listed():
    """A present feature can be turned on."""
    found = classes_of_features()
    of_an_origin = {
        GunicornHooks,
        GunicornLogs,
        UwsgiHooks,
        UwsgiImports,
        UwsgiLogFiles,
    }  # by settings of foreign servers
    assert {one for one in found if issubclass(one, Extension)} <= {*FEATURES} | of_an_origin
    assert {one for one in found if issubclass(one, EngineSettings)} == set(Config.__bases__)
    assert len(set(FEATURES)) == len(FEATURES)


def test_rows_of_all():
    """Every setting is a row of the engine or of a single feature, perhaps built on a second feature's."""
    own = {field.name for base in Config.__bases__ for field in dataclasses.fields(base)}
    engine = [field.name for field in dataclasses.fields(EngineSettings)]
    names = [setting.name for setting in SETTINGS]
    assert sorted(names) == sorted(engine + [name for name in own if name not in engine])


def test_none_by_default():
    """A server without settings has no extension, but for the look at the log's reader at the start."""
    extensions = extensions_of(Config())
    assert not extensions.wants_times and not extensions.sees_responses
    assert [feature for feature in FEATURES if feature.is_on(Config())] == [WireLog]


def test_what_turns_one_on():
    """The switches are names of settings; any is enough."""
    assert {name for feature in FEATURES for name in feature.switches} <= {setting.name for setting in SETTINGS}

    class Either(Extension):
        """It has two."""

        switches = ("threads", "backlog")

    states = [
        Either.is_on(types.SimpleNamespace(threads=threads, backlog=backlog))
        for threads in (0, 1)
        for backlog in (0, 1)
    ]
    assert states == [False, True, True, True]


def test_the_life_of_a_process(monkeypatch):
    """Active features are told of an event, and then features of a foreign server's settings; the rest are not made."""
    told = []

    class Noting(Extension):
        """A feature with notes of name and event."""

        def on_life(self, event, context):
            told.append((type(self).__name__, event))

    class On(Noting):
        """It is on."""

        is_on = staticmethod(lambda config: True)

    class Off(Noting):
        """It is not."""

        is_on = staticmethod(lambda config: False)

    monkeypatch.setattr(features, "FEATURES", (*FEATURES, On, Off))
    origin = types.SimpleNamespace(extensions=(Noting(None),))
    on_life(Life.STARTS, LifeContext(Plan(Config(), None, origin)))
    on_life(Life.EXITS, LifeContext(Plan(Config(), None)))
    assert told == [("On", Life.STARTS), ("Noting", Life.STARTS), ("On", Life.EXITS)]


def test_what_a_user_may_not_read():
    """Later imports of workers are there before the process becomes a different user, perhaps without the right to read."""
    settings = {
        "access_log": "-", "slow_request_seconds": 5, "metrics": ":0", "uwsgi_module": "on", "workers": 1, "control": "ctl", "compress": True,
        "static": ["/s=/tmp"], "x_sendfile": ["/tmp"],
    }  # fmt: skip
    code = (
        "import sys\n"
        "from aserve.extension import Life, LifeContext\n"
        "from aserve.features import Config, on_life\n"
        "from aserve.processes.fleet.plan import Plan\n"
        f"on_life(Life.STARTS, LifeContext(Plan(Config(**{settings!r}), None)))\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-Ic", code], capture_output=True, text=True, check=True)
    late = {
        "features.access_log.log",
        "features.slow_requests.watch",
        "features.metrics.counting",
        "features.metrics.gil",
        "features.metrics.single",
        "compat.uwsgi_api.module",
        "features.control.supervising",
        "features.files.compressing",
        "features.files.static",
        "features.files.x_sendfile",
    }
    assert {f"aserve.{name}" for name in late} <= {*done.stdout.split()}
