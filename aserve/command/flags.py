"""The flags of the `aserve` command.

Owns:     --help and its texts, the flags that are no settings (APP, --config, --check, --version), errors about unknown flags.
Thread:   the main thread.
Not here: what the settings are (settings/), what is done with the flags (cli.py, showing.py).
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..compat.moving.lines import is_check, split_line
from ..core.near_names import near_names
from ..core.patterns import lazy_pattern
from ..features import SETTINGS
from ..lifecycle.misnamed import TO_SERVE
from ..settings import SWITCH, ConfigError
from ..settings.secrecy import show_argument
from .host_and_port import take_host_and_port

# gunicorn's, which many users know by heart.
SHORT_FLAGS = {"bind": ("-b",), "workers": ("-w",), "request_seconds": ("-t",)}
# By the command of a server from which no settings are read, the page about it.
COMMANDS = {
    "waitress-serve": "moving-from-waitress", "mod_wsgi-express": "moving-from-mod_wsgi", "granian": "moving-from-granian", "uvicorn": "moving-from-granian",
}  # fmt: skip
SHELLS = ("bash", "zsh", "fish", "tcsh")  # that can complete flags; see completion.py
TASKS = """\
Serve a WSGI app over HTTP/1.1 and HTTP/2, with TLS or without, or over uwsgi.

look around      aserve                            a demo page
begin            aserve init                       settings, a unit, nginx
develop          aserve shop:app --reload          saved code is served
check            aserve shop:app --check           what would be served
serve            aserve shop:app -b :8080          one process, threads
on all CPUs      aserve shop:app -w auto           worker processes
behind nginx     aserve shop:app -b uwsgi://unix:/run/shop.sock
a public site    aserve shop:app --https shop.example --acme-terms accept
with TLS         aserve shop:app -b https://:443 --certificate C --key K
health           aserve shop:app --healthcheck-path /-/health
from elsewhere   aserve uwsgi --http :8000 app.ini  uWSGI's command line
                 aserve gunicorn -w 4 shop:app     gunicorn's
                 aserve python std.py              a program that runs gunicorn
                 aserve translate uwsgi.ini        its settings as ours
ask a server     aserve status --control /run/shop.ctl
ask about flags  aserve config --explain threads   what it is, and why
read more        aserve docs                       the documentation"""
EPILOG = """\
APP is module:name, module:factory(), module, or path/to/file.py:name; without
one, --static and --mount are served; else the apps found here are listed, or
a demo app is served.  A factory may have literals as arguments; quote the
whole for the shell: "shop:create_app('prod', debug=False)".  Each flag is
also an environment variable (--max-body: ASERVE_MAX_BODY) and a key of the
TOML file (max-body).  A flag wins over the variable, the variable over the
file.  Sizes may end in K, M or G (powers of 1024), times in ms, s, m or h."""


# difflib's ratio. At its own 0.6, "port" is near --spooler; each flag with one letter too many or too few is above this.
NEAR = 0.78
_FLAG = lazy_pattern(r"-[^\s\d][^\s]*\Z")  # and no value, to argparse


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see aserve --help")


def parse_args(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> dict[str, object]:
    """
    Return the given settings, by name, without defaults; `environ` may have the PORT of a --host.

    Raises:
        ConfigError: an argument is wrong.
    """
    parser = build_parser()
    ours, line = split_line(argv, parser.parse_known_args)
    words, lacking = _without_lacking(_join_parts(ours), parser)
    args, unknown = parser.parse_known_args(words)
    given = vars(args)
    flags = [word for word in unknown if word.startswith("-")]  # what stands between them may be their values
    told = [
        *_explain_server(given.get("app", "")),
        *(_explain_unknown(word, parser, given) for word in flags),
        *lacking,
    ]
    if told or unknown:
        raise ConfigError("\n".join(dict.fromkeys(told or [_explain_unknown(unknown[0], parser, given)])))
    take_host_and_port(given, environ or {})
    return {**given, **line, **({"check": True} if is_check(line) else {})}


def _join_parts(argv: Sequence[str]) -> list[str]:
    """Make one argument of a value given in two, such as the pattern and the action of a route."""
    words, lacking = list(argv), {setting.flag: setting.lacks for setting in SETTINGS}
    for index in reversed(range(len(words) - 2)):
        flag, first, second = words[index : index + 3]
        lacks = lacking.get(flag)
        if lacks is not None and lacks(first) and not second.startswith("-"):
            words[index + 1 : index + 3] = [f"{first} {second}"]
    return words


def _without_lacking(words: Sequence[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Return the words without flags that lack a value, or have a needless one, and a line about each: argparse ends with the first, and hides the
    words behind it."""
    kept, lines = [], []
    for word, following in zip(words, [*words[1:], "--"]):
        name, has_value, _ = word.partition("=")
        action = parser._option_string_actions.get(name)
        if action is None and has_value and _FLAG.match(name):
            kept.append(name)  # argparse takes an unknown flag with a space in its value for the app
        elif action is not None and action.nargs == 0 and has_value:
            lines.append(f"flag {name} takes no value; write {name}, or leave it out")
        elif action is None or action.nargs is not None or has_value or not _FLAG.match(following.partition("=")[0]):
            kept.append(word)
        else:
            from ..compat.moving.foreign_flags import explain_flag  # tables, needed only for mistakes

            there = explain_flag(word)  # a switch of another server
            instead = there if there.startswith(f"give {word} ") else f"give {word} {action.metavar or 'NAME'}"
            lines.append(f"flag {word} has no value; {instead}")
    return kept, lines


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all flags."""
    parser = _Parser(
        prog="aserve",
        usage="aserve [APP] [flags]\n       aserve status|top|stacks|reload|recycle|workers|balancers --control PATH\n"
        "       aserve config [--explain NAME] [flags]\n       aserve init [APP] [--https NAME]\n       aserve docs [NAME]\n       aserve translate FILE\n"
        "       aserve [flags] uwsgi|gunicorn|python THEIR COMMAND LINE",
        description=TASKS,
        epilog=EPILOG,
        formatter_class=_formatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,  # a new flag could change the meaning of an abbreviation
    )
    parser.add_argument("app", metavar="APP", nargs="?", help="the app; see below")
    parser.add_argument("-c", "--config", metavar="FILE", help=
        "TOML file of settings; default: [tool.aserve] of ./pyproject.toml")  # fmt: skip
    parser.add_argument("--host", metavar="HOST", help=
        "with --port, or alone: the same as --bind HOST:PORT (default: 127.0.0.1)")  # fmt: skip
    parser.add_argument("--port", metavar="PORT", help=
        "with --host, or alone; default: the variable PORT, or 8000")  # fmt: skip
    parser.add_argument("--uwsgi-ini", metavar="FILE", help=
        "uWSGI's configuration, as it is: app.ini[:section], .xml, .yaml or .json; see `aserve docs moving-from-uwsgi`")  # fmt: skip
    parser.add_argument("--gunicorn-conf", metavar="FILE", help=
        "gunicorn's configuration, as it is, with its hooks; '': GUNICORN_CMD_ARGS alone; see `aserve docs moving-from-gunicorn`")  # fmt: skip
    parser.add_argument("--paste", metavar="FILE", help=
        "the app of PasteDeploy's ini file, production.ini[#name], with its logging: as APP config:FILE; see `aserve docs paste`")  # fmt: skip
    parser.add_argument("--check", action="store_true", help=
        "import the app, check the settings, say what would be served, exit")  # fmt: skip
    parser.add_argument("--version", action="store_true", help="say which aserve this is, exit")
    parser.add_argument("--print-completion", choices=SHELLS, help=
        "print what a shell needs to complete flags, exit; see `aserve docs command`")  # fmt: skip
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in SETTINGS:
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        default = setting.show(setting.default)
        value: dict[str, Any] = {"action": "append" if setting.is_list else "store", "metavar": setting.kind.metavar}
        groups[setting.group].add_argument(
            *SHORT_FLAGS.get(setting.name, ()),
            setting.flag,
            dest=setting.name,
            help=f"{setting.help} (default: {default})".replace("%", "%%"),
            **({"action": "store_const", "const": "on"} if setting.kind is SWITCH else value),
        )
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    width = min(shutil.get_terminal_size().columns, 100) - 2
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=width)


def _explain_server(app: str) -> list[str]:
    page = COMMANDS.get(app)
    return [f"aserve takes the place of {app}: leave its command out; see aserve docs {page}"] if page else []


def _explain_unknown(argument: str, parser: argparse.ArgumentParser, given: Mapping[str, object]) -> str:
    name = argument.partition("=")[0]
    if not name.startswith("-"):
        if given.get("app") in TO_SERVE:
            return f"there is no subcommand {given['app']!r}, as aserve serves without one; write: aserve {show_argument(argument)}"
        return f"unexpected argument {show_argument(argument)!r}: one APP, then flags; see aserve --help"
    from ..compat.moving.foreign_flags import explain_family, explain_flag  # tables, needed only for unknown flags

    foreign = explain_flag(name)
    if foreign:
        return f"unknown flag {name}; {foreign}"
    near = near_names(name, parser._option_string_actions, 1, NEAR)
    return f"unknown flag {name}; " + (
        f"did you mean {near[0]}?" if near else explain_family(name) or "see aserve --help"
    )
