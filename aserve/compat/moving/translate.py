"""`aserve translate FILE`: prints another server's settings as a TOML file for aserve.

Owns:     the command, and the form of the file.
Thread:   the main thread.
Not here: the translation of a setting (uwsgi.py, gunicorn.py), variables in it (kept_variables.py), reading TOML (settings/toml.py).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NoReturn

from ...core.errors import FAILED
from ...settings import ConfigError
from .draft import BY_KEY, Draft, Given, Note
from .gunicorn import load_gunicorn
from .kept_variables import keep_variables
from .lines import LINES
from .naming import FORMS, is_uwsgi_file, split_section
from .uwsgi import load_uwsgi
from .uwsgi_files import read_text

COMMAND = "translate"
DESCRIPTION = """\
Print the settings of another server as a TOML file for aserve --config, with a
comment for each that has no effect, and what to do instead.  FILE is uWSGI's
(.ini, .xml, .yaml, .json; app.ini:section) or gunicorn's (.py); or in its
place a whole command line, such as uwsgi -M -p 4 -w app, or gunicorn -w 4 app.
UWSGI_ variables, or GUNICORN_CMD_ARGS, are read, too.  What the file takes from
another variable is one of the TOML file, too: "0.0.0.0:${env:PORT}"."""

CPUS = re.compile(r"cpu_count\(|sched_getaffinity\(|%k\b")  # the last in a file of uWSGI's
# By a setting's key: what it is for, where its name and its origin do not say it.
MEANINGS = {"argv": "sys.argv of the app: without this line it is aserve's, which most apps do not look at"}
_AT_BEGIN = "a function with @aserve.post_fork; see `aserve docs preload`"
IN_THE_APP = {
    "pre_fork": _AT_BEGIN, "post_fork": _AT_BEGIN, "post_worker_init": _AT_BEGIN, "worker_exit": "atexit.register",
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see aserve {COMMAND} --help")


def run_translate(argv: Sequence[str], environ: MutableMapping[str, str]) -> int:
    """
    Print a translation to standard output; return the exit status. `environ`: the process's own.

    Raises:
        ConfigError: the file cannot be read, or a value is wrong.
        LoadError: a configuration of gunicorn has raised.
    """
    parser = _Parser(
        prog=f"aserve {COMMAND}", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", metavar="FILE", help="what uWSGI or gunicorn reads, or its command line")
    line = argv[1:2] and LINES.get(argv[1])
    words = list(argv[1:]) if line else [parser.parse_args(argv[1:]).file]

    def load(variables: Mapping[str, str]) -> Draft:
        with (
            _variables_of(environ, variables),
            contextlib.redirect_stdout(sys.stderr),
        ):  # a file of gunicorn's may print
            return _load_line(words[0], words[1:], environ) if line else _load(words[0], environ)

    text = "\n".join(map(_text_of, words))
    draft = keep_variables(load, text, dict(environ))
    _note_cpus(draft, text)
    sys.stdout.write(as_toml(draft))
    for guard in draft.guards:
        sys.stderr.write(f"aserve {COMMAND}: {_shown(str(guard))}\n")
    return FAILED if draft.guards else 0


def _note_cpus(draft: Draft, text: str) -> None:
    """Add to a draft that its number of workers, which the file computes from the CPUs, is of the machine that translates."""
    workers = draft.settings.get("workers")
    if (isinstance(workers, int) or ":-" in str(workers)) and CPUS.search(
        text
    ):  # a number, or the default of a variable
        for given in draft.whence["workers"]:
            draft.note(
                given, 'if it follows the CPUs: workers here is the number of this machine; "auto" is one for each CPU'
            )


@contextlib.contextmanager
def _variables_of(environ: MutableMapping[str, str], variables: Mapping[str, str]) -> Iterator[None]:
    """Let the environment have these variables meanwhile: a file of gunicorn's reads them itself."""
    before = dict(environ)
    _set(environ, variables)
    try:
        yield
    finally:
        _set(environ, before)


def _set(environ: MutableMapping[str, str], variables: Mapping[str, str]) -> None:
    for name in environ.keys() - variables.keys():
        del environ[name]
    environ.update({name: value for name, value in variables.items() if environ.get(name) != value})


def _text_of(word: str) -> str:
    """Return the text of a file; of any other word itself."""
    with contextlib.suppress(OSError, ValueError):
        return read_text(split_section(word)[0] if not os.path.exists(word) else word)
    return word


def _load_line(server: str, words: Sequence[str], environ: Mapping[str, str]) -> Draft:
    return load_uwsgi("", environ, words) if server == "uwsgi" else load_gunicorn("", environ, words)[0]


def _load(path: str, environ: Mapping[str, str]) -> Draft:
    if path.endswith(".py") or path.startswith(("python:", "file:")):
        return load_gunicorn(path, environ)[0]
    plain = path if os.path.exists(path) else split_section(path)[0]
    if is_uwsgi_file(path) or os.path.splitext(plain)[1].lower() in FORMS:
        return load_uwsgi(path, environ)
    raise ConfigError(
        f"{path}: its name says neither uWSGI (.ini, .xml, .yaml, .json) nor gunicorn (.py); rename it, "
        f"as to {path}.ini; for gunicorn this works, too: aserve {COMMAND} gunicorn -c {path}"
    )


def as_toml(draft: Draft) -> str:
    """Return a draft as the text of a TOML file, with the origin of each line, and the settings without effect."""
    start = "aserve --config THIS_FILE" if draft.app is not None else "aserve --config THIS_FILE module:app"
    lines = [f"# From {_shown(draft.name)}, by aserve {COMMAND}. Start it with: {start}", ""]
    if draft.guards:
        lines += ["# It keeps requests from the app there, and is NOT in this file:"]
        lines += [*(f"#   {_shown(str(note))}" for note in draft.guards), ""]
    if draft.app is not None:
        lines += [f"# {_whence(draft.app_whence)}"] if draft.app_whence is not None else []
        lines.append(f"app = {_value(draft.app)}")
    for key, value in draft.settings.items():
        lines += [f"# {text}" for text in dict.fromkeys(_whence(given) for given in draft.whence[key])]
        lines += [f"# {MEANINGS[key]}"] if key in MEANINGS else []
        lines.append(f"{key} = {_value(_native(key, value))}")
    notes = sorted((note for note in draft.notes if note not in draft.guards), key=Note.place)
    if notes:
        lines += ["", "# What differs, or has no effect:"]
        lines += [f"#   {_shown(str(note))}" for note in notes]
    lines += _about_hooks(draft.facts.get("hooks", ()))
    done = [step.given.key for step in draft.facts.get("steps", ())] + [
        given.key for given in draft.facts.get("imports", ())
    ]
    if done:
        lines += ["", f"# Done with --uwsgi-ini, or `aserve uwsgi`, only: {', '.join(dict.fromkeys(done))}"]
    if "logs" in draft.facts:
        lines += [
            "",
            "# gunicorn's loggers (errorlog, syslog, logconfig_*, logger_class) are set up with --gunicorn-conf, or `aserve gunicorn`, only",
        ]
    return "\n".join(lines) + "\n"


def _about_hooks(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    instead = [f"#   {name}: in the app, {IN_THE_APP[name]}" for name in names if name in IN_THE_APP]
    return ["", f"# Hooks are called with --gunicorn-conf, or `aserve gunicorn`, only: {', '.join(names)}", *instead]


def _whence(given: Given) -> str:
    return _shown(f"{given.where}: {given}" if given.where else str(given))


def _native(key: str, value: Any) -> Any:
    return list(value) if BY_KEY[key].is_list and not isinstance(value, str) else value


def _shown(text: str) -> str:
    """Return a text on one line, for a comment."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    # A basic string of TOML is a string of JSON, but for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)
