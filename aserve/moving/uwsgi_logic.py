"""uWSGI's placeholders, conditions, loops and includes.

Owns:     from the options of files and variables to those that count, with their values.
Thread:   any.
Spec:     uWSGI 2.0.30: core/config.c and its documentation, "Configuration logic"; tried beside it.
Not here: reading a file (uwsgi_files.py), what an option means (uwsgi_table.py).
"""

from __future__ import annotations

import glob
import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Callable

from ..settings import ConfigError
from .draft import Given
from .uwsgi_files import read_options, split_section

INCLUDES = {
    "ini": "ini", "include": "", "inherit": "", "config": "", "xml": "xml", "xmlconfig": "xml", "yaml": "yaml", "yml": "yaml",
    "json": "json", "js": "json",
}  # fmt: skip
MAX_DEPTH = 16
ENDS_IF, ENDS_FOR = ("endif", "end-if"), ("endfor", "end-for")
NOT_OPTIONS = (
    "reloads",
    "vassals-dir",
    "emperor-fd",
    "broodlord-num",
    "emperor-fd-config",
    "emperor-proxy",
    "original-proc-name",
)
_IF = re.compile(r"if-?(not-)?(env|opt|exists|file|dir|directory|hostname|hostname-match|plugin|reload)\Z")
_FOR = re.compile(r"for(-glob|-times|-readline)?\Z")
_PLACEHOLDER = re.compile(r"%\(([^()]*)\)")
_ENVIRON = re.compile(r"\$\(([^()]*)\)")
_FILE = re.compile(r"@\(([^()]*)\)")


def from_variables(environ: Mapping[str, str]) -> list[Given]:
    """Return the options that UWSGI_ variables give; those of files win over them."""
    pairs = [(name, name[6:].lower().replace("_", "-")) for name in environ if name.startswith("UWSGI_")]
    return [Given(key, environ[name], name) for name, key in pairs if key and key not in NOT_OPTIONS]


def include(options: Iterable[Given], environ: Mapping[str, str], file: str, depth: int = 0) -> list[Given]:
    """
    Return the options with those of included files in their places; `file`: the one that they are from.

    Raises:
        ConfigError: see uwsgi_files.read_options; or files include one another.
    """
    found = []
    for option in options:
        found.append(option)
        if option.key in INCLUDES and option.value:
            if depth == MAX_DEPTH:
                raise ConfigError(f"{option.where}: {option}: files include one another")
            path, section = split_section(_replace_environ(option.value, environ))
            form = INCLUDES[option.key] if path else ""
            found += include(read_options(path or file, section, form), environ, path or file, depth + 1)
    return found


def resolve(options: Iterable[Given], environ: Mapping[str, str]) -> list[Given]:
    """
    Return the options that count, with their values: conditions are decided, loops unrolled, placeholders replaced.

    Raises:
        ConfigError: a file that is to be a value cannot be read.
    """
    return _Resolver(environ).resolve(list(options))


class _Resolver:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._known: dict[str, str] = {}  # the first value of each option, to which a placeholder refers
        self._ahead: dict[str, str] = {}

    def resolve(self, options: list[Given]) -> list[Given]:
        self._ahead = {option.key: option.value for option in reversed(options)}
        found: list[Given] = []
        self._walk(options, "", found)
        return found

    def _walk(self, options: list[Given], this: str, found: list[Given]) -> None:
        """Add the options that count; `this` is the value of %(_)."""
        at = 0
        while at < len(options):
            option = options[at]
            at += 1
            if _IF.match(option.key):
                end = _end_of(options, at, _IF, ENDS_IF)
                holds, its = self._decide(option, this)
                if holds:
                    self._walk(options[at:end], its, found)
                at = end + 1
            elif _FOR.match(option.key):
                end = _end_of(options, at, _FOR, ENDS_FOR)
                for item in _LOOPS[option.key](self._replace(option, this)):
                    self._walk(options[at:end], item, found)
                at = end + 1
            elif option.key not in (*ENDS_IF, *ENDS_FOR):
                self._take(option, this, found)

    def _take(self, option: Given, this: str, found: list[Given]) -> None:
        option = option._replace(value=self._replace(option, this))
        if option.key == "env" and "=" in option.value:
            name, _, value = option.value.partition("=")
            self._environ[name] = value
        if option.key in ("set", "set-ph", "set-placeholder") and "=" in option.value:
            key, _, value = option.value.partition("=")
            self._known.setdefault(key, value)
            if option.key == "set":
                found.append(Given(key, value, option.where))
            return
        self._known.setdefault(option.key, option.value)
        found.append(option)

    def _decide(self, option: Given, this: str) -> tuple[bool, str]:
        match = _IF.match(option.key)
        assert match is not None
        held, its = self._holds(match[2], self._replace(option, this))
        return held != bool(match[1]), its

    def _holds(self, kind: str, value: str) -> tuple[bool, str]:
        if kind in ("env", "opt"):
            name, equals, wanted = value.partition("=")
            found = self._environ.get(name) if kind == "env" else self._known.get(name)
            return found is not None and (not equals or found == wanted), found or ""
        if kind in ("exists", "file", "dir", "directory"):
            test = {"exists": os.path.exists, "file": os.path.isfile}.get(kind, os.path.isdir)
            return test(value), value
        if kind == "hostname":
            return socket.gethostname() == value, value
        if kind == "hostname-match":
            return re.search(value, socket.gethostname()) is not None, value
        if kind == "plugin":
            return value.startswith(("python", "http", "corerouter")), value
        return False, value  # reload: this is the start

    def _replace(self, option: Given, this: str) -> str:
        text = _replace_environ(option.value, self._environ)
        text = _PLACEHOLDER.sub(lambda match: self._placeholder(match, this), text)
        return _FILE.sub(lambda match: _read_value(match[1], option), text)

    def _placeholder(self, match: re.Match[str], this: str) -> str:
        """Return the value of %(name) or %(a + 1); of a name that no option has, the text as it is: log-format has its own."""
        if match[1] == "_":
            return this
        words = match[1].split(" ")
        if len(words) == 3 and words[1] in _OPERATORS:
            left, right = self._operand(words[0]), self._operand(words[2])
            if left is not None and right is not None:
                return _OPERATORS[words[1]](left, right)
        value = self._operand(match[1])
        return match[0] if value is None or match[1].isdigit() else value

    def _operand(self, name: str) -> str | None:
        if name.lstrip("-").isdigit():
            return name
        value = self._known.get(name, self._ahead.get(name))
        if value is not None and f"%({name})" not in value:
            value = _PLACEHOLDER.sub(lambda match: self._known.get(match[1], match[0]), value)
        return value


def _whole(text: str) -> int:
    match = re.match(r"\s*-?[0-9]+", text)
    return int(match[0]) if match else 0


_OPERATORS: dict[str, Callable[[str, str], str]] = {
    "+": lambda a, b: str(_whole(a) + _whole(b)),
    "-": lambda a, b: str(_whole(a) - _whole(b)),
    "*": lambda a, b: str(_whole(a) * _whole(b)),
    "/": lambda a, b: str(_whole(a) // (_whole(b) or 1)),
    "++": lambda a, b: a + b,
}


def _lines_of(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError as fault:
        raise ConfigError(f"for-readline = {path}: {fault.strerror}") from None


_LOOPS: dict[str, Callable[[str], list[str]]] = {
    "for": str.split,
    "for-glob": lambda pattern: sorted(glob.glob(pattern)),
    "for-times": lambda text: [str(number) for number in range(1, _whole(text) + 1)],
    "for-readline": _lines_of,
}


def _end_of(options: list[Given], at: int, start: re.Pattern[str], ends: tuple[str, ...]) -> int:
    """Return where the block that has begun ends; uWSGI has none inside another, and here they may be."""
    depth = 1
    for index in range(at, len(options)):
        key = options[index].key
        if key in ends:
            depth -= 1
            if depth == 0:
                return index
        elif start.match(key):
            depth += 1
    return len(options)


def _replace_environ(text: str, environ: Mapping[str, str]) -> str:
    return _ENVIRON.sub(lambda match: environ.get(match[1], match[0]), text)


def _read_value(path: str, option: Given) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().rstrip("\n")
    except OSError as fault:
        raise ConfigError(f"{option.where}: {option}: cannot read {path}: {fault.strerror}") from None
