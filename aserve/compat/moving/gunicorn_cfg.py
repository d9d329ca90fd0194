"""gunicorn's settings as an object, for programs that set them and for hooks that read them.

Owns:     Cfg, in the place of gunicorn's Config; CfgSetting.
Thread:   any; a program sets values before it serves.
Spec:     gunicorn 23.0.0, gunicorn/config.py: Config.set, Config.settings.
Not here: the meaning of a setting (gunicorn_table.py); hooks (gunicorn_hooks.py).
"""

from __future__ import annotations

import os
from typing import Any

from .addresses import place_of, texts
from .draft import Given, Note
from .gunicorn_table import ROWS, SWITCHES, TABLE

FORMS = ("logconfig_dict", "logconfig_json", "logconfig")  # the first that is given counts
DEFAULT_LOGGERS = ("gunicorn.glogging.Logger", "simple", "gunicorn.instrument.statsd.Statsd", "", None)
# Of settings that programs, hooks and subclasses of Logger read; others are None.
DEFAULTS = {
    "workers": 1, "threads": 1, "timeout": 30, "graceful_timeout": 30, "keepalive": 2, "worker_class": "sync", "preload_app": False,
    "bind": ["127.0.0.1:8000"], "worker_connections": 1000, "max_requests": 0, "max_requests_jitter": 0, "proc_name": None,
    "loglevel": "info", "accesslog": None, "errorlog": "-", "pidfile": None, "user": None, "group": None, "chdir": None,
    "access_log_format": '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"', "logger_class": "gunicorn.glogging.Logger", "logconfig_dict": {},
    "raw_env": [], "umask": 0, "backlog": 2048, "wsgi_app": None, "statsd_prefix": "", "syslog_addr": "udp://localhost:514", "syslog_facility": "user",
    "limit_request_line": 4094, "limit_request_fields": 100, "limit_request_field_size": 8190, "forwarded_allow_ips": "127.0.0.1,::1",
    "default_proc_name": "gunicorn",
}  # fmt: skip


class CfgSetting:
    """One setting: its default, and its value."""

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default, self.value = name, default, default

    def get(self) -> Any:
        """Return the value."""
        return self.value

    def set(self, value: Any) -> None:
        """Set the value; a text becomes a number or a truth value if the default is one, and addresses a list."""
        self.value = _converted(value, self.default)


class Cfg:
    """All settings of gunicorn: `cfg.set("workers", 2)`, `cfg.workers`, `"workers" in cfg.settings`."""

    def __init__(self) -> None:
        names = [name for row in ROWS for name in row.names if name[-1] != "*"]
        defaults: dict[str, Any] = {**dict.fromkeys(names), **dict.fromkeys(SWITCHES, False), **DEFAULTS}
        self.settings = {name: CfgSetting(name, default) for name, default in defaults.items()}
        self.given: dict[str, Given] = {}
        self.notes: list[Note] = []  # about the files that values are from
        self.filters_requests = False  # a hook asks for the logger of requests, as to leave out health checks

    def set(self, name: str, value: Any, where: str = "") -> None:
        """
        Set a value; `where`: the file and line that it is from.

        Raises:
            AttributeError: gunicorn has no such setting.
        """
        if name not in self.settings and TABLE.find(name) is not None:  # one of a family
            self.settings[name] = CfgSetting(name, None)
        if name not in self.settings:
            raise AttributeError(f"No configuration setting for: {name}")
        if name == "chdir" and value:
            value = os.path.abspath(value)  # as in gunicorn; workers enter it
        self.settings[name].set(value)
        self.given[name] = Given(name, value, where)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("settings", {})  # absent while pickle or copy makes the object
        if name not in settings:
            raise AttributeError(f"No configuration setting for: {name}")
        return settings[name].get()

    @property
    def import_folders(self) -> list[str]:
        """Return what is on sys.path in all of gunicorn's processes, from its start on: pythonpath, chdir, and the folder of the start."""
        try:
            start = os.getcwd()
        except FileNotFoundError:  # it was removed: a hook must not end the supervisor by that
            return []
        folder = os.path.join(start, self.chdir or "")
        paths = [os.path.join(folder, path) for path in reversed(texts(self.pythonpath or ""))]
        return list(dict.fromkeys(map(os.path.normpath, [*paths, folder, start])))

    @property
    def address(self) -> list[Any]:
        """Return the binds in gunicorn's form: a pair of host and port, a path, or the number of a descriptor."""
        return [_address(place_of(item, "")) for item in texts(self.bind)]

    @property
    def env(self) -> dict[str, str]:
        """Return the variables that raw_env sets."""
        return dict(pair.split("=", 1) for pair in self.settings["raw_env"].get() or ())

    @property
    def proc_name(self) -> str:
        """Return the name of the processes."""
        return str(self.settings["proc_name"].get() or self.settings["default_proc_name"].get())

    @property
    def configures_loggers(self) -> bool:
        """Whether gunicorn's Logger is to write lines about requests: it is the user's, or logging is configured."""
        has_form = any(getattr(self, name) for name in FORMS)
        return bool(self.logger_class not in DEFAULT_LOGGERS or self.syslog or has_form or self.filters_requests)

    @property
    def needs_logger(self) -> bool:
        """Whether gunicorn's Logger is needed, for messages or requests."""
        return self.configures_loggers or self.errorlog not in ("-", "", None)

    @property
    def asks_for_access(self) -> bool:
        """Whether there are to be lines about requests."""
        to_syslog = self.syslog and not self.disable_redirect_access_to_syslog
        return bool(self.accesslog or to_syslog or any(getattr(self, name) for name in FORMS))

    @property
    def is_ssl(self) -> bool:
        """Whether clients speak TLS."""
        return bool(self.certfile or self.keyfile)


def _converted(value: Any, default: Any) -> Any:
    if isinstance(default, list) and isinstance(value, str):
        return texts(value)
    if not isinstance(value, str) or not isinstance(default, int):
        return value
    text = value.strip().lower()
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text, value)
    return int(text) if text.isdigit() else value  # a wrong one is an error when the program serves


def _address(place: str) -> Any:
    if place.startswith("unix:"):
        return place[len("unix:") :]
    host, _, port = place.rpartition(":")
    return int(port) if host == "fd" else (host.strip("[]"), int(port))
