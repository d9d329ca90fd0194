"""The plan of what to serve, from all sources: flags, variables, the TOML file, another server's files.

Owns:     reading it, and reading it again for a reload; its checks before the app is imported.
Thread:   the main thread.
Not here: the flags (flags.py), the order of sources (settings/sources.py), importing the app (apps.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from ..compat.moving.naming import take_flags
from ..core.named_tuple import NamedTuple
from ..core.start_folder import FolderGoneError, StartFolder, real_folder
from ..extension import Life, LifeContext
from ..features import Config, extensions_of, on_life
from ..lifecycle.surroundings import with_whole_paths
from ..processes.fleet.plan import Plan
from ..settings import ConfigError, read_toml
from ..settings.secrecy import show_app
from ..settings.variables import expand
from ..tls.certificates import load_certificates

if TYPE_CHECKING:
    from ..compat.moving.origin import Origin


class PlanSources(NamedTuple):
    """All that the settings of one plan were read from, but another server's files."""

    app: object
    flags: Mapping[str, object]
    environ: Mapping[str, str]
    toml: Mapping[str, object]
    toml_name: str
    folder: StartFolder  # which relative paths refer to
    real_folder: str  # where that leads now, if it is a link
    is_at_terminal: bool

    def __repr__(self) -> str:
        return "Sources(...)"  # error reports contain the reprs of local variables, and variables have secrets


def read_plan(args: Mapping[str, object], before: Plan | None = None, is_check: bool = False) -> Plan:
    """Read the plan from all sources, and check all that can be checked before the app is imported; `before`: see read_settings; `is_check`: see LifeContext."""
    plan = read_settings(args, before)
    if before is None or plan.config is not before.config:
        extensions_of(plan.config)  # raises if one cannot be made from its settings
    # This is checked again with the same settings: files may be there or not.
    # This raises if something that an extension names is not there, and load_certificates if a certificate cannot be loaded.
    on_life(Life.READ, LifeContext(plan, is_check=is_check, environ=os.environ))
    # Asked of the texts: a reload without a change of settings parses no bind.
    if not is_check and any(bind.startswith("https://") for bind in plan.config.bind):
        # The server loads its certificates, and so does a check.
        load_certificates(plan.config, without=config_of(plan).missing_certificates())
    return plan


def read_settings(args: Mapping[str, object], before: Plan | None = None) -> Plan:
    """
    Read the plan from all sources, without checking the files and programs that it names.

    `before`: a plan, of which this is another with the same settings, if no source has changed.
    """
    given = dict(args)
    origin = read_origin_of(given)
    toml, toml_name = read_file(given.pop("config", os.environ.get("ASERVE_CONFIG")))
    app, is_at_terminal = given.pop("app", None), sys.stdout.isatty()
    folder = StartFolder.of_this_process(os.environ)
    sources = PlanSources(app, given, dict(os.environ), toml, toml_name, folder, real_folder(), is_at_terminal)
    if origin is None and before is not None and before.sources == sources:
        return before._replace()  # another plan: plans are compared by identity
    spec = app or os.environ.get("ASERVE_APP") or toml.get("app")
    if origin is not None:
        spec = spec or origin.draft.app
    values = merged(origin, given, os.environ, toml, toml_name)
    config = Config.of_given(values, is_at_terminal)
    config.refuse_idle(given)
    if origin is not None:
        origin.check_guards(config.dropped_guards)
    config = with_whole_paths(config, folder)
    if spec and any(mounted.prefix == "" for mounted in config.mounted):
        raise ConfigError(f"--mount / is the place of the APP, which is {show_app(str(spec))!r}; name one of them")
    if config.shared is not None and not (spec or config.shared_prefix):
        raise ConfigError("--shared needs --shared-prefix where no APP is named, whose name would be the prefix")
    checked = _checked_spec(spec, toml_name) if spec else None
    plan = Plan(config, checked, origin, frozenset(values), is_at_terminal, sources)
    if origin is not None and is_demo(plan):
        raise ConfigError(
            f"{origin.draft.name} names no app, and no files to serve; put the app first: aserve module:app ..."
        )
    return plan


def read_origin_of(given: MutableMapping[str, object]) -> Origin | None:
    """
    Read the settings of another server that these flags name, and take such flags out; None: they name none.

    Raises:
        ConfigError: a file cannot be read, or a value is wrong.
    """
    flags = take_flags(given)
    if not flags:
        return None
    from ..compat.moving.origin import read_origin

    return read_origin(flags, os.environ)


def merged(
    origin: Origin | None,
    given: Mapping[str, object],
    environ: Mapping[str, str],
    toml: Mapping[str, object],
    toml_name: str,
) -> dict[str, Any]:
    """
    Return the values of all sources.

    Raises:
        ConfigError: an unknown name or a wrong value in any source.
    """
    if origin is None:
        return Config.merged(given, environ, toml, toml_name)
    return origin.merge(given, environ, toml, toml_name)


def read_again(
    args: Mapping[str, object], folder: StartFolder, own: frozenset[str], before: Plan | None = None
) -> Plan:
    """
    Read the plan again for a reload; `own`: the names of aserve's modules; `before`: see read_settings.

    Raises:
        ConfigError: a source has a mistake.
        FolderGoneError: the folder of the app has moved, so that the old app would be imported again.
    """
    gone = None
    try:
        folder.enter(own, is_anew=True)
    except FolderGoneError as fault:
        gone = fault
    plan = read_plan(args, before)
    if gone is not None and depends_on_folder(plan):
        raise gone
    on_life(Life.RELOADS, LifeContext(plan))
    return plan


def config_of(plan: Plan) -> Config:
    """Return the plan's settings, which in the command are those of all features."""
    assert isinstance(plan.config, Config)
    return plan.config


def needs_no_app(config: Config) -> bool:
    """Whether there is something to serve without an APP, so that the demo is not needed."""
    return bool(config.static or config.mount)


def is_demo(plan: Plan) -> bool:
    """Whether the demo is to be served: nothing else was named."""
    return not plan.spec and not needs_no_app(config_of(plan))


def depends_on_folder(plan: Plan) -> bool:
    """Whether an app is imported from the start folder, or from below it."""
    specs = [*([plan.spec] if plan.spec else []), *(mounted.what for mounted in config_of(plan).mounted)]
    return not os.path.isabs(plan.config.chdir or "") and not all(map(os.path.isabs, specs or [""]))


def _checked_spec(spec: object, toml_name: str) -> str:
    if not isinstance(spec, str):
        raise ConfigError(f"app in {toml_name}: {show_app(repr(spec))} is not text; accepted: module:name")
    return spec


def read_file(path: object) -> tuple[Mapping[str, object], str]:
    """Return the settings of the TOML file, with values of variables, and its name for messages."""
    if path:
        return expand(read_toml(str(path)), os.environ, str(path)), str(path)
    if os.path.isfile("pyproject.toml"):
        name = "[tool.aserve] of pyproject.toml"
        return expand(read_toml("pyproject.toml"), os.environ, name), name
    return {}, "the TOML file"
