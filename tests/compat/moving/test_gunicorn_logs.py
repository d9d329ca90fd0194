"""gunicorn's loggers in the processes of aserve."""

import json
import logging
import os
import sys
import types

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.gunicorn_cfg import Cfg
from aserve.compat.moving.gunicorn_hooks import ToAserve
from aserve.compat.moving.gunicorn_logger import ACCESS, ERROR, Logger
from aserve.compat.moving.gunicorn_logs import Logs
from aserve.compat.moving.origin import read_origin
from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.lifecycle.load_error import LoadError

pytestmark = pytest.mark.usefixtures("gunicorn_loggers")

INI = """
[loggers]
keys = root
[handlers]
keys = all
[formatters]
keys =
[logger_root]
handlers = all
[handler_all]
class = FileHandler
args = ('{}',)
"""
CONTEXT = LifeContext(types.SimpleNamespace(config=Config()))


class Counting(Logger):
    """A logger of the user's that only sets up."""

    made = 0

    def setup(self, cfg):
        type(self).made += 1
        super().setup(cfg)


class Logging(Logger):
    """A logger of the user's that logs requests itself."""

    def access(self, resp, req, environ, request_time):
        """Note the request."""


def logs_of(**settings):
    """Return the loggers of these settings."""
    cfg = Cfg()
    for name, value in settings.items():
        cfg.set(name, value)
    return Logs(cfg)


@pytest.mark.parametrize(
    "settings", [{"chdir": "site"}, {"pythonpath": "none,site"}, {"chdir": "none", "pythonpath": "../site"}]
)
def test_classes_of_the_app(settings, tmp_path, monkeypatch):
    """The Logger, and a formatter of its dictionary, are imported from gunicorn's places; sys.path stays the same."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "own_form.py").write_text(
        "import logging\nfrom aserve.compat.gunicorn.glogging import Logger as Own\nclass Form(logging.Formatter): pass\n"
    )
    monkeypatch.delitem(sys.modules, "own_form", raising=False)
    handlers = {"error_console": {"class": "logging.StreamHandler", "formatter": "own"}}
    dictionary = {"formatters": {"own": {"()": "own_form.Form"}}, "handlers": handlers}
    logs, before = logs_of(logger_class="own_form.Own", logconfig_dict=dictionary, **settings), sys.path[:]
    logs.find()
    logs.begin(is_anew=True)
    assert type(logging.getLogger(ERROR).handlers[0].formatter).__module__ == "own_form" and sys.path == before


@pytest.mark.parametrize(
    ("settings", "is_needed", "configures"),
    [
        ({}, False, False), ({"accesslog": "-"}, False, False), ({"errorlog": "e"}, True, False), ({"syslog": True}, True, True),
        ({"logconfig_dict": {"root": {}}}, True, True), ({"logger_class": Counting}, True, True),
        ({"logger_class": "gunicorn.glogging.Logger"}, False, False),
    ],
)  # fmt: skip
def test_whether_they_are_needed(settings, is_needed, configures):
    """Without such settings aserve's own loggers and access log are enough."""
    cfg = logs_of(**settings)._cfg
    assert (cfg.needs_logger, cfg.configures_loggers) == (is_needed, configures)


def test_requests_go_to_gunicorns_logger():
    """The access log goes to gunicorn's logger; a class that logs requests itself is called around the app instead."""

    def become(before, **settings):
        draft = Draft("conf.py")
        draft.settings, draft.whence = {"threads": 1, **before}, {key: [Given(key, "", "")] for key in before}
        logs_of(**settings).take_requests(draft)
        assert draft.whence.keys() == {"access-log"} & draft.settings.keys()
        return draft.settings

    before, lines = {"access-log": "-"}, {"access-log": f"logger:{ACCESS}", "threads": 1}
    assert become(before, errorlog="e", accesslog="-") == {**before, "threads": 1}
    assert become(before, logger_class=Counting, accesslog="-") == lines == become({}, logconfig_dict={"root": {}})
    assert become({}, logger_class=Counting) == {"threads": 1} == become(before, logger_class=Logging, accesslog="-")
    own = logs_of(logger_class=Logging, accesslog="-")

    def app(environ, start_response):
        raise AssertionError

    assert logs_of(logger_class=Counting).wrap(app) is app is not own.wrap(app)


def test_in_each_process(capsys):
    """The Logger is made at the start and for a reload; a child has it already, and aserve's messages go there, also behind settings without a Logger."""
    logging.getLogger(ERROR).addHandler(ToAserve())
    Counting.made = 0
    extension = logs_of(logger_class=Counting).extension
    for event, count in ((Life.STARTS, 1), (Life.IMPORTS, 1), (Life.RELOADS, 2), (Life.FORKED, 2), (Life.ENDS, 2)):
        extension.on_life(event, CONTEXT)
        assert Counting.made == count
    logging.getLogger("aserve").warning("it is so")
    logging.getLogger(ERROR).setLevel("CRITICAL")
    logging.getLogger("aserve").warning("not shown")
    assert capsys.readouterr().err.endswith("[WARNING] it is so\n")
    other = logs_of(logger_class=Counting).extension
    other.on_life(Life.IMPORTS, CONTEXT)  # in a process without an inherited one
    assert Counting.made == 3


def test_a_check_stays_on_the_terminal(tmp_path, capfd):
    """The check's output stays on the terminal, and an unwritable file is an error."""
    logging.getLogger("aserve").handlers[:] = [logging.StreamHandler(sys.stderr)]
    extension = logs_of(errorlog=str(tmp_path / "err.log"), capture_output=True).extension
    extension.on_life(Life.IMPORTS, CONTEXT._replace(is_check=True))
    logging.getLogger("aserve").warning("it is so")
    os.write(1, b"All is well\n")
    out, err = capfd.readouterr()
    assert (out, err, (tmp_path / "err.log").read_text()) == ("All is well\n", "it is so\n", "")
    with pytest.raises(LoadError, match=r"err\.log"):
        extension = logs_of(errorlog=str(tmp_path / "none" / "err.log")).extension
        extension.on_life(Life.IMPORTS, CONTEXT._replace(is_check=True))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("form", ["logconfig_dict", "logconfig_json", "logconfig"])
def test_files_of_a_user(tmp_path, form):
    """Files are given to the user as by gunicorn, and a reload can open the files; --check opens no file reserved for a start."""
    paths = [tmp_path / name for name in ("err.log", "acc.log", "all.log")]
    dictionary = {
        "handlers": {"all": {"class": "logging.FileHandler", "filename": str(paths[2])}},
        "loggers": {ERROR: {"handlers": ["all"]}},
    }
    (tmp_path / "log.json").write_text(json.dumps(dictionary))
    (tmp_path / "log.ini").write_text(INI.format(paths[2]))
    found = {"logconfig_dict": dictionary, "logconfig": str(tmp_path / "log.ini")}.get(form, str(tmp_path / "log.json"))
    settings = {"errorlog": str(paths[0]), "accesslog": str(paths[1]), form: found}
    context = LifeContext(types.SimpleNamespace(config=Config(user="nobody")))
    logs_of(**settings).extension.on_life(Life.IMPORTS, context._replace(is_check=True))
    assert not any(path.exists() for path in paths)
    logs_of(**settings).extension.on_life(Life.STARTS, context)
    assert [path.owner() for path in paths] == ["nobody"] * 3


def test_a_name_of_a_class_is_imported(tmp_path, monkeypatch):
    """A class may be named; a missing or failing class ends the start with the name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_logging.py").write_text(
        "from aserve.compat.gunicorn.glogging import Logger\nclass Mine(Logger):\n    pass\n"
    )
    (tmp_path / "conf.py").write_text("logger_class = 'shop_logging.Mine'\naccesslog = '-'\n")
    try:
        origin = read_origin({"gunicorn_conf": "conf.py"}, {})
    finally:
        sys.modules.pop("shop_logging", None)
    assert origin.settings["access-log"] == f"logger:{ACCESS}" and "GunicornLogs" in str(origin.extensions)
    assert origin.wrap(len) is len
    (tmp_path / "conf.py").write_text("logger_class = 'shop_nothing.Mine'\n")
    with pytest.raises(LoadError, match=r"importing shop_nothing\.Mine raised ModuleNotFoundError"):
        read_origin({"gunicorn_conf": "conf.py"}, {})
    with pytest.raises(LoadError, match="setting up Logger raised"):
        logs_of(errorlog=str(tmp_path)).begin(is_anew=True)
