"""Evaluates uWSGI's placeholders, conditions, loops and includes.

Owns:     turning the options of files and variables into the effective ones, with their values.
Thread:   any.
Spec:     uWSGI 2.0.30: core/config.c and its documentation, "Configuration logic"; compared with uWSGI itself.
Not here: reading a file (uwsgi_files.py), the meaning of an option (uwsgi_table.py).
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Callable

from ...settings import ConfigError
from .draft import Given, is_number
from .naming import split_section
from .uwsgi_files import read_options, read_text

INCLUDES = {
    "ini": "ini", "include": "", "inherit": "", "config": "", "xml": "xml", "xmlconfig": "xml", "yaml": "yaml", "yml": "yaml",
    "json": "json", "js": "json",
}  # fmt: skip
MAX_DEPTH = 16  # of nested includes, and of nested blocks
MAX_OPTIONS = 100_000  # with those of all includes
# Characters of all values together, plus OPTION_COST for each option and each turn of a loop: loops and placeholders may double a value
# again and again. Guess: a thousand times a real file; it takes about a second.
MAX_CHARACTERS, OPTION_COST = 10_000_000, 100
MAX_DIGITS = 18  # of a number
ENDS_IF, ENDS_FOR = ("endif", "end-if"), ("endfor", "end-for")
NOT_OPTIONS = (
    "reloads", "vassals-dir", "emperor-fd", "broodlord-num", "emperor-fd-config", "emperor-proxy", "original-proc-name",
)  # fmt: skip
_IF = re.compile(r"if-?(not-)?(env|opt|exists|file|dir|directory|hostname|hostname-match|plugin|reload)\Z")
_FOR = re.compile(r"for(-glob|-times|-readline)?\Z")
_PLACEHOLDER = re.compile(r"%\(([^()]*)\)")
_ENVIRON = re.compile(r"\$\(([^()]*)\)")
_EXEC, _FD = "exec://", re.compile(r"\Afd://(?=[0-9]+\Z)")
_FILE = re.compile(r"@\(([^()]*)\)")
# A pattern with few repetitions, and none of a group, ends soon on the name of a host; others are searched in a process of their own.
_REPEATS, _REPEATED_GROUP, MAX_REPEATS = re.compile(r"[*+{]"), re.compile(r"\)[*+{]"), 3
SEARCH_SECONDS = 5.0  # Guess
# A killed parent leaves no process that searches for ever.
_SEARCH = "import re, signal, sys; signal.setitimer(0, float(sys.argv[3])); sys.exit(not re.search(*sys.argv[1:3]))"


def from_variables(environ: Mapping[str, str]) -> list[Given]:
    """Return the options of UWSGI_ variables; options of files win over them."""
    pairs = [(name, name[6:].lower().replace("_", "-")) for name in environ if name.startswith("UWSGI_")]
    return [Given(key, environ[name], name) for name, key in pairs if key and key not in NOT_OPTIONS]


def include(options: Iterable[Given], environ: Mapping[str, str], file: str, depth: int = 0) -> list[Given]:
    """
    Return the options, with each include replaced by its file's options; `file`: the origin of `options`.

    Raises:
        ConfigError: see uwsgi_files.read_options; or files include one another, or many too often.
    """
    found: list[Given] = []
    _include(options, environ, file, depth, found, _Blocks())
    return found


class _Blocks:
    """Counts the conditions and loops around an option."""

    def __init__(self) -> None:
        self._count = 0

    def are_around(self, option: Given) -> bool:
        if _IF.match(option.key) or _FOR.match(option.key):
            self._count += 1
        elif option.key in (*ENDS_IF, *ENDS_FOR):
            self._count = max(0, self._count - 1)
        return self._count > 0


def _include(
    options: Iterable[Given], environ: Mapping[str, str], file: str, depth: int, found: list[Given], blocks: _Blocks
) -> None:
    for option in options:
        found.append(option)
        is_late = blocks.are_around(option) or "%(" in option.value  # the resolver includes it, if a condition holds
        if len(found) > MAX_OPTIONS:
            raise ConfigError(
                f"{option.where}: {_said(option)}: more than {MAX_OPTIONS:,} options, with those of included files"
            )
        if option.key in INCLUDES and option.value and not is_late:
            if depth == MAX_DEPTH:
                raise ConfigError(f"{option.where}: {option}: files include one another")
            value = _ENVIRON.sub(lambda match: environ.get(match[1], match[0]), option.value)
            path, its = _read_included(option, value, file)
            _include(its, environ, path, depth + 1, found, blocks)


def _said(option: Given) -> Given:
    """Return an option for messages: what is no include, condition or loop may have a secret in its value."""
    is_logic = option.key in INCLUDES or _IF.match(option.key) or _FOR.match(option.key)
    return option._replace(is_secret=not is_logic)


def _read_included(option: Given, value: str, file: str) -> tuple[str, list[Given]]:
    """Return the path and the options of what an option includes: `file`, `file:section`, or `:section` of the same file."""
    path, section = split_section(value)
    form = INCLUDES[option.key] if path else ""
    return path or file, read_options(path or file, section, form)


def resolve(options: Iterable[Given], environ: Mapping[str, str]) -> list[Given]:
    """
    Return the effective options with their values: decide conditions, unroll loops, replace placeholders.

    Raises:
        ConfigError: the file of a value cannot be read, a pattern is invalid, or loops and placeholders produce too much.
    """
    return _Resolver(environ).resolve(list(options))


class _Resolver:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._known: dict[str, str] = {}  # the first value of each option, for placeholders
        self._ahead: dict[str, str] = {}
        self._room = MAX_CHARACTERS
        self._nesting = 0  # of includes that conditions or placeholders decide on

    def resolve(self, options: list[Given]) -> list[Given]:
        self._ahead = {option.key: option.value for option in reversed(options)}
        found: list[Given] = []
        self._walk([_said(option) for option in options], "", found, 0)
        return found

    def _walk(self, options: list[Given], this: str, found: list[Given], depth: int) -> None:
        """Add the effective options; `this`: the value of %(_), `depth`: the number of blocks around them."""
        at = 0
        while at < len(options):
            option = options[at]
            at += 1
            self._spend(OPTION_COST, option)
            if depth == MAX_DEPTH and (_IF.match(option.key) or _FOR.match(option.key)):
                raise ConfigError(f"{option.where}: {option}: it is in more than {MAX_DEPTH} blocks")
            if _IF.match(option.key):
                end = _end_of(options, at, _IF, ENDS_IF)
                holds, its = self._decide(option, this)
                if holds:
                    self._walk(options[at:end], its, found, depth + 1)
                at = end + 1
            elif _FOR.match(option.key):
                end = _end_of(options, at, _FOR, ENDS_FOR)
                for item in _LOOPS[option.key](self._replace(option, this), option):
                    self._spend(OPTION_COST, option)
                    self._walk(options[at:end], item, found, depth + 1)
                at = end + 1
            elif option.key not in (*ENDS_IF, *ENDS_FOR):
                self._take(option, this, found)
                if option.key in INCLUDES and option.value and (depth or "%(" in option.value):
                    self._include(found[-1], found)

    def _include(self, option: Given, found: list[Given]) -> None:
        if self._nesting == MAX_DEPTH:
            raise ConfigError(f"{option.where}: {option}: files include one another")
        self._nesting += 1
        path, options = _read_included(option, option.value, re.sub(r":[0-9]+\Z", "", option.where))
        options = include(options, self._environ, path)
        for each in options:
            self._ahead.setdefault(each.key, each.value)
        self._walk([_said(option) for option in options], "", found, 0)
        self._nesting -= 1

    def _spend(self, count: int, option: Given) -> None:
        self._room -= count
        if self._room < 0:
            raise ConfigError(
                f"{option.where}: {option}: loops and placeholders make too much of it: they may have no end"
            )

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
        value = self._replace(option, this)
        try:
            held, its = self._holds(match[2], value)
        except (re.error, ValueError, OverflowError, RecursionError) as fault:
            raise ConfigError(f"{option.where}: {option}: no pattern: {fault}") from None
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
            return _is_found(value, socket.gethostname()), value
        if kind == "plugin":
            return value.startswith(("python", "http", "corerouter")), value
        return False, value  # if-reload: this is a start

    def _replace(self, option: Given, this: str) -> str:
        text = self._substitute(_ENVIRON, lambda match: self._environ.get(match[1], match[0]), option.value, option)
        text = self._substitute(_PLACEHOLDER, lambda match: self._placeholder(match, this, option), text, option)
        return self._substitute(_FILE, lambda match: _text_of(match[1], option).rstrip("\n"), text, option)

    def _substitute(
        self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str, option: Given
    ) -> str:
        """Return the text with each match replaced, within MAX_CHARACTERS."""

        def replace_in_room(match: re.Match[str]) -> str:
            value = replace(match)
            self._spend(len(value), option)
            return value

        return pattern.sub(replace_in_room, text)

    def _placeholder(self, match: re.Match[str], this: str, option: Given) -> str:
        """Return the value of %(name) or %(a + 1); of an unknown name, the unchanged text: log-format has placeholders of its own."""
        if match[1] == "_":
            return this
        words = match[1].split(" ")
        if len(words) == 3 and words[1] in _OPERATORS:
            left, right = self._operand(words[0], option), self._operand(words[2], option)
            if left is not None and right is not None:
                return _operate(words[1], left, right, option)
        value = self._operand(match[1], option)
        return match[0] if value is None or is_number(match[1]) else value

    def _operand(self, name: str, option: Given) -> str | None:
        if is_number(name.lstrip("-")):
            return name
        value = self._known.get(name, self._ahead.get(name))
        if value is not None and f"%({name})" not in value:
            value = self._substitute(_PLACEHOLDER, lambda match: self._known.get(match[1], match[0]), value, option)
        return value


def _is_found(pattern: str, text: str) -> bool:
    """
    Whether a regular expression is found in a text.

    Raises:
        re.error, ValueError: it is none; or it takes too long, as one that repeats repetitions may.
    """
    compiled = re.compile(pattern)
    if len(_REPEATS.findall(pattern)) <= MAX_REPEATS and not _REPEATED_GROUP.search(pattern):
        return compiled.search(text) is not None
    words = [sys.executable, "-I", "-S", "-c", _SEARCH, pattern, text, str(SEARCH_SECONDS)]
    ended = subprocess.run(words, check=False, stderr=subprocess.DEVNULL)  # noqa: S603  # Python itself
    if ended.returncode == -signal.SIGALRM:  # Python cannot stop a search, but by ending its process
        raise ValueError(f"it is not found within {SEARCH_SECONDS:g} s")
    return ended.returncode == 0


def _whole(text: str, option: Given) -> int:
    match = re.match(r"\s*(-?[0-9]+)", text)
    if match and len(match[1]) > MAX_DIGITS:
        raise ConfigError(f"{option.where}: {option}: a number of {len(match[1])} digits is too large")
    return int(match[1]) if match else 0


def _operate(operator: str, left: str, right: str, option: Given) -> str:
    number_of = _OPERATORS[operator]
    return str(number_of(_whole(left, option), _whole(right, option))) if number_of is not None else left + right


_OPERATORS: dict[str, Callable[[int, int], int] | None] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // (b or 1),
    "++": None,  # concatenation
}


def found_by(pattern: str) -> list[str]:
    """
    Return the paths of a pattern as glob(3) has them: folders end with a slash; without a path, the pattern.

    Raises:
        ValueError: there is a NUL in the pattern.
    """
    found = sorted(itertools.islice(glob.iglob(pattern), MAX_OPTIONS))
    return [os.path.join(path, "") if os.path.isdir(path) else path for path in found] or [pattern]


def _found_by(pattern: str, option: Given) -> list[str]:
    try:
        return found_by(pattern)
    except ValueError as fault:  # a NUL in the path
        raise ConfigError(f"{option.where}: {option}: {fault}") from None


_LOOPS: dict[str, Callable[[str, Given], Iterable[str]]] = {
    "for": lambda text, option: text.split(),
    "for-glob": _found_by,
    "for-times": lambda text, option: (str(number) for number in range(1, _whole(text, option) + 1)),
    "for-readline": lambda path, option: _text_of(path, option).splitlines(),
}


def _end_of(options: list[Given], at: int, start: re.Pattern[str], ends: tuple[str, ...]) -> int:
    """Return the index of a block's end; here, unlike in uWSGI, blocks may be nested."""
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


def _text_of(path: str, option: Given) -> str:
    if path.startswith(_EXEC):  # the author of the file may run any code anyway
        words = ["/bin/sh", "-c", path[len(_EXEC) :]]
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)  # noqa: S603
        return os.fsdecode(ended.stdout)
    try:
        return read_text(_FD.sub("/dev/fd/", path))
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", fault)
        if "://" in path:  # uWSGI fetches a URL, or takes what was appended to its binary
            why = "here are files, fd:// and exec://, such as @(exec://curl -sf URL)"
        raise ConfigError(f"{option.where}: {option}: cannot read {path}: {why}") from None
