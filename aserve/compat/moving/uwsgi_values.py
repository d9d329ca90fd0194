"""Parses values of uWSGI's options.

Owns:     functions for the rows of uWSGI's table: numbers, switches, sockets, loggers and apps.
Thread:   any.
Not here: the translation of each option (uwsgi_table.py), rules over several options (uwsgi.py).

A long list: each function can be read alone.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
from typing import Callable
from urllib.parse import quote

from ...core.log_target import LOCAL_SYSLOG, SYSLOG
from ...settings.secrecy import HIDDEN
from .draft import Draft, Given, check, is_number
from .uwsgi_logic import found_by

OFF = ("false", "off", "no")  # in any case of letters; for a switch, 0 too
MAX_THREADS = 256  # Guess: in place of greenlets; a thread is started only when the others are busy
AREA_PAGE_BYTES = 4096  # of sharedarea
MAX_BACKLOG = 65535
MIN_HEAD_BYTES = 256
FOREGROUND = (
    "aserve stays in the foreground: systemd, a container or a supervisor starts it, or a script with & behind it"
)
EVERY_IPV4 = "0.0.0.0"  # without a host: `:8000` of ours would open the port of IPv6, too
MESSAGES = "messages go to standard error: redirect it where you start aserve; only lines of requests go elsewhere"
Take = Callable[[Draft, Given], None]


def is_on(given: Given) -> bool:
    """Whether a switch is on."""
    return str(given.value).strip().lower() not in (*OFF, "0")


def whole(given: Given, least: int = 0) -> int:
    """
    Parse a number as uWSGI does: ignore text after its digits, such as a comment.

    Raises:
        ValueError: the text does not begin with a number.
    """
    match = re.match(r"-?[0-9]+", str(given.value).strip())
    if not match:
        raise ValueError(f"{given.value!r} is not a whole number")
    if int(match[0]) < least:
        raise ValueError(f"{match[0]} is too small")
    return int(match[0])


def text_of(given: Given) -> str:
    """Return a value without the comment that many files have after it, which uWSGI would take for a part of it."""
    return re.split(r"\s+[;#]", str(given.value), maxsplit=1)[0].strip()


def number(key: str, least: int = 0, most: int | None = None, factor: int = 1) -> Take:
    """Return a function that puts a number into this setting of aserve, clamped to these bounds."""

    def take(draft: Draft, given: Given) -> None:
        if _is_no_number(draft, given):
            return
        value = whole(given) * factor
        bounded = max(least, value if most is None else min(value, most))
        if bounded != value:
            draft.note(given, f"{'less' if value < least else 'more'} than {key} may be; it is {bounded} here")
        draft.put(key, bounded, given)

    return take


def _is_no_number(draft: Draft, given: Given) -> bool:
    """Whether a value is a switch, empty, or a sum that uWSGI does not know, in which it sees no number; add a note."""
    value = str(given.value).strip()
    is_none = value.lower() in ("", "true", "on", "yes") or value.startswith("%(")
    if is_none:
        draft.note(given, "it has no effect, as it is no number, in uWSGI either")
    return is_none


def text(key: str) -> Take:
    """Return a function that puts a text into this setting."""

    def take(draft: Draft, given: Given) -> None:
        value = text_of(given)
        if key in _LISTS:
            draft.add(key, value, given)
        else:
            draft.put(key, value, given)

    return take


_LISTS = ("add-group", "env", "spooler", "spooler-import", "touch-reload", "uwsgi-farm")


def fact(name: str) -> Take:
    """Return a function that keeps an option for the end."""

    def take(draft: Draft, given: Given) -> None:
        draft.facts[name] = given

    return take


def count(name: str, least: int = 0) -> Take:
    """Return a function that keeps a number for the end."""

    def take(draft: Draft, given: Given) -> None:
        if not _is_no_number(draft, given):
            draft.facts[name] = whole(given, least)
            draft.facts[f"{name} given"] = given

    return take


def collect(name: str) -> Take:
    """Return a function that keeps each such option for the end."""

    def take(draft: Draft, given: Given) -> None:
        draft.facts.setdefault(name, []).append(given)

    return take


def switch(name: str) -> Take:
    """Return a function that keeps a switch for the end."""

    def take(draft: Draft, given: Given) -> None:
        draft.facts[name] = is_on(given)
        draft.facts[f"{name} given"] = given

    return take


# Sockets


def place_of(value: str, folder: str) -> str:
    """
    Return an address in the form of --bind; `folder`: for relative paths.

    Raises:
        ValueError: the address is a descriptor of the emperor, or the like.
    """
    value = re.sub(r"(:[0-9]+)[^]:0-9][^]:]*\Z", r"\1", value.replace(" ", ""))  # a port ends with its digits
    if re.match(r"fd://[0-9]+\Z", value):
        return f"fd:{value[5:]}"
    value = value[5:] if value.startswith("unix:") else value
    if value.startswith("@"):
        return f"unix:{value}"
    if is_number(value):
        return f"{EVERY_IPV4}:{value}"
    if ":" not in value or value.startswith(("/", "./")):
        return f"unix:{os.path.join(folder, value)}"
    return f"{EVERY_IPV4}{value[value.index(':') :]}" if value.startswith((":", "*:")) else value


def https_bind(value: str, folder: str) -> str:
    """
    Parse `address,certificate,key[,ciphers[,client CA]]`; return the bind.

    Raises:
        ValueError: a part is missing.
    """
    address, *parts = [part.strip() for part in value.split(",")]
    if len(parts) < 2:
        raise ValueError(f"{value!r} is not of the form ADDRESS,CERTIFICATE,KEY")
    names = ("certificate", "key", "ciphers", "client-ca")
    given = {name: part for name, part in zip(names, parts) if part}
    if "client-ca" in given:
        is_required = given["client-ca"].startswith("!")
        given["client-ca"] = given["client-ca"].lstrip("!")
        given["client-certificate"] = "required" if is_required else "optional"
    options = "&".join(f"{name}={quote(part, '/:=*@+;')}" for name, part in given.items())
    return f"https://{place_of(address, folder)}?{options}"


def take_chmod(draft: Draft, given: Given) -> None:
    """Take chmod-socket: a mode, or none, which means 666, as 1 does."""
    mode = text_of(given) if is_on(given) else ""
    draft.put("unix-mode", "666" if mode in ("", "1") else mode.lstrip("0").rjust(min(3, len(mode)), "0"), given)


def take_env(draft: Draft, given: Given) -> None:
    """Take env: NAME=VALUE; without an equals sign it sets nothing, as in uWSGI, so that a file of variables may have comments."""
    value = text_of(given)
    if "=" in value and not value.startswith("#"):
        draft.add("env", value, given)
    elif value and not value.startswith("#"):
        draft.note(given, "it sets no variable, as it is not of the form NAME=VALUE")


def take_umask(draft: Draft, given: Given) -> None:
    """
    Take umask: octal digits, as many as there are.

    Raises:
        ValueError: they are none.
    """
    mask = int(text_of(given), 8)
    draft.put("umask", f"{mask & 0o777:03o}", given)


def take_log_mode(draft: Draft, given: Given) -> None:
    """
    Take logfile-chmod: octal digits.

    Raises:
        ValueError: they are none.
    """
    draft.facts["logfile-chmod"] = int(text_of(given), 8)


def take_pid_file(draft: Draft, given: Given) -> None:
    """Take pidfile, pidfile2: there is one pid file."""
    if draft.settings.get("pid-file", text_of(given)) != text_of(given):
        draft.note(draft.whence["pid-file"][0], "it is not written: aserve has one pid file, the last that is named")
    draft.put("pid-file", text_of(given), given)


def take_chown(draft: Draft, given: Given) -> None:
    """Take chown-socket: user[:group]."""
    draft.facts["chown-socket"] = given
    user, _, group = text_of(given).partition(":")
    if user:
        draft.put("unix-owner", user, given)
    if group:
        draft.put("unix-group", group, given)


# Threads


def take_greenlets(draft: Draft, given: Given) -> None:
    """Take gevent, async: one thread for each greenlet, up to MAX_THREADS."""
    threads = max(1, min(whole(given), MAX_THREADS))
    draft.facts["greenlets"] = max(threads, draft.facts.get("greenlets", 0))
    draft.facts["greenlets given"] = given
    draft.note(
        given, f"threads = {threads} in its place: aserve runs the app in threads, and the app must not patch them"
    )


# Programs beside the workers

# Characters that need a shell; quotes do not.
_SHELL = re.compile(r"[$`|&;<>()*?\[~#\n]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_COMMANDS = ("cmd", "command", "exec")  # names in attach-daemon2


def take_attached(draft: Draft, given: Given) -> None:
    """Take attach-daemon and its like: a command, run by a shell only if it needs one."""
    command = str(given.value).strip()
    if given.key == "attach-daemon2":
        command = _command_of_pairs(draft, given)
    elif given.key.startswith("smart-"):
        command = command.partition(" ")[2].strip()  # after its pid file
        if given.key == "smart-attach-daemon":
            draft.note(
                given,
                "it must not make a daemon of itself, or it is started again and again; its pid file is not looked at",
            )
    if not command:
        raise ValueError("there is no command")
    if _SHELL.search(command):
        draft.note(given, "a shell runs it: begin its last command with exec, or SIGTERM ends the shell in its place")
        command = shlex.join(["sh", "-c", command])
    elif _VARIABLE.match(command):
        command = f"env {command}"
    draft.add("attach", command, given)


def _command_of_pairs(draft: Draft, given: Given) -> str:
    pairs = [pair.replace("\\,", ",").partition("=") for pair in re.split(r"(?<!\\),", str(given.value))]
    found = {name.strip(): value.strip() for name, _, value in pairs}
    # A part without a value is the rest of a command with a comma.
    others = [name.strip() if equals else HIDDEN for name, equals, _ in pairs if name.strip() not in _COMMANDS]
    if others:
        draft.note(given, f"these have no effect here: {', '.join(others)}")
    return next((found[name] for name in _COMMANDS if name in found), "")


def take_mule(draft: Draft, given: Given) -> None:
    """Take mule, with a program or without; and mules, a number of the latter."""
    value = text_of(given)
    if given.key == "mules":
        programs = ["-"] * whole(given, 1)
    else:
        programs = ["-" if value in ("", "1", "true") else value]
    for program in programs:
        draft.add("uwsgi-mule", program, given)


def take_area(draft: Draft, given: Given) -> None:
    """Take sharedarea: a number of pages, or size=OCTETS."""
    text = text_of(given)
    match = re.match(r"(?:pages=)?([0-9]+)\Z", text)
    if match:
        draft.add("uwsgi-sharedarea", str(int(match[1]) * AREA_PAGE_BYTES), given)
        return
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if "size" not in fields or {*fields} - {"size"}:
        draft.note(given, "it has no effect here: an area is memory, of a number of pages, and no file")
        return
    draft.add("uwsgi-sharedarea", fields["size"], given)


def take_metric(draft: Draft, given: Given) -> None:
    """Take metric: its name, or name=NAME and more."""
    text = text_of(given)
    fields = dict(part.partition("=")[::2] for part in text.split(",")) if "=" in text else {"name": text}
    others = {*fields} - {"name", "type", "oid"}
    if others:
        draft.note(given, f"{', '.join(sorted(others))}: a metric begins with 0, and the app sets it")
    draft.add("uwsgi-metric", fields.get("name", ""), given)


# The environment of Python


def take_python_path(draft: Draft, given: Given) -> None:
    """Take pythonpath: a folder, or a pattern of folders; the last comes first on sys.path, as there, and the app's folder behind all."""
    if "python-path" not in draft.settings:
        draft.add("python-path", ".", given)
    for path in found_by(text_of(given)):
        draft.add("python-path", path, given)
        paths = draft.settings["python-path"]
        paths.insert(0, paths.pop())


def put_virtualenv(draft: Draft, given: Given, folder: str) -> None:
    """Take home, virtualenv: its packages, if they are for this Python; `folder`: for relative paths."""
    folder = os.path.join(folder, os.path.expanduser(text_of(given)))
    if os.path.realpath(folder) == os.path.realpath(sys.prefix):
        return  # aserve runs in this one
    packages = sysconfig.get_path("purelib", vars={"base": folder, "platbase": folder})
    if os.path.isdir(packages):
        draft.add("python-path", packages, given)
    else:
        draft.note(
            given,
            f"there is no {packages}, so this environment is not for the Python that runs aserve; "
            "install aserve-wsgi into the environment, and start that aserve",
        )


# The cache

# cache2's names of aserve's fields; and names without an effect that the app could see.
CACHE_FIELDS = {
    "name": "name", "items": "items", "maxitems": "items", "max_items": "items", "blocksize": "blocksize",
    "keysize": "keysize", "key_size": "keysize", "purge_lru": "purge_lru",
}  # fmt: skip
CACHE_ALWAYS = [
    "blocks", "hash", "hashsize", "hash_size", "bitmap", "lazy_expire", "sweep_on_full", "last_modified", "use_last_modified",
    "ignore_full", "math_initial",
]  # fmt: skip


def take_cache(draft: Draft, given: Given) -> None:
    """Take cache2: name=sessions,items=1000."""
    ours, others = [], []
    for part in filter(None, text_of(given).split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key in CACHE_FIELDS:
            ours.append(f"{CACHE_FIELDS[key]}={value if equals else '1'}")
        elif key not in CACHE_ALWAYS:
            others.append(key)
    if others:
        draft.note(given, f"{', '.join(others)}: it is no file, and no other server's; it outlives reloads")
    draft.add("uwsgi-cache", ",".join(ours), given)


# Logs


def take_logger(draft: Draft, given: Given) -> None:
    """Take logger, req-logger: [name] plugin[:argument]; as in uWSGI, each has all lines."""
    value = text_of(given)
    if re.match(r"[^\s:]+ +\S", value):
        # uWSGI writes there only lines that a rule sends to that name.
        draft.note(given, "a logger with a name has only what log-route sends there, and log-route has no effect here")
        return
    kind, _, argument = value.partition(":")
    if kind == "file" and argument:
        # Its options: file:logfile=/x,maxsize=1
        match = re.search(r"logfile=([^,]+)", argument)
        target = match[1] if match else argument
    elif kind == "stdio":
        target = "-"
    elif kind == "syslog":
        target = "syslog:"
    elif kind == "rsyslog":
        place = argument.split(",")[0]
        target = f"syslog:udp://{place if ':' in place else f'{place}:514'}"
    else:
        draft.note(given, "lines go to a file, standard output or syslog: --access-log, --access-log-copy")
        return
    add_log(draft, "log" if given.key == "logger" else "request log", target, given)


def add_log(draft: Draft, name: str, target: str, given: Given) -> None:
    """Keep a place of lines for the end, once: all of them are written to; uWSGI starts without the machine's syslog, too."""
    if target == SYSLOG and not os.path.exists(LOCAL_SYSLOG):
        draft.note(given, f"there is no {LOCAL_SYSLOG}: lines of requests go to standard output")
        target = "-"
    draft.facts.setdefault(name, {}).setdefault(target, given)


def take_log_file(draft: Draft, given: Given) -> None:
    """Take logto, daemonize: a file for requests and messages."""
    target = text_of(given)
    if not is_on(given) or not target or "://" in target or target in ("true", "1"):
        if given.key.startswith("daemonize") and is_on(given):
            draft.note(given, FOREGROUND)
        return
    if re.match(r"[^/]*:[0-9]+\Z", target):
        target = f"syslog:udp://{target}"
    draft.facts["log file"] = {target: given}
    draft.note(given, f"{FOREGROUND}; {MESSAGES}" if given.key.startswith("daemonize") else MESSAGES)


def take_header(draft: Draft, given: Given) -> None:
    """Take add-header; a field that each response has of its own has no effect, but for Server."""
    value = text_of(given)
    name, _, server = value.partition(":")
    if name.strip().lower() == "server":
        draft.put("server-name", server.strip(), given)
        return
    try:
        check("add-field", [value])
    except ValueError as fault:
        draft.note(given, f"it has no effect here: {str(fault).rpartition('; accepted for')[0]}")
    else:
        draft.add("add-field", value, given)


def take_plugins(draft: Draft, given: Given) -> None:
    """Take plugins: Python and HTTP are built in, others do not exist."""
    names = [name.strip() for name in text_of(given).split(",")]
    known = re.compile(r"(0:)?(python[0-9._]*|http|corerouter|logfile|logsocket|syslog|rsyslog|nagios|ping|signal|)\Z")
    others = [os.path.basename(name) for name in names if not known.match(os.path.basename(name))]
    if others:
        draft.note(given, f"{', '.join(others)}: aserve has no plugins; Python and HTTP are always there")
