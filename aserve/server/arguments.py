"""What is given to Server, serve and run: an app, and settings; by the command also what its processes share.

Owns:     config_of, check_arguments: settings by position, by name or as a Config; what only the command has, and what has no effect in a
          program; what is no app. Processes.
Thread:   any; pure.
Not here: one setting's values (settings/), why an object is no app (lifecycle/app_check.py), what an extension refuses (features/).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..connections.listeners import Listener
from ..connections.load_board import LoadBoard
from ..core.named_tuple import NamedTuple
from ..extension import Say
from ..features import Config
from ..lifecycle.app_check import why_no_app
from ..settings import ConfigError, EngineSettings

logger = logging.getLogger("aserve")

# By name: why a program cannot have this setting.
OF_COMMAND = {
    "workers": "workers are the command's, which imports the app in each; aserve.Server, serve and run serve in this process",
    "control": "control is the command's; a program of yours can answer by itself",
}

# By name: what to use in place of a setting that has no effect in a program. The command sets up its process by these.
OF_PROCESS = {
    "log_level": 'logging.getLogger("aserve").setLevel', "log_config": "logging.config", "chdir": "os.chdir", "env": "os.environ",
    "python_path": "sys.path", "argv": "sys.argv", "hang_warning_seconds": "the command aserve", "hang_timeout_seconds": "the command aserve",
}  # fmt: skip
# Beside these in Server and serve, which leave the process as it is.
OF_RUN = dict.fromkeys(("user", "group", "add_group", "umask", "pid_file", "loop"), "aserve.run")


class Processes(NamedTuple):
    """What the command gives to the Server in each of its processes; a program gives none of it."""

    listeners: Sequence[Listener] | None = (
        None  # in place of `bind`; closed and removed only at the end of all processes
    )
    is_alone: bool = False  # there are no other processes, as the environ says
    load_board: LoadBoard | None = None  # decides which of the processes accepts
    in_flight: Any = None  # memory of connections.in_flight.TABLE_BYTES, which shows running requests to the others
    slot: int | None = None  # this one's number
    # features.metrics.table.PAGE_WORDS words for the others to read: it does not answer at the address of `metrics` itself.
    counters: Any = None
    say: Say | None = None  # sends messages of extensions to the supervisor


def config_of(bind: object, threads: int | None, settings: Mapping[str, Any]) -> EngineSettings:
    """
    Return the settings that a caller gives by position and by name; `bind`: or a Config, which has them all.

    Raises:
        ConfigError: a value is wrong, or only worker processes have that setting.
        TypeError: there is no such setting; both a Config and settings are given; or a dict is, in place of a Config.
    """
    if isinstance(bind, EngineSettings):
        if settings or threads is not None:
            raise TypeError("give either a Config or settings, not both")
        return bind
    if isinstance(bind, Mapping) and "address" not in bind:
        raise TypeError(
            "settings in a dict: give them by name, as **settings; or aserve.Config.from_sources(toml=settings), by TOML's keys"
        )
    if "workers" not in settings:
        _refuse_of_workers(settings)
    by_position: dict[str, Any] = {"bind": bind, "threads": threads}
    return Config(**settings, **{name: value for name, value in by_position.items() if value is not None})


def _refuse_of_workers(settings: Mapping[str, Any]) -> None:
    """Refuse what needs worker processes here: Config would tell to add them, which a program cannot."""
    for row in Config.rows():
        needs_workers = row.name in settings and row.needs is not None and row.needs.any_of == ("workers",)
        if needs_workers and row.asks(row.parse(settings[row.name], row.name)):
            raise ConfigError(
                f"{row.name} is the command's, which has worker processes; a program serves in its own process"
            )


def check_arguments(app: object, config: EngineSettings, is_run: bool = False) -> None:
    """
    Refuse what cannot be called as a WSGI app, and what only the command does: a program would ask for it in vain.

    Warn of settings without effect: in `run` with `is_run`, in Server otherwise.

    Raises:
        ConfigError: a setting is the command's.
        TypeError: the app is none.
    """
    for name, reason in OF_COMMAND.items():
        if getattr(config, name) is not None:
            raise ConfigError(reason)
    if isinstance(app, str):
        raise TypeError(f"the app is the text {app!r}; give the app itself: only the command imports it by a name")
    if why := why_no_app(app, "the app"):
        raise TypeError(why)
    _warn_without_effect(config, OF_PROCESS if is_run else {**OF_RUN, **OF_PROCESS})


def _warn_without_effect(config: EngineSettings, instead: Mapping[str, str]) -> None:
    rows = [row for row in config.rows() if row.name in instead]
    # One that is turned off asks for nothing.
    given = [row.name for row in rows if getattr(config, row.name) not in (row.default, 0, None)]
    if given:
        text = "settings without effect in a program, and what to use in their place: %s"
        logger.warning(text, ", ".join(f"{name} ({instead[name]})" for name in given))
