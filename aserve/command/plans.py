"""What is to be served, from all sources: flags, variables, the TOML file, another server's files.

Owns:     reading it, and reading it again for a reload; what is wrong with it before the app is imported.
Thread:   the main thread.
Not here: the flags (flags.py), which source wins (settings/sources.py), importing the app (apps.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.start_folder import FolderGoneError, StartFolder
from ..extension import Life, LifeContext
from ..features import Config, extensions_of, on_life
from ..features.mounts import parse_mount
from ..features.moving.naming import take_flags
from ..lifecycle.surroundings import with_whole_paths
from ..processes.plan import Plan
from ..processes.programs import check_programs
from ..settings import ConfigError, read_toml
from ..settings.secrecy import show_app
from ..tls.certificates import load_certificates

if TYPE_CHECKING:
    from ..features.moving.origin import Origin


def read_plan(args: Mapping[str, object]) -> Plan:
    """Return what is to be served, by all sources; report what is wrong with it before the app is imported."""
    plan = read_settings(args)
    extensions_of(plan.config)  # to see whether they can be made
    check_programs(plan.config, os.environ)
    load_certificates(plan.config)  # to see whether they can be; the server loads its own
    return plan


def read_settings(args: Mapping[str, object]) -> Plan:
    """Return what all sources say, without a look at the files and programs that it names."""
    given = dict(args)
    origin = _read_origin(take_flags(given))
    toml, toml_name = read_file(given.pop("config", os.environ.get("ASERVE_CONFIG")))
    spec = given.pop("app", None) or os.environ.get("ASERVE_APP") or toml.get("app")
    if origin is not None:
        spec = spec or origin.draft.app
        toml = {**origin.settings, **toml}  # each of the origin's has been checked, with the line that it is from
    config = Config.from_sources(given, os.environ, toml, toml_name, sys.stdout.isatty())
    config = with_whole_paths(config, StartFolder.of_this_process(os.environ))
    if spec and any(parse_mount(text).prefix == "" for text in config.mount):
        raise ConfigError(f"mount / is the place of the APP, which is {show_app(str(spec))!r}; name one of them")
    if config.shared is not None and not (spec or config.shared_prefix):
        raise ConfigError("shared needs shared-prefix where no APP is named, whose name would be the prefix")
    return Plan(config, _checked_spec(spec, toml_name) if spec else None, origin)


def _read_origin(flags: Mapping[str, str]) -> Origin | None:
    if not flags:
        return None
    from ..features.moving.origin import read_origin

    return read_origin(flags, os.environ)


def read_again(args: Mapping[str, object], folder: StartFolder, own: frozenset[str]) -> Plan:
    """
    Return what is to be served from now on; `own`: the names of modules that are aserve's.

    Raises:
        ConfigError: a source has a mistake.
        FolderGoneError: the app would be that of before, as the folder from which it is imported has moved.
    """
    gone = None
    try:
        folder.enter(own, is_anew=True)
    except FolderGoneError as fault:
        gone = fault
    plan = read_plan(args)
    if gone is not None and depends_on_folder(plan):
        raise gone
    on_life(Life.RELOADS, LifeContext(plan))
    return plan


def config_of(plan: Plan) -> Config:
    """Return its settings: the command's plans have those of all features."""
    assert isinstance(plan.config, Config)
    return plan.config


def needs_no_app(plan: Plan) -> bool:
    """Whether there is something to serve without an APP, and so no need of the demo."""
    config = config_of(plan)
    return bool(config.static or config.mount)


def depends_on_folder(plan: Plan) -> bool:
    """Whether an app is imported from the folder of the start, or from below it."""
    specs = [*([plan.spec] if plan.spec else []), *(parse_mount(text).what for text in config_of(plan).mount)]
    return not os.path.isabs(plan.config.chdir or "") and not all(map(os.path.isabs, specs or [""]))


def _checked_spec(spec: object, toml_name: str) -> str:
    if not isinstance(spec, str):
        raise ConfigError(f"app in {toml_name}: {show_app(repr(spec))} is not text; accepted: module:name")
    return spec


def read_file(path: object) -> tuple[Mapping[str, object], str]:
    """Return the settings of the TOML file, and its name for messages."""
    if path:
        return read_toml(str(path)), str(path)
    if os.path.isfile("pyproject.toml"):
        return read_toml("pyproject.toml"), "[tool.aserve] of pyproject.toml"
    return {}, "the TOML file"
