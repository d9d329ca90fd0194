"""`use = egg:aserve-wsgi#main` in the ini files of Pyramid, Zope and other users of PasteDeploy.

Owns:     reading the settings of a [server:main] section.
Thread:   the main thread, which serves.
Spec:     PasteDeploy, "paste.server_runner" and "paste.server_factory".
Not here: settings themselves (settings/); logging, which is the ini file's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable

from ..features import SETTINGS, Config
from ..server.running import run
from ..settings import COMMAND_NAMES, ConfigError, parse_bind

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_KEYS = {setting.key: setting for setting in SETTINGS}
HOST, PORT, LISTEN = "host", "port", "listen"  # waitress's names
DEFAULT_PORT = "8000"
MAX_PORT = 65535
COMMANDS = ("workers", "control")  # settings for the command only


def run_app(app: WSGIApplication, global_conf: Mapping[str, str], /, **local_conf: str) -> None:
    """
    Serve an app until SIGTERM or SIGINT: the `paste.server_runner`.

    Raises:
        ConfigError: a setting is unknown, or wrong.
        BindError: see aserve.run.
        SystemExit: something was left unfinished.
    """
    status = run(app, read_settings(global_conf, local_conf))
    if status:
        raise SystemExit(status)


def make_server(global_conf: Mapping[str, str], /, **local_conf: str) -> Callable[[WSGIApplication], None]:
    """
    Return a function that serves an app: the `paste.server_factory`.

    Raises:
        ConfigError: a setting is unknown, or wrong.
    """
    read_settings(global_conf, local_conf)
    return lambda app: run_app(app, global_conf, **local_conf)


def read_settings(global_conf: Mapping[str, str], local_conf: Mapping[str, str]) -> Config:
    """
    Return the settings of a section, under their names in TOML files, with "-" or "_".

    Raises:
        ConfigError: a setting is unknown, or wrong.
    """
    where = f"the server section of {global_conf.get('__file__', 'the ini file')}"
    settings: dict[str, object] = {}
    places: dict[str, object] = {}
    for name, value in local_conf.items():
        key = name.replace("_", "-")
        if name in (HOST, PORT, LISTEN):
            places[name] = value
        elif key in COMMAND_NAMES:
            raise ConfigError(
                f"unknown setting {name} in {where}; the ini file itself says which app is served, and how"
            )
        elif key in settings:
            raise ConfigError(f"{key} is set twice in {where}; once with '-' and once with '_'")
        elif key == "bind":
            settings[key] = value.replace(",", " ").split()
        elif key in _KEYS and _KEYS[key].is_list:
            settings[key] = value.splitlines()  # an ini file has several values on lines of their own
        elif key in _KEYS:
            settings[key] = value
        else:
            settings[name] = value  # Config's error names the nearest one
    if places:
        if "bind" in settings or (LISTEN in places and len(places) > 1):
            raise ConfigError(
                f"{', '.join([*places, *(key for key in settings if key == 'bind')])} in {where}: one says it all"
            )
        settings["bind"] = _read_places(local_conf, where)
    config = Config.from_sources({}, {}, settings, where)
    for key in COMMANDS:
        if settings.get(key) is not None:
            raise ConfigError(f"{key} in {where}: {_name_command(global_conf, config, settings)}")
    return config


def _name_command(global_conf: Mapping[str, str], config: Config, settings: Mapping[str, object]) -> str:
    """Return the command to run in place of pserve, and why: pserve has imported the app already, so that workers cannot."""
    flags = [(key, str(settings[key])) for key in COMMANDS if key in settings]
    flags += [("bind", place) for place in config.bind]
    words = ["aserve", "--paste", global_conf.get("__file__", "FILE")]
    for key, value in flags:
        words += [f"--{key}", value]
    return (
        f"pserve and its like serve in the process that has imported the app; in their place run {shlex.join(words)}, whose workers "
        "import it themselves; other settings of the section are flags there"
    )


def _read_places(section: Mapping[str, str], where: str) -> list[str]:
    if LISTEN in section:
        places = [place[1:] if place.startswith("*:") else place for place in section[LISTEN].split()]
        if not places:
            raise ConfigError(
                f"{LISTEN} in {where}: nothing to listen on; accepted: host:port, several with spaces between"
            )
        return _checked(places, LISTEN, where)
    host, port = section.get(HOST, "127.0.0.1").strip(), section.get(PORT, DEFAULT_PORT).strip()
    if not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise ConfigError(f"{PORT} in {where}: {port!r} is no number from 0 to {MAX_PORT}")
    host = {"*": ""}.get(host, host)  # a spelling of "all interfaces"
    return _checked([f"[{host}]:{port}" if ":" in host and host[0] != "[" else f"{host}:{port}"], HOST, where)


def _checked(places: list[str], name: str, where: str) -> list[str]:
    """Return the places if all are valid; otherwise raise an error with the user's name for them, which is not `bind`."""
    for place in places:
        try:
            parse_bind(place)
        except ValueError as fault:
            raise ConfigError(f"{name} in {where}: {fault}") from None
    return places
