"""Keeps variables of the environment as variables in a translation: `http = :$(PORT)` becomes bind = [":${env:PORT}"].

Owns:     keep_variables; names_in, the variables that a file names.
Thread:   the main thread.
Not here: the form of a variable in a settings file (settings/variables.py), reading the other server's file (uwsgi.py, gunicorn.py).

A file is not taken apart: gunicorn's is code, and a value of uWSGI's goes through conditions and rules. It is loaded with two sets of sample
values, and where a setting follows the samples, it is written as a text with the variable. What depends on a variable in another way (a
number that is doubled, a condition) has the value that it has here and now, and a note says so. A text of the file in the form of such a variable stays that text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...lifecycle.load_error import LoadError
from ...settings import ConfigError
from ...settings.variables import escape, expand, variable
from .draft import Draft, Given

Load = Callable[[Mapping[str, str]], Draft]
# What a variable may be: a number, which is a port, too; a path; a word; an address. Each with two samples, of a prime number.
NUMBER, PATH, WORD, ADDRESS = "{}", "/x{}", "x{}", "x{}:80"
ADDRESSES = re.compile("(?i)bind|listen|addr")  # in names of variables
PATHS = "dir|path|home|venv|virtualenv|file|pid|log|static"  # in names of options
PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127)
MOST = len(PRIMES) // 2  # variables
_NAME = re.compile(r"""\$\(([A-Za-z_]\w*)\)|(?:environ\.get\(|environ\[|getenv\()\s*["']([A-Za-z_]\w*)["']""")


def names_in(text: str) -> list[str]:
    """Return the names of variables in a file of uWSGI's or gunicorn's, in their order."""
    return list(dict.fromkeys(match[1] or match[2] for match in _NAME.finditer(text)))


def keep_variables(load: Load, text: str, environ: Mapping[str, str]) -> Draft:
    """
    Load a file, and put variables into the settings that follow them; `text`: the file's.

    Raises:
        ConfigError, LoadError: the file cannot be loaded, neither with the variables as they are nor with samples.
    """
    names = names_in(text)[:MOST]
    kinds = _choose_kinds(load, {name: _kinds_of(name, text, environ) for name in names}, environ)
    first, second = (_samples(names, kinds, at) for at in (0, 1))
    one, other = (_load(load, {**environ, **samples}) for samples in (first, second))
    here = _load(load, environ)
    if not isinstance(one, Draft) or not isinstance(other, Draft):
        if isinstance(here, Draft):
            return here
        raise here
    draft = here if isinstance(here, Draft) else _shown(one, first)
    for key in [key for key in draft.settings if key in one.settings and key in other.settings]:
        kept = _template(one.settings[key], first)
        if kept != one.settings[key] and kept == _template(other.settings[key], second):
            text = _with_defaults(kept, key, load, names, {**environ, **first})
            is_set_here = all(name in environ for name in names if variable(name) in str(kept))
            draft.settings[key] = text or (kept if is_set_here else draft.settings[key])
        if one.settings[key] != other.settings[key] and "${" not in str(draft.settings[key]):
            _note(draft, key, [name for name in names if _depends(key, name, load, {**environ, **first}, second)])
    app = _template(one.app, first)
    if app != one.app and app == _template(other.app, second):
        draft.app = app
    return draft


def _depends(key: str, name: str, load: Load, environ: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether a setting has another value with another sample of this variable alone."""
    one, other = _load(load, environ), _load(load, {**environ, name: others[name]})
    return isinstance(one, Draft) and isinstance(other, Draft) and one.settings[key] != other.settings.get(key)


def _note(draft: Draft, key: str, names: Sequence[str]) -> None:
    """Add to a draft that one of its settings has lost these variables."""
    for given in draft.whence[key]:
        draft.note(given, f"it follows {' and '.join(names)}, but {key} here has the value of this moment")


def _shown(draft: Draft, samples: Mapping[str, str]) -> Draft:
    """Return a copy of a draft whose texts for the user have no samples; its settings still have them."""
    found = copy.copy(draft)

    def shown(given: Given) -> Given:
        return given._replace(value=_template(given.value, samples))

    found.settings = dict(draft.settings)
    found.whence = {key: list(map(shown, each)) for key, each in draft.whence.items()}
    found.app_whence = shown(draft.app_whence) if draft.app_whence is not None else None
    found.notes = [
        note._replace(said=_template(note.said, samples), text=_template(note.text, samples)) for note in draft.notes
    ]
    return found


def _kinds_of(name: str, text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the kinds to try, the likely one first: that of its value here, or a path where the value of a file or folder begins with it."""
    value = environ.get(name)
    begins = rf"(?m)(=\s*\$\({name}\)/|^\s*[\w-]*({PATHS})[\w-]*\s*=\s*\$\({name}\))"
    is_path = value.startswith("/") if value is not None else re.search(begins, text) is not None
    kinds = (PATH, NUMBER, WORD) if is_path else (NUMBER, WORD, PATH)
    return (ADDRESS, *kinds) if ADDRESSES.search(name) else kinds


def _samples(names: Sequence[str], kinds: Mapping[str, str], at: int) -> dict[str, str]:
    return {name: kinds[name].format(PRIMES[2 * index + at]) for index, name in enumerate(names)}


def _choose_kinds(load: Load, kinds: Mapping[str, Sequence[str]], environ: Mapping[str, str]) -> dict[str, str]:
    """Return for each variable the first kind with which the file has the fewest mistakes."""
    names, chosen = list(kinds), {name: each[0] for name, each in kinds.items()}
    fewest = _count_mistakes(load, {**environ, **_samples(names, chosen, 0)})
    for name, others in kinds.items():
        for kind in others[1:] if fewest else ():
            count = _count_mistakes(load, {**environ, **_samples(names, {**chosen, name: kind}, 0)})
            if count < fewest:
                chosen[name], fewest = kind, count
    return chosen


def _count_mistakes(load: Load, environ: Mapping[str, str]) -> int:
    found = _load(load, environ)
    return 0 if isinstance(found, Draft) else len(str(found).splitlines())


def _load(load: Load, environ: Mapping[str, str]) -> Draft | ConfigError | LoadError:
    try:
        draft = load(environ)
    except (ConfigError, LoadError) as fault:
        return fault
    draft.settings = {key: _escaped(value) for key, value in draft.settings.items()}
    draft.app = _escaped(draft.app)
    return draft


def _escaped(value: Any) -> Any:
    """Return a value whose texts are in the form of a settings file."""
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return escape(value) if isinstance(value, str) else value


def _template(value: Any, samples: Mapping[str, str]) -> Any:
    """Return a value with variables in the place of their samples."""
    if isinstance(value, (list, tuple)):
        return [_template(item, samples) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return next((variable(name) for name, sample in samples.items() if sample == f"{value:g}"), value)
    if isinstance(value, str):
        for name, sample in samples.items():
            value = value.replace(sample, variable(name))
    return value


def _with_defaults(template: Any, key: str, load: Load, names: Sequence[str], samples: Mapping[str, str]) -> Any:
    """
    Return a text with the defaults that the file has for its variables; None: without one of them the value has another form, as by a condition.

    $(NAME) is not replaced by uWSGI where NAME is not set; that is a value only for a variable of the app's.
    """
    for name in names:
        others = {each: value for each, value in samples.items() if each != name}
        without = _load(load, others)
        value = without.settings.get(key) if isinstance(without, Draft) else None
        if value is None or (key != "env" and f"$({name})" in str(value)):
            continue
        template = _filled(template, name, _template(value, {each: samples[each] for each in names if each != name}))
        try:
            if expand({key: template}, others, "")[key] != expand({key: _text_of(value)}, {}, "")[key]:
                return None
        except ConfigError:
            return None
    return template


def _text_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return list(map(_text_of, value))
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _filled(template: Any, name: str, value: Any) -> Any:
    if isinstance(template, list) and isinstance(value, list) and len(template) == len(value):
        return [_filled(one, name, other) for one, other in zip(template, value)]
    if not isinstance(template, str) or template.count(variable(name)) != 1 or isinstance(value, (list, bool)):
        return template
    before, after = template.split(variable(name))
    text = _text_of(value)
    is_within = text.startswith(before) and text.endswith(after) and len(text) >= len(before) + len(after)
    default = text[len(before) : len(text) - len(after)]
    is_known = is_within and "}" not in default
    return f"{before}{variable(name, default)}{after}" if is_known else template
