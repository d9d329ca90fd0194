"""Turns a configuration of uWSGI into settings of aserve.

Owns:     load_uwsgi: its sources in their order, rules over several options, uWSGI's own defaults, and the value of `uwsgi.opt`.
Thread:   any.
Not here: the translation of each option (uwsgi_table.py), files, command line and placeholders (uwsgi_files.py, uwsgi_arguments.py, uwsgi_logic.py).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...lifecycle.loading import PASTE
from .draft import Draft, Given, is_number, refusing
from .log_formats import UWSGI_LINES
from .naming import split_section
from .unix_rights import OWNERS, present_umask, put_rights
from .uwsgi_arguments import WHERE, read_arguments
from .uwsgi_cron import add_cron
from .uwsgi_files import read_options
from .uwsgi_hooks import AT_END, UwsgiHooks, put_folder
from .uwsgi_imports import UwsgiImports
from .uwsgi_log_files import UwsgiLogFiles
from .uwsgi_logic import from_variables, include, resolve
from .uwsgi_routes import add_routes
from .uwsgi_static import place_files
from .uwsgi_table import TABLE
from .uwsgi_values import MESSAGES, OFF, add_log, https_bind, place_of, put_virtualenv, text_of, whole

PROTOCOLS = {"http": "", "http11": "", "uwsgi": "uwsgi://", "suwsgi": "uwsgi://", "scgi": "scgi://"}
EMPEROR = "aserve starts no servers: start one for each file that is named there, as by a unit aserve@.service of systemd; see `aserve docs moving-from-uwsgi`"
# What is said of options beside `cheaper`.
UNLIKE_CHEAPER = {
    "cheaper-initial": "as many as `cheaper` says start, and more while all are busy",
    "cheaper-algo": "workers are added while all are busy, and end after a calm minute, as with the algorithm spare",
    "cheaper-rss-limit-soft": "memory does not limit the number of workers: lower `processes`",
    "cheaper-rss-limit-hard": "memory does not limit the number of workers: lower `processes`",
}
SUPERVISED = (
    "attach", "cron", "spooler", "uwsgi-mule", "max-requests", "max-lifetime", "max-rss", "touch-reload", "master-fifo",
)  # fmt: skip


def load_uwsgi(text: str, environ: Mapping[str, str], words: Sequence[str] | None = None) -> Draft:
    """
    Read `app.ini`, or `app.ini:section`, and UWSGI_ variables; an empty text: only the latter. `words`: a command line in its place.

    Raises:
        ConfigError: a file cannot be read, or a value is wrong.
    """
    path, section = (text, "") if os.path.exists(text) else split_section(text)
    options = from_variables(environ)
    if text:
        options += include(read_options(path, section), environ, path)
    draft = Draft(text or "UWSGI_ variables")
    if words is not None:
        draft.name = WHERE
        arguments = read_arguments(words)
        draft.mistakes += arguments.mistakes
        options = include([*options, *arguments.options], environ, "")
    resolved = resolve(options, environ)
    for option in resolved:
        with draft.gathering():
            _take(draft, option, options)
    _tell_families(draft)
    with draft.gathering():
        _finish(draft)
    _refuse_emperors(draft)
    draft.raise_mistakes()
    draft.facts["options"] = _told_to_apps(resolved)
    return draft


def _take(draft: Draft, option: Given, options: list[Given]) -> None:
    key = option.key
    if not key.startswith(("-", "%")) and option.value == "" and ":" in key and TABLE.find(key.split(":")[0].strip()):
        key, _, value = (part.strip() for part in key.partition(":"))
        hidden = option._replace(is_secret=True)
        option = Given(key, value, option.where, is_secret=True)
        draft.note(hidden, f"uWSGI wants an equals sign there, and so has no {key}; here it is {option}")
    row = TABLE.find(key) or TABLE.find(key.replace("_", "-"))
    if row is not None:
        is_off = option.value.strip().lower() in OFF or (row.is_told and option.value.strip() == "0")
        if is_off and row.names[0] not in ("master", "disable-logging"):
            return
        if row.is_told:
            draft.facts.setdefault("told", {}).setdefault(row.names[0], (row, []))[1].append(
                option._replace(is_secret=True)
            )
        else:
            draft.take(row, option)
    elif not any(f"%({key}" in other.value or f" {key})" in other.value for other in options):
        # A name that a placeholder refers to is the file's own variable.
        name, space, _ = key.partition(" ")
        near, text = TABLE.nearest(key), "aserve does not know it, and it has no effect"
        if space and TABLE.find(name):
            option, text = option._replace(key=name, value=""), "an equals sign is missing, and so it has no effect"
        draft.note(option._replace(is_secret=True), text + (f"; is {near} meant?" if near else ""))


def _tell_families(draft: Draft) -> None:
    """Note what has no effect, in one line for options that have the same thing instead."""
    for row, options in draft.facts.get("told", {}).values():
        first, keys = options[0], [*dict.fromkeys(option.key for option in options)]
        if len(options) == 1:
            draft.note(first, f"it has no effect here: {row.text}")
        else:
            draft.note(first._replace(key=", ".join(keys), value=""), f"these have no effect here: {row.text}")


def _refuse_emperors(draft: Draft) -> None:
    """Say what to do about a file that only names others, each with an app."""
    _, options = draft.facts.get("told", {}).get("emperor*", (None, ()))
    if draft.app is None and options:
        given = next((option for option in options if option.key == "emperor"), options[0])
        draft.mistakes.append(f"{given.where}: {given}: {EMPEROR}")


def _finish(draft: Draft) -> None:
    facts = draft.facts
    folder = put_folder(draft)
    _place_sockets(draft, folder)
    _place_others(draft, folder)
    _set_rights(draft)
    if "virtualenv" in facts:
        put_virtualenv(draft, facts["virtualenv"], folder)
    if "touch-reload" in draft.settings:
        draft.settings["touch-reload"] = [os.path.join(folder, path) for path in draft.settings["touch-reload"]]
    _find_app(draft, folder)
    place_files(draft, folder)
    for given in facts.get("cron", ()):
        with refusing(given):
            add_cron(draft, given, facts.get("cron-harakiri", 0))
    _count_workers(draft)
    _set_limits(draft)
    add_routes(draft, facts.get("routes", []))
    _set_logs(draft)
    _add_items(draft, "cache", draft.add)
    _add_items(draft, "queue", draft.put)
    _extend(draft)
    draft.default("uwsgi-module", "on", "the app may import uwsgi")
    _set_environ(draft)


def _place_sockets(draft: Draft, folder: str) -> None:
    facts = draft.facts
    protocol = text_of(facts["protocol"]).lower() if "protocol" in facts else "uwsgi"
    shared = [text_of(given) for given in facts.get("shared", ())]
    for given in facts.get("socket", ()):
        kind = given.key.partition("-")[0] if given.key not in ("socket", "httprouter") else protocol
        kind = "http" if given.key == "httprouter" else kind
        value = text_of(given)
        index = re.match(r"=([0-9]+)(?=,|\Z)", value)
        if index and int(index[1]) < len(shared):
            value = shared[int(index[1])] + value[index.end() :]
        with draft.gathering(), refusing(given):
            if kind == "https":
                _bind(draft, https_bind(value, folder), given)
            elif kind in PROTOCOLS:
                address = value.split(",")[0] if given.key.startswith("http") else value
                _bind(draft, f"{PROTOCOLS[kind]}{place_of(address, folder)}", given)
            else:
                draft.note(given, f"aserve does not speak {kind}")


def _place_others(draft: Draft, folder: str) -> None:
    """Put the stats server, whose file has the mode of `chmod-socket`, too, and the fifo."""
    facts = draft.facts
    if "fifo" in facts and text_of(facts["fifo"]):
        draft.put("master-fifo", os.path.join(folder, text_of(facts["fifo"])), facts["fifo"])
    if "stats" in facts and text_of(facts["stats"]):
        scheme = "http://" if "stats-http" in facts else ""
        draft.put("stats", scheme + place_of(text_of(facts["stats"]), folder), facts["stats"])
        if "unix-mode" in draft.settings:
            draft.put("metrics-mode", draft.settings["unix-mode"], draft.whence["unix-mode"][0])


def _bind(draft: Draft, place: str, given: Given) -> None:
    """Add a place to listen at, once: a loop without an end has some twice."""
    if place not in draft.settings.get("bind", ()):
        draft.add("bind", place, given)


def _set_rights(draft: Draft) -> None:
    """Give sockets the rights that uWSGI's have: it binds as `uid` and `gid`, unless these have to wait."""
    facts, settings = draft.facts, draft.settings
    if "umask" in settings:
        mask, whence = int(settings["umask"], 8), draft.whence["umask"][0]
    else:
        mask, whence = present_umask(), Given("uWSGI's default: 777 without the process's umask", "", "")
    is_root = facts.get("binds as root") or "chown-socket" in facts
    put_rights(draft, mask, whence, {} if is_root else OWNERS)


def _find_app(draft: Draft, folder: str) -> None:
    facts = draft.facts
    mounts = facts.get("mount", [])
    callable_name = text_of(facts["callable"]) if "callable" in facts else "application"
    given = facts.get("module") or facts.get("wsgi-file")
    if "module" in facts and "wsgi-file" in facts:
        # uWSGI takes the module, and the file if the module cannot be imported or lacks the name; here the choice is made before either runs.
        is_there = os.path.exists(os.path.join(folder, text_of(facts["wsgi-file"])))
        given = facts["wsgi-file" if is_there else "module"]
        draft.note(given, "of module and wsgi-file it is this one that is served; leave the other out")
    if given is not None:
        draft.app = _spec_of(text_of(given), callable_name, given.key in ("wsgi-file", "file"))
        if "/" in text_of(given).partition(":")[0]:
            # uWSGI has its current folder on sys.path; aserve, for a file, the file's folder.
            draft.add("python-path", ".", given)
    if "paste" in facts and given is None:
        given = facts["paste"]
        place = text_of(given)
        draft.app = place if place.startswith(PASTE) else f"{PASTE}{os.path.join(folder, place)}"
    draft.app_whence = given
    for each in mounts:
        path, _, app = text_of(each).partition("=")
        spec = _spec_of(app, callable_name, app.endswith((".py", ".wsgi")))
        if path.strip("/"):
            draft.add("mount", f"/{path.strip('/')}={spec}", each)
        elif draft.app is None:
            draft.app, draft.app_whence = spec, each
        else:
            draft.note(each, f"the app for all other paths is {draft.app} already")
    if draft.app is None and mounts and not facts.get("no default app"):
        # uWSGI's first app is that of all paths that no other has.
        draft.app, draft.app_whence = draft.settings["mount"][0].partition("=")[2], mounts[0]


def _spec_of(value: str, callable_name: str, is_file: bool) -> str:
    where, colon, name = value.partition(":")
    if is_file and not where.endswith(".py") and "/" not in where:
        where = f"./{where}"
    return f"{where}:{name if colon else callable_name}"


def _count_workers(draft: Draft) -> None:
    facts = draft.facts
    if "processes" in facts:
        draft.put("workers", facts["processes"], facts["processes given"])
    elif facts.get("master"):
        draft.put("workers", 1, facts["master given"])
    for key in SUPERVISED:
        if draft.settings.get(key) and "workers" not in draft.settings:
            draft.default("workers", 1, f"{key} needs a supervisor")
    if any(step.moment == AT_END for step in facts.get("steps", ())):
        draft.default("workers", 1, f"hook-{AT_END} needs a supervisor")
    workers = int(draft.settings.get("workers", 1))
    if workers > 1 and not facts.get("lazy") and sys.platform == "linux":
        draft.default(
            "preload", True, "uWSGI imports the app once, before it forks workers, unless lazy-apps says otherwise"
        )
    _set_cheaper(draft, workers)
    for name, key, base in (
        ("max-requests-delta", "max-requests-jitter", "max-requests"),
        ("max-worker-lifetime-delta", "max-lifetime-jitter", "max-lifetime"),
    ):
        if facts.get(name) and draft.settings.get(base):
            draft.put(key, facts[name] * workers, facts[f"{name} given"])
    if sys.platform != "linux":
        for key in ("workers", "max-workers", "max-requests-jitter", "max-lifetime-jitter", *SUPERVISED):
            draft.drop(key, "worker processes need Linux; one process serves")
    if "greenlets" in facts and facts["greenlets"] > draft.settings.get("threads", 0):
        draft.put("threads", facts["greenlets"], facts["greenlets given"])
    draft.default("threads", 1, "uWSGI's default; raise it where the app bears that")


def _set_cheaper(draft: Draft, workers: int) -> None:
    """Begin with fewer workers than there may be, as uWSGI does where `cheaper` is given."""
    given = {each.key: each for each in draft.facts.get("cheaper", ())}
    least = given.pop("cheaper", None)
    if least is None or not is_number(text_of(least)) or not 0 < whole(least) < workers:
        return
    draft.put("max-workers", workers, draft.facts["processes given"])
    draft.put("workers", whole(least), least)
    for key, each in given.items():
        if text_of(each) != (text_of(least) if key == "cheaper-initial" else "spare"):
            draft.note(each, UNLIKE_CHEAPER[key])


def _set_limits(draft: Draft) -> None:
    settings, facts = draft.settings, draft.facts
    if "max-head" in settings:
        # In uWSGI one limit is for both.
        draft.put("max-request-line", settings["max-head"], draft.whence["max-head"][0])
    if settings.get("max-body") == 0:
        draft.drop("max-body", "0 is no limit there; here it is the default, --max-body")
    for name, most in (("socket-timeout", None), ("http-timeout", 60)):
        if facts.get(name) and (most is None or facts[name] < most):
            for key in ("body-timeout", "write-timeout"):
                draft.put(key, facts[name], facts[f"{name} given"])
    seconds = facts.get("http-keepalive")
    if seconds is not None and is_number(text_of(seconds)) and whole(seconds) > 1:  # 1 only switches it on
        draft.put("keep-alive", whole(seconds), seconds)
    expect = facts.get("http-manage-expect")
    if expect is not None and is_number(text_of(expect)) and whole(expect) > 1:
        draft.note(expect, "no limit is of requests with Expect alone: `--max-body` is one for each body")
    if facts.get("log-x-forwarded-for"):
        draft.note(
            facts["log-x-forwarded-for given"], "name your proxies: --trusted-proxies; see `aserve docs proxies`"
        )


def _set_logs(draft: Draft) -> None:
    facts = draft.facts
    if "syslog" in facts:
        add_log(draft, "log", "syslog:", facts["syslog"])
    _tell_messages(draft)
    places = facts.get("request log") or facts.get("log") or facts.get("log file", {})
    kinds = [digit for digit in "45" if facts.get(f"log-{digit}xx")]
    if facts.get("disable-logging") and not kinds:
        draft.settings.pop("access-log-format", None)
        return
    if places:
        chmod = facts.get("logfile-chmod") if places is facts.get("log file") else None
        facts["log files"] = UwsgiLogFiles(chmod)
    for target, given in places.items():
        if target == next(iter(places)):
            draft.put("access-log", target, given)
        else:
            draft.add("access-log-copy", target, given)
    if not places:
        draft.default("access-log", "-", "uWSGI writes a line for each request, unless disable-logging says otherwise")
    if facts.get("memory-report") and "access-log-format" not in draft.settings:
        draft.note(
            facts["memory-report given"],
            "lines of requests are without the memory of the process; `aserve top` shows it",
        )
    draft.default("access-log-format", UWSGI_LINES, "uWSGI's own form of a line, without log-format")
    if facts.get("disable-logging"):
        for digit in "12345":
            if digit not in kinds:
                draft.add("access-log-skip", f"* {digit}xx", facts["disable-logging given"])


def _tell_messages(draft: Draft) -> None:
    """Note that messages stay on standard error, in one line for all loggers."""
    places = {target: given for target, given in draft.facts.get("log", {}).items() if target != "-"}
    if places:
        first, keys = next(iter(places.values())), [*dict.fromkeys(given.key for given in places.values())]
        draft.note(first if len(places) == 1 else first._replace(key=", ".join(keys), value=""), MESSAGES)


def _extend(draft: Draft) -> None:
    """Name the extensions that this file needs."""
    facts = draft.facts
    found: list[Any] = []
    if "steps" in facts:
        found.append(UwsgiHooks(facts["steps"], bool(facts.get("lazy"))))
    if "log files" in facts:
        found.append(facts["log files"])
    if "imports" in facts:
        found.append(UwsgiImports([given._replace(value=text_of(given)) for given in facts["imports"]]))
    facts["extensions"] = found


def _add_items(draft: Draft, key: str, add: Callable[[str, object, Given], None]) -> None:
    """Add the cache of uWSGI's old form, cache = 1000, cache-blocksize = 4096; or the queue, of the same form."""
    given = {each.key: each for each in draft.facts.get(key, ())}
    if key in given:
        size = f",blocksize={whole(given[f'{key}-blocksize'], 1)}" if f"{key}-blocksize" in given else ""
        with refusing(given[key]):
            add(f"uwsgi-{key}", f"items={whole(given[key], 1)}{size}", given[key])


def _set_environ(draft: Draft) -> None:
    """Let the app find in sys.argv and in its environ what uWSGI gives it."""
    given = draft.facts.get("pyargv")
    words = str(given.value).split() if given is not None else []
    draft.put("argv", ["uwsgi", *words], given or Given("uWSGI's name", "", ""))
    draft.default(
        "environ-as", "uwsgi", "X-Forwarded-* reach the app as they come, and X-Forwarded-Proto is the scheme"
    )


def _told_to_apps(options: list[Given]) -> dict[str, Any]:
    """
    Return the file's options for `uwsgi.opt`: bytes, True for an option without a value, a list for a repeated one.

    uwsgi_api/module.py overrides the options that monitoring agents check.
    """
    told: dict[str, Any] = {}
    for option in options:
        value: Any = os.fsencode(option.value) if option.value else True
        if option.key in told:
            before = told[option.key]
            value = [*before, value] if isinstance(before, list) else [before, value]
        told[option.key] = value
    return told
