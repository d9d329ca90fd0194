"""The `aserve` command: argv in, exit status out.

Owns:     the command's flags beside the settings (APP, --config, --check,
          --version), the order of start-up, logging to standard error, and the
          one place where our errors become one line and exit status 2.
Thread:   the main thread.
Not here: what the settings are (settings/table.py), finding the app (loading.py),
          serving and signals (running.py).
"""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NoReturn

from .compat.uwsgi import install as install_uwsgi
from .demo import app as demo_app
from .errors import AserveError, BindError
from .loading import LoadError, check_unpatched, load_app
from .running import run as run_server
from .settings import SETTINGS, VERSION, Config, ConfigError, read_toml
from .signals import tell_what_remains
from .tls.certificates import load_certificates
from .wsgi.routes import compile_routes, lacks_action

logger = logging.getLogger("aserve")

USAGE_ERROR = 2
INTERRUPTED = 130  # what a shell reports for SIGINT
LOOP_THREAD = "0, the app runs on the event loop's thread"
EPILOG = """\
APP is module:name, module:factory(), module, or path/to/file.py:name; without
one, a demo app is served.  A factory may be given literals, in quotes of the
shell's: "shop:create_app('prod', debug=False)".  Each flag is also an
environment variable (--max-body: ASERVE_MAX_BODY) and a key of the TOML file
(max-body).  A flag wins over the variable, the variable over the file.  Sizes
may end in K, M or G (powers of 1024), times in ms, s, m or h."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 2 a mistake in what was asked."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except (ConfigError, AserveError, BindError) as fault:
        if isinstance(fault, LoadError):
            sys.stderr.write(fault.app_traceback)
        sys.stderr.write(f"aserve: error: {fault}\n")
        return USAGE_ERROR
    except KeyboardInterrupt:  # while the app was imported
        return INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    args = _parse_args(argv)
    if args.pop("version", False):
        sys.stdout.write(_version_line() + "\n")
        return 0
    is_check = args.pop("check", False)
    toml, toml_name = _read_file(args.pop("config", os.environ.get("ASERVE_CONFIG")))
    spec = args.pop("app", None) or os.environ.get("ASERVE_APP") or toml.get("app")
    config = Config.from_sources(args, os.environ, toml, toml_name)
    compile_routes(config.route)  # a mistake in one is told before the app is imported
    certificates = load_certificates(config)  # so is one in these; the server loads its own
    if config.uwsgi_module == "on" or (config.uwsgi_module == "auto" and _speaks_uwsgi(config)):
        install_uwsgi()
    app = load_app(_checked_spec(spec, toml_name)) if spec else demo_app
    check_unpatched()
    # After the app, whose own logging set-up may disable the loggers it finds.
    _set_up_logging(config.log_level)
    if is_check:
        certificates.log_warnings()
        sys.stdout.write(_describe(config, app, spec))
        return 0
    if not spec:
        logger.info("no APP was named, so this is the demo; for yours: %s module:app", _command())
    status = run_server(app, config)
    tell_what_remains()
    return status


def _speaks_uwsgi(config: Config) -> bool:
    return bool(config.route) or any(bind.startswith("uwsgi://") for bind in config.bind)


def _checked_spec(spec: object, toml_name: str) -> str:
    if not isinstance(spec, str):
        raise ConfigError(f"app in {toml_name}: {spec!r} is not text; accepted: module:name")
    return spec


# Flags


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see aserve --help")


def _parse_args(argv: Sequence[str]) -> dict[str, object]:
    """Return what was given, keyed by setting name; nothing else, so no defaults."""
    parser = _build_parser()
    args, unknown = parser.parse_known_args(_join_routes(argv))
    if unknown:
        raise ConfigError(_explain_unknown(unknown[0], parser))
    return vars(args)


def _join_routes(argv: Sequence[str]) -> list[str]:
    """Make one argument of `--route PATTERN ACTION`."""
    words = list(argv)
    for index in reversed(range(len(words) - 2)):
        flag, pattern, action = words[index : index + 3]
        if flag == "--route" and lacks_action(pattern) and not action.startswith("-"):
            words[index + 1 : index + 3] = [f"{pattern} {action}"]
    return words


def _build_parser() -> _Parser:
    parser = _Parser(
        prog="aserve",
        usage="aserve [APP] [flags]",
        description="Serve a WSGI app over HTTP/1.1.",
        epilog=EPILOG,
        formatter_class=_formatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,  # an abbreviation would change its meaning when a flag is added
    )
    parser.add_argument("app", metavar="APP", nargs="?", help="the app; see below")
    parser.add_argument("--config", metavar="FILE", help=
        "TOML file of settings; default: [tool.aserve] of ./pyproject.toml")  # fmt: skip
    parser.add_argument("--check", action="store_true", help=
        "import the app, check the settings, say what would be served, exit")  # fmt: skip
    parser.add_argument("--version", action="store_true", help="say which aserve this is, exit")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in SETTINGS:
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        default = setting.kind.show(setting.default)
        groups[setting.group].add_argument(
            setting.flag,
            dest=setting.name,
            metavar=setting.kind.metavar,
            action="append" if setting.is_list else "store",
            help=f"{setting.help} (default: {default})".replace("%", "%%"),
        )
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    width = min(shutil.get_terminal_size().columns, 100) - 2
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=width)


def _explain_unknown(argument: str, parser: argparse.ArgumentParser) -> str:
    name = argument.partition("=")[0]
    if not name.startswith("-"):
        return f"unexpected argument {argument!r}: one APP, then flags; see aserve --help"
    near = difflib.get_close_matches(name, list(parser._option_string_actions), 1)
    return f"unknown flag {name}; " + (f"did you mean {near[0]}?" if near else "see aserve --help")


def _read_file(path: object) -> tuple[Mapping[str, object], str]:
    """Return the settings of the TOML file, and its name for messages."""
    if path:
        return read_toml(str(path)), str(path)
    if os.path.isfile("pyproject.toml"):
        return read_toml("pyproject.toml"), "[tool.aserve] of pyproject.toml"
    return {}, "the TOML file"


# Output


def _command() -> str:
    """Return what to type for this command: its path, where it is not on PATH."""
    return "aserve" if shutil.which("aserve") else f"{os.path.dirname(sys.executable)}/aserve"


def _version_line() -> str:
    from importlib.metadata import version  # 12 ms on CPython 3.11, for this flag only

    loop = "asyncio"
    if find_spec("uvloop"):
        loop = f"uvloop {version('uvloop')}"
    return f"aserve {VERSION} on {platform.python_implementation()} {_python_version()}, {loop}"


def _python_version() -> str:
    pypy = getattr(sys, "pypy_version_info", None)
    own = f" ({'.'.join(map(str, pypy[:3]))})" if pypy else ""
    return platform.python_version() + own


def _describe(config: Config, app: object, spec: object) -> str:
    kind = type(app)
    what = "a function" if kind.__name__ == "function" else f"{kind.__module__}.{kind.__qualname__}"
    lines = [f"app:     {spec or 'the demo app'} ({what})"]
    lines += [f"bind:    {_describe_bind(bind)}" for bind in config.bind]
    lines.append(f"threads: {config.threads or LOOP_THREAD}")
    return "\n".join([*lines, "All is well; without --check this would be served.", ""])


def _describe_bind(bind: str) -> str:
    if bind.startswith("https://"):
        return bind.partition("?")[0]
    if bind.startswith("unix:") or "://" in bind:
        return bind
    return f"http://{bind}" if bind[0] != ":" else f"port {bind[1:]} of all interfaces"


def _set_up_logging(level: str) -> None:
    """Send the "aserve" loggers to standard error, whatever the app does with the others."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("{asctime} {levelname:<8} {message}", style="{"))
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False  # the app's root handler would show each message again
    for name, known in logging.root.manager.loggerDict.items():
        if name.split(".")[0] == "aserve" and isinstance(known, logging.Logger):
            known.disabled = False  # by the app's logging.config, which disables what it finds
