"""gunicorn's flags: those of GUNICORN_CMD_ARGS, and of its command line.

Owns:     read_variable, read_line: words in, settings out.
Thread:   any.
Spec:     gunicorn 27.0.1, gunicorn/config.py and gunicorn/app/base.py.
Not here: names and meaning of the settings (gunicorn_table.py), the order of the sources (gunicorn.py).
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from ...settings import ConfigError
from ...settings.secrecy import show_argument
from .draft import Draft, Given
from .foreign_flags import explain_unknown
from .gunicorn_table import FLAGS, ROWS, SWITCHES
from .lines import is_check_flag

VARIABLE = "GUNICORN_CMD_ARGS"
WHERE = "gunicorn's command line"
LISTS = ("bind", "raw_env", "reload_extra_files")  # flags that may be repeated
OPTIONAL = ("proxy_protocol",)  # their value may be left out
# Settings with a flag of one letter beside the long one of their name.
BOTH = {"group", "user", "umask", "timeout", "bind", "workers", "worker_class", "config", "daemon", "control_socket_disable", "paste", "enable_stdio_inheritance"}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def __init__(self, where: str) -> None:
        super().__init__(add_help=False, argument_default=argparse.SUPPRESS)
        self.where = where

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.where}: {message}")


def read_variable(text: str, draft: Draft) -> list[Given]:
    """
    Read GUNICORN_CMD_ARGS; an unknown flag is a note, as another version may have it.

    Raises:
        ConfigError: its quotes are wrong, or a flag lacks its value.
    """
    try:
        words = shlex.split(text)
    except ValueError as fault:
        raise ConfigError(f"{VARIABLE}: {fault}") from None
    given, unknown = _parse(build_parser(VARIABLE), words)
    for word in unknown:
        if word.startswith("-"):
            draft.note(Given(word.partition("=")[0], "", VARIABLE), "aserve does not know it, and it has no effect")
    return given


def read_line(words: Sequence[str], draft: Draft) -> list[Given]:
    """Read the words behind `gunicorn`, with the app among them; what is wrong goes to the draft."""
    parser = build_parser(WHERE)
    parser.add_argument("wsgi_app", nargs="?")
    words = [word for word in words if not is_check_flag(word)]
    mistakes = {at: text for at, text in enumerate(_mistakes(words, parser)) if text}
    draft.mistakes += [f"{WHERE}: {text}" for text in mistakes.values()]
    given: list[Given] = []
    with draft.gathering():
        given, unknown = _parse(parser, [word for at, word in enumerate(words) if at not in mistakes])
        draft.mistakes += [f"{WHERE}: {show_argument(word)}: one app was expected, and flags" for word in unknown]
    return given


def _mistakes(words: Sequence[str], parser: _Parser) -> Iterator[str]:
    """Yield what is wrong with each word; argparse would end at the first."""
    known = parser._option_string_actions
    for word, after in zip(words, [*words[1:], "--"]):
        flag, equals, _ = word.partition("=")
        begun = [name for name in known if flag.startswith("--") and name.startswith(flag)]
        action = known.get(flag) or (known[begun[0]] if len(begun) == 1 else None)
        if action is None and (begun or flag.startswith("--") or (flag[:1] == "-" != flag and flag[:2] not in known)):
            yield f"{flag}: {_explain(flag, begun, known)}"
        elif action is not None and action.nargs is None and not equals and after != "-" and after.startswith("-"):
            yield f"{flag} lacks its value"
        else:
            yield ""


def _explain(flag: str, begun: Sequence[str], known: Iterable[str]) -> str:
    if begun:
        return f"it may be {' or '.join(begun)}"
    return f"gunicorn has no such flag{explain_unknown(flag, 'gunicorn', [name.lstrip('-') for name in known])}"


def _parse(parser: _Parser, words: Sequence[str]) -> tuple[list[Given], list[str]]:
    parsed, unknown = parser.parse_known_args(words)
    return [Given(name, value, parser.where) for name, value in vars(parsed).items()], unknown


def build_parser(where: str) -> _Parser:
    """Return the parser of all flags; `where`: its name in messages."""
    parser = _Parser(where)
    for name, spelled in _spelled().items():
        how: dict[str, Any] = {"action": "append" if name in LISTS else "store"}
        if name in SWITCHES:
            how = {"action": "store_const", "const": name != "sendfile"}
        elif name in OPTIONAL:
            how = {"nargs": "?", "const": "auto"}
        parser.add_argument(*spelled, dest=name, **how)
    return parser


def _spelled() -> dict[str, list[str]]:
    """Return the flags of each setting."""
    others = set(FLAGS.values()) - BOTH  # their long flag has another name
    flags: dict[str, list[str]] = {}
    for name in ["config", *(name for row in ROWS for name in row.names if name[-1] != "*")]:
        if name not in others:
            flags.setdefault(name, []).append(f"--{name.replace('_', '-')}")
    for flag, name in FLAGS.items():
        flags.setdefault(name, []).append(flag)
    return flags
