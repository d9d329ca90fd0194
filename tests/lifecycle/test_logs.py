"""The targets of messages; no text in them can pass for a line of the log."""

import io
import json
import logging
import logging.config
import pathlib
import re
import sys

import pytest

import aserve
from aserve.core import error_log
from aserve.core.error_log import log_failure
from aserve.features import Config
from aserve.lifecycle.logs import NAMES, LineFormatter, set_up_logging
from aserve.settings import ConfigError

ours = logging.getLogger("aserve")


@pytest.fixture(autouse=True)
def put_back():
    """Put back a set-up's changes to this process."""
    root = logging.getLogger()
    before = ours.handlers[:], ours.level, ours.propagate, root.handlers[:], root.level
    loggers = {known: (known.__class__, known.__dict__.copy()) for known in map(logging.getLogger, NAMES)}
    yield
    for known, (its_class, its_state) in loggers.items():
        known.__class__ = its_class
        known.__dict__.update(its_state)
    ours.handlers[:], ours.level, ours.propagate, root.handlers[:], root.level = before


def test_standard_error_gets_lines_from_the_level_on(capsys):
    set_up_logging(Config(log_level="warning"), "worker 2")
    logging.getLogger("aserve.wsgi").warning("shown")
    ours.info("not shown")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING  worker 2: shown\n", capsys.readouterr().err)


def test_a_message_that_would_forge_a_line():
    """Text behind a line's end is indented, and no control character gets through; a tab does."""
    record = logging.LogRecord(
        "aserve", logging.ERROR, "", 0, "a\tb\n2026-01-01 %s\r\x1b[2J\x85\x9b\u2028", ("fake",), None
    )
    assert LineFormatter("{message}", style="{").format(record) == (
        "a\tb\n  2026-01-01 fake\\x0d\\x1b[2J\\x85\\x9b\\u2028"
    )


def test_a_traceback_stands_indented():
    try:
        raise ValueError("x\n2026-01-01 00:00:00,000 INFO     all is well")
    except ValueError:
        record = logging.LogRecord("aserve", logging.ERROR, "", 0, "it failed", (), sys.exc_info())
    lines = LineFormatter("{message}", style="{").format(record).splitlines()
    assert lines[0] == "it failed" and lines[1] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in lines[1:])


TOML = """\
[formatters.short]
format = "{levelname} {message}"
style = "{"
[handlers.file]
class = "logging.FileHandler"
filename = "LOG"
formatter = "short"
[root]
handlers = ["file"]
level = "INFO"
[loggers.aserve]
handlers = ["file"]
"""


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_a_file_of_ones_own(tmp_path, kind, capsys):
    """The file names the targets of the server's messages, and others'; the rest is as without it."""
    log, path = tmp_path / "log", tmp_path / f"logging.{kind}"
    text = TOML.replace("LOG", str(log))
    if kind == "json":
        handler = {"class": "logging.FileHandler", "filename": str(log), "formatter": "short"}
        content = {
            "formatters": {"short": {"format": "{levelname} {message}", "style": "{"}},
            "handlers": {"file": handler},
            "root": {"handlers": ["file"], "level": "INFO"},
            "loggers": {"aserve": {"handlers": ["file"]}},
        }
        text = json.dumps(content)
    path.write_text(text)
    known = logging.getLogger("shop")
    set_up_logging(Config(log_level="warning", log_config=str(path)))
    ours.warning("ours")
    ours.info("not shown")
    known.info("theirs")
    assert log.read_text() == "WARNING ours\nINFO theirs\n" and capsys.readouterr().err == ""
    for handler in ours.handlers:
        handler.close()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.toml", "[loggers", "a.toml is not valid TOML"),
        ("a.json", "{", "a.json is not valid JSON"),
        pytest.param("a.json", "[" * 100_000, "a.json is not valid JSON: it is nested too deeply", id="deep"),
        ("a.json", "[]", "a.json: an object was expected"),
        ("a.json", '{"handlers": {"x": {"class": "no.such"}}}', r"Unable to configure handler .x.: .*no"),
        ("a.json", '{"version": 2}', "Unsupported version: 2; the form is that"),
    ],
)
def test_a_file_that_is_wrong(tmp_path, name, content, why):
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=why):
        set_up_logging(Config(log_config=str(tmp_path / name)))


@pytest.mark.parametrize("name", ["no.toml", "no.json"])
def test_no_such_file(tmp_path, name):
    """The same."""
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file"):
        set_up_logging(Config(log_config=str(tmp_path / name)))


FILE_CONFIG = """\
[loggers]
keys = root
[handlers]
keys =
[formatters]
keys =
[logger_root]
handlers =
"""
CONFIGURATIONS = {
    "dictConfig": lambda: logging.config.dictConfig({"version": 1}),
    "fileConfig": lambda: logging.config.fileConfig(io.StringIO(FILE_CONFIG)),
    "naming ours": lambda: logging.config.dictConfig({"version": 1, "loggers": {"aserve": {"level": "INFO"}}}),
    "shutdown": logging.shutdown,
}


@pytest.fixture
def others():
    """Other loggers of this process, disabled by a configuration, stay the same."""
    known = [found for found in logging.root.manager.loggerDict.values() if isinstance(found, logging.Logger)]
    before = [(found, found.disabled) for found in known]
    handlers, listed = logging._handlers.copy(), logging._handlerList[:]
    yield
    for found, was_disabled in before:
        found.disabled = was_disabled
    logging._handlers.update(handlers)
    logging._handlerList[:] = listed


@pytest.mark.parametrize("configure", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_an_app_that_configures_logging_late(capsys, others, configure):
    """None of our loggers is disabled or left without a handler; the app's own follow its configuration."""
    set_up_logging(Config(log_level="info"))
    configure()
    for name in NAMES:
        logging.getLogger(name).error("of %s", name)
    assert re.findall(r"ERROR    of (.*)\n", capsys.readouterr().err) == list(NAMES)


def test_what_an_app_asks_for(capsys, others):
    """A level and logging.disable() are obeyed; so are handlers."""
    set_up_logging(Config(log_level="info"))
    ours.setLevel(logging.ERROR)
    ours.warning("not shown")
    try:
        logging.disable(logging.CRITICAL)
        ours.critical("not shown")
    finally:
        logging.disable(logging.NOTSET)
    ours.handlers[:] = [logging.NullHandler()]
    ours.error("not shown")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", [logging.ERROR, logging.CRITICAL])
def test_a_failure_leaves_a_line(capsys, others, level):
    """The app's own level takes the traceback of a 500, but not its line."""
    set_up_logging(Config(log_level="info"))
    ours.setLevel(level)
    log_failure(ours, "%s raised", "it", exc=ValueError("why"))
    text = capsys.readouterr().err
    assert "ERROR    it raised\n" in text and ("ValueError: why" in text) is (level == logging.ERROR)


def test_a_failure_in_a_program_that_embeds_a_server(monkeypatch, caplog):
    monkeypatch.setattr(error_log, "_current", [])
    caplog.set_level(logging.CRITICAL, "aserve")
    log_failure(ours, "%s raised", "it", exc=ValueError("why"))
    assert not caplog.records


def test_a_factory_of_records_that_raises(capsys, others):
    """The app's factory may need a request; messages of the server go out without it."""
    set_up_logging(Config(log_level="info"))
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *args, **named: 1 / 0)
    try:
        ours.warning("of %s", "ours")
    finally:
        logging.setLogRecordFactory(factory)
    assert "WARNING  of ours\n" in capsys.readouterr().err


def test_a_handler_that_raises(capsys):
    """The handler breaks no logging: the message is on standard error, and before it the reason."""

    class Raising(logging.Handler):
        def emit(self, record):
            raise PermissionError(13, "Permission denied", "/var/log/shop.log")

    set_up_logging(Config())
    ours.handlers[:] = [Raising()]
    logging.getLogger("aserve.app").error("the app has failed")
    why, message = capsys.readouterr().err.splitlines()
    assert "PermissionError(13, 'Permission denied')" in why and message.endswith("ERROR    the app has failed")


def test_all_loggers_are_known():
    sources = [path.read_text() for path in pathlib.Path(aserve.__file__).parent.rglob("*.py")]
    assert {name for text in sources for name in re.findall(r"getLogger\(\"([^\"]+)\"\)", text)} == set(NAMES)
