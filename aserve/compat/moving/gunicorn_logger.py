"""gunicorn's Logger: the base of a `logger_class`, and what `logconfig_dict`, `syslog` and `errorlog` set up.

Owns:     Logger, with gunicorn's methods and attributes; SafeAtoms; File; dictionary_of.
Thread:   `setup` the main thread; `access` any that runs the app.
Spec:     gunicorn 23.0.0, gunicorn/glogging.py.
Not here: which processes have one, and what is logged by it (gunicorn_logs.py), calling `access` (gunicorn_access.py).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import logging.config
import logging.handlers
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar

from ...core.json_text import read_json
from .gunicorn_cfg import FORMS
from .gunicorn_hooks import ACCESS, ERROR

SYSLOG_PORT = 514
# What a dictionary of the user's is laid over.
DEFAULT_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"generic": {"format": "%(asctime)s [%(process)d] [%(levelname)s] %(message)s", "datefmt": "[%Y-%m-%d %H:%M:%S %z]"}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "generic", "stream": "ext://sys.stdout"},
        "error_console": {"class": "logging.StreamHandler", "formatter": "generic", "stream": "ext://sys.stderr"},
    },
    "root": {"level": "INFO", "handlers": ["console"]},
    "loggers": {
        ERROR: {"level": "INFO", "handlers": ["error_console"], "propagate": True},
        ACCESS: {"level": "INFO", "handlers": ["console"], "propagate": True},
    },
}  # fmt: skip


class SafeAtoms(dict):  # type: ignore[type-arg]  # a subclass of the user's may be of any
    """The values of a line: without quotes that would end a text, and "-" for what is not there."""

    def __init__(self, atoms: Mapping[str, Any]) -> None:
        super().__init__(
            {key: value.replace('"', '\\"') if isinstance(value, str) else value for key, value in atoms.items()}
        )

    def __getitem__(self, name: str) -> Any:
        return self.get(name.lower() if name.startswith("{") else name, "-")


class Logger:
    """Logs messages to the logger gunicorn.error, and requests to gunicorn.access."""

    LOG_LEVELS: ClassVar[dict[str, int]] = {
        name: getattr(logging, name.upper()) for name in ("critical", "error", "warning", "info", "debug")
    }
    loglevel = logging.INFO
    error_fmt = DEFAULT_CONFIG["formatters"]["generic"]["format"]
    datefmt = DEFAULT_CONFIG["formatters"]["generic"]["datefmt"]
    access_fmt = "%(message)s"
    syslog_fmt = "[%(process)d] %(message)s"
    atoms_wrapper_class: Any = SafeAtoms

    def __init__(self, cfg: Any) -> None:
        """`cfg`: gunicorn's settings."""
        self.error_log, self.access_log = logging.getLogger(ERROR), logging.getLogger(ACCESS)
        self.error_log.propagate = self.access_log.propagate = False
        self.error_handlers: list[logging.Handler] = []
        self.access_handlers: list[logging.Handler] = []
        self.logfile: Any = None
        self.lock = threading.Lock()
        self.cfg = cfg
        self.setup(cfg)

    def setup(self, cfg: Any) -> None:
        """
        Give both loggers their handlers.

        Raises:
            Exception: a file cannot be written, or a configuration of logging is wrong.
        """
        self.loglevel = self.LOG_LEVELS.get(str(cfg.loglevel).lower(), logging.INFO)
        self.error_log.setLevel(self.loglevel)
        self.access_log.setLevel(logging.INFO)
        if cfg.capture_output and cfg.errorlog not in ("-", None):
            self._capture(cfg.errorlog)
        self._set_handler(self.error_log, cfg.errorlog, logging.Formatter(self.error_fmt, self.datefmt))
        if cfg.accesslog is not None:
            self._set_handler(self.access_log, cfg.accesslog, logging.Formatter(self.access_fmt), sys.stdout)
        if cfg.syslog:
            self._set_syslog_handler(self.error_log, cfg, self.syslog_fmt, "error")
            if not cfg.disable_redirect_access_to_syslog:
                self._set_syslog_handler(self.access_log, cfg, self.syslog_fmt, "access")
        form = next((name for name in FORMS if getattr(cfg, name)), None)
        if form in FORMS[:2]:
            logging.config.dictConfig(dictionary_of(cfg))
        elif form == "logconfig":
            here = {"__file__": cfg.logconfig, "here": os.path.dirname(cfg.logconfig)}
            logging.config.fileConfig(cfg.logconfig, here, disable_existing_loggers=False)

    def _capture(self, path: str) -> None:
        """Let standard output and error go to a file."""
        self.logfile = open(path, "a+")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(self.logfile.fileno(), stream.fileno())

    # Messages

    def critical(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message."""
        self.error_log.critical(msg, *args, **kwargs)

    def error(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message."""
        self.error_log.error(msg, *args, **kwargs)

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message."""
        self.error_log.warning(msg, *args, **kwargs)

    def info(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message."""
        self.error_log.info(msg, *args, **kwargs)

    def debug(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message."""
        self.error_log.debug(msg, *args, **kwargs)

    def exception(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message, with the traceback."""
        self.error_log.exception(msg, *args, **kwargs)

    def log(self, lvl: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message of a level, which may be its name."""
        level = self.LOG_LEVELS.get(lvl.lower(), logging.INFO) if isinstance(lvl, str) else lvl
        self.error_log.log(level, msg, *args, **kwargs)

    # Requests

    def atoms(self, resp: Any, req: Any, environ: Mapping[str, Any], request_time: Any) -> dict[str, Any]:
        """Return the values of a line, by gunicorn's names."""
        seconds, micros, status = request_time.seconds, request_time.microseconds, resp.status
        uri = environ.get("RAW_URI") or environ.get("REQUEST_URI", "-")
        found = {
            "h": environ.get("REMOTE_ADDR", "-"), "l": "-", "u": self._get_user(environ) or "-", "t": self.now(),
            "r": f"{environ['REQUEST_METHOD']} {uri} {environ['SERVER_PROTOCOL']}",
            "s": status.split(None, 1)[0] if isinstance(status, str) else status, "m": environ.get("REQUEST_METHOD"), "U": environ.get("PATH_INFO"),
            "q": environ.get("QUERY_STRING"), "H": environ.get("SERVER_PROTOCOL"), "b": str(resp.sent), "B": resp.sent,
            "f": environ.get("HTTP_REFERER", "-"), "a": environ.get("HTTP_USER_AGENT", "-"), "T": seconds, "D": seconds * 1_000_000 + micros,
            "M": seconds * 1000 + micros // 1000, "L": f"{seconds}.{micros:06d}", "p": f"<{os.getpid()}>",
        }  # fmt: skip
        for kind, pairs in (("i", req.headers), ("o", resp.headers), ("e", environ.items())):
            found.update({f"{{{name.lower()}}}{kind}": value for name, value in pairs})
        return found

    def access(self, resp: Any, req: Any, environ: Mapping[str, Any], request_time: Any) -> None:
        """Log a request that has ended, if the settings ask for it."""
        if not self.cfg.asks_for_access:
            return
        try:
            atoms = self.atoms_wrapper_class(self.atoms(resp, req, environ, request_time))
            self.access_log.info(self.cfg.access_log_format, atoms)
        except Exception:
            self.error(traceback.format_exc())

    def now(self) -> str:
        """Return the time as Apache writes it."""
        return time.strftime("[%d/%b/%Y:%H:%M:%S %z]")

    def _get_user(self, environ: Mapping[str, Any]) -> str | None:
        scheme, _, credentials = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        if scheme.lower() == "basic":
            with contextlib.suppress(binascii.Error, ValueError):
                return base64.b64decode(credentials.strip()).partition(b":")[0].decode()
        return None

    # Handlers

    def reopen_files(self) -> None:
        """Do nothing: each handler looks itself whether its file was renamed."""

    def close_on_exec(self) -> None:
        """Do nothing: Python's files are closed so."""

    def _get_gunicorn_handler(self, log: logging.Logger) -> logging.Handler | None:
        return next((each for each in log.handlers if getattr(each, "_gunicorn", False)), None)

    def _set_handler(self, log: logging.Logger, output: str | None, fmt: logging.Formatter, stream: Any = None) -> None:
        """Give a logger a handler in the place of the one that this method has given it before."""
        before = self._get_gunicorn_handler(log)
        if before is not None:
            log.removeHandler(before)
            before.close()
        if output is not None:
            is_stream = output == "-"
            self._add(log, logging.StreamHandler(stream) if is_stream else File(output), fmt)

    def _set_syslog_handler(self, log: logging.Logger, cfg: Any, fmt: str, name: str) -> None:
        prefix = cfg.syslog_prefix or cfg.proc_name.replace(":", ".")
        kind, place = parse_syslog_address(cfg.syslog_addr)
        facility = logging.handlers.SysLogHandler.facility_names[str(cfg.syslog_facility).lower()]
        handler = logging.handlers.SysLogHandler(place, facility, kind)
        self._add(log, handler, logging.Formatter(f"gunicorn.{prefix}.{name}: {fmt}"))

    def _add(self, log: logging.Logger, handler: logging.Handler, fmt: logging.Formatter) -> None:
        handler.setFormatter(fmt)
        handler._gunicorn = True  # type: ignore[attr-defined]
        log.addHandler(handler)


class File(logging.handlers.WatchedFileHandler):
    """A file that is opened anew once it was renamed; where this process's user may make no other, lines go on into the old one."""

    def reopenIfNeeded(self) -> None:
        """See WatchedFileHandler."""
        path = self.baseFilename
        if os.access(path if os.path.exists(path) else os.path.dirname(path), os.W_OK):
            super().reopenIfNeeded()


def dictionary_of(cfg: Any) -> dict[str, Any]:
    """
    Return a user's dictionary over gunicorn's; handlers and formatters that gunicorn's loggers name stay there, where gunicorn would not start.

    Raises:
        OSError, ValueError: it cannot be read from its file.
    """
    config = cfg.logconfig_dict
    if not config and cfg.logconfig_json:
        with open(cfg.logconfig_json, encoding="utf-8") as file:
            config = read_json(file.read())
    parts = {name: {**DEFAULT_CONFIG[name], **config.get(name, {})} for name in ("handlers", "formatters")}
    for name, handler in parts["handlers"].items():
        is_plain = handler.get("class") == "logging.FileHandler"  # gunicorn opens its file anew at SIGUSR1
        parts["handlers"][name] = {**handler, "class": f"{__name__}.File"} if is_plain else {**handler}
    return {**DEFAULT_CONFIG, **config, **parts}


def parse_syslog_address(text: str) -> tuple[Any, Any]:
    """
    Return the kind of socket (None: either) and the address of udp://HOST:PORT, tcp://HOST:PORT or unix://PATH[#dgram].

    Raises:
        ValueError: it is none of these.
    """
    scheme, found, place = text.partition("://")
    if found and scheme == "unix":
        path, _, kind = place.partition("#")
        return socket.SOCK_DGRAM if kind == "dgram" else None, path
    if not found or scheme not in ("udp", "tcp"):
        raise ValueError(f"{text!r} is neither udp://HOST:PORT, tcp://HOST:PORT nor unix://PATH")
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    host, port = (host, port) if colon else (place, str(SYSLOG_PORT))
    if not port.isdigit():
        raise ValueError(f"{port!r} in {text} is no port")
    return socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM, (
        host.strip("[]").lower() or "localhost",
        int(port),
    )
