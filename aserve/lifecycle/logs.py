"""Sets up the server's own log: target, and form.

Owns:     set_up_logging: the "aserve" loggers of a command; LineFormatter.
Thread:   the main thread, before serving.
Not here: the messages; writing messages (core/error_log.py); the access log (features/access_log/log.py); the app's loggers, untouched here.

The command owns the log of the process, so a configuration by the app never takes a logger away as a side effect. Configuration that names aserve's
loggers is obeyed: a level, a handler, `logging.disable`; but a 500 leaves a line (`log_failure`). A program with an embedded Server owns the
logging: there the loggers are ordinary ones, since nothing here is called.
"""

from __future__ import annotations

import logging
from typing import Any

from ..core.error_log import open_error_log
from ..core.json_text import read_json
from ..core.local_time import local_time
from ..settings import ConfigError, EngineSettings, read_toml
from .given_files import giving_log_files

logger = logging.getLogger("aserve")
# All loggers of aserve: some modules with a logger are imported late.
NAMES = ("aserve", "aserve.app", "aserve.rpc", "aserve.slow", "aserve.wire")

# Characters able to forge a line, or control a terminal: C0 but HTAB and LF, DEL, C1, and two taken for a new line by some programs.
_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(9), *range(11, 32), *range(127, 160))}
_CONTROLS.update({n: f"\\u{n:04x}" for n in (0x2028, 0x2029)})


class LineFormatter(logging.Formatter):
    """
    Formats an event as one line with the time at the start; further lines, as of a traceback, are indented below.

    So text from a client or an app in a message cannot pass for a line of the log.
    """

    converter = staticmethod(local_time)

    def format(self, record: logging.LogRecord) -> str:
        """Return the event as text, without the last newline."""
        return super().format(record).translate(_CONTROLS).replace("\n", "\n  ")


class OwnLogger(logging.Logger):
    """
    A logger that is never disabled, and never without a handler.

    `logging.config.dictConfig` and `fileConfig` disable each existing logger without a name in the configuration, unless
    disable_existing_loggers=False. From a logger named without a handler, they remove the handler.
    """

    fallback: logging.Handler

    @property
    def disabled(self) -> bool:
        """Return False: `logging` reads this before each record."""
        return False

    @disabled.setter
    def disabled(self, _: bool) -> None:
        """Ignore the assignment."""

    def makeRecord(self, *args: Any, **named: Any) -> logging.LogRecord:
        """Make a record by the app's factory, or a plain one if the factory raises, as a framework's may outside of a request."""
        try:
            return super().makeRecord(*args, **named)
        except Exception:
            return logging.LogRecord(*args[:7])

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Pass the record to the handlers; without handlers, or after an exception of one, to standard error."""
        if self.hasHandlers():
            try:
                super().callHandlers(record)
            except Exception as exc:  # as of a file that this process's user may not make anew
                text = "a handler of the log has failed, with %r, for the next line:"
                self.fallback.handle(self.makeRecord(self.name, logging.ERROR, "", 0, text, (exc,), None))
            else:
                return
        self.fallback.handle(record)


def set_up_logging(config: EngineSettings, name: str = "") -> None:
    """
    Send the "aserve" loggers to standard error; then apply --log-config; `name`: of this process.

    Raises:
        ConfigError: --log-config names no file of the right form.
    """
    handler = open_error_log()
    who = f"{name}: " if name else ""
    handler.setFormatter(LineFormatter(f"{{asctime}} {{levelname:<8}} {who}{{message}}", style="{"))
    logger.handlers[:] = [handler]
    logger.setLevel(config.log_level.upper())
    logger.propagate = False  # a root handler of the app would show each message again
    OwnLogger.fallback = handler
    _own_loggers()
    if config.log_config is not None:
        with giving_log_files(config):
            _configure(config.log_config)


def _own_loggers() -> None:
    known = [name for name in logging.root.manager.loggerDict if name.startswith("aserve.")]
    for found in map(logging.getLogger, (*NAMES, *known)):
        if not isinstance(found, OwnLogger):
            found.__class__ = type("OwnLogger", (OwnLogger, type(found)), {})  # an agent may have its own class


def _configure(path: str) -> None:
    import logging.config  # 0.8 MB in each process, with its imports

    content = _read(path)
    # The form of logging.config; existing loggers are the server's, or an imported library's.
    content.setdefault("version", 1)
    content.setdefault("disable_existing_loggers", False)
    try:
        logging.config.dictConfig(content)
    except (ValueError, TypeError, AttributeError, ImportError, OSError) as fault:
        cause = f": {fault.__cause__}" if fault.__cause__ is not None else ""
        raise ConfigError(
            f"--log-config {path}: {fault}{cause}; the form is that of logging.config.dictConfig"
        ) from None


def _read(path: str) -> dict[str, Any]:
    if not path.endswith(".json"):
        return dict(read_toml(path))
    try:
        with open(path, encoding="utf-8") as file:
            content = read_json(file.read())
    except OSError as fault:
        raise ConfigError(f"cannot read --log-config {path}: {fault.strerror}") from None
    except ValueError as fault:
        raise ConfigError(f"--log-config {path} is not valid JSON: {fault}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"--log-config {path}: an object was expected, as logging.config.dictConfig takes it")
    return content
