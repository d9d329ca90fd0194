"""The commands that ask a running server: aserve status, reload, recycle, workers, balancers, stacks; the server's address, for `aserve top` too.

Owns:     their arguments, the question and the printed answer, the exit status.
Thread:   the main thread; blocking.
Not here: the socket's other end (lifecycle/control.py), the answers (processes/monitoring/questions.py, answers.py), the screen of `aserve top` (top_screen.py).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import operator
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NoReturn

from ...connections.health import WISHES
from ...connections.monitoring.stacks import ORDER
from ...core.json_text import read_object
from ...lifecycle.standard_streams import discard_output
from ...settings import ConfigError, read_toml, show_bytes
from ...settings.peer import SO_PEERCRED
from .settings import running

# Exit status: the server has refused, or reports a fault. (No answer at all is a usage error.)
REFUSED = 1
ENDED = "the server ended, or was upgraded, before it answered"
RIGHTS = "ask as root or as the server's user"
NO_ANSWER = "what answers there is not aserve's control socket; give --control as the server was given it"
TOP = "top"
# A command that gets nothing for this time asks whether any question is answered, and gives up after the same time again: 5 s in all.
PATIENCE_SECONDS = 2.5
SILENT_SECONDS = 5  # since an event loop last turned, from which on it is shown
COLUMNS = (
    "worker", "pid", "state", "for", "requests", "running", "waiting", "busy", "open", "memory", "oldest request",
)  # fmt: skip


CERTIFICATE_COLUMNS = ("certificate", "until", "renewed on", "last order")
ATTACHED_COLUMNS = ("attached", "pid", "state", "for", "restarts", "memory", "last end", "command")


def run_command(argv: Sequence[str], environ: Mapping[str, str], watch: Callable[[str], int]) -> int:
    """
    Ask a running server, print its answer; return the exit status: 0 done, 1 refused, or requests are not served that should be.

    `watch` is called with the path of the socket for `aserve top`.

    Raises:
        ConfigError: no server is named, or none answers there.
    """
    args = _parse(argv)
    path = args.control or environ.get("ASERVE_CONTROL") or _from_file(args.config)
    path = path or _only_one(args.command)
    if args.command == TOP:
        return watch(path)
    question, show = _COMMANDS[args.command]
    try:
        status = show(args, _ask(path, question(args)))
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return REFUSED
    return status


def _only_one(command: str) -> str:
    found = list(running())
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"aserve {command}: which server? Give --control PATH, {len(found)} run here: {', '.join(found)}"
        )
    raise ConfigError(
        f"aserve {command}: no running server was found; {RIGHTS}, or give --control PATH, as the server was given it"
    )


def _ask(path: str, question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with _call(path, question) as sock:
        yield from _read(sock, path)


def _call(path: str, question: dict[str, Any]) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE_SECONDS)
    try:
        sock.connect(path)
        sock.sendall(json.dumps(question).encode() + b"\n")
    except OSError as exc:
        sock.close()
        cure = RIGHTS if isinstance(exc, PermissionError) else "is it running, with --control?"
        raise ConfigError(f"no server answers at {path!r} ({exc.strerror}); {cure}") from None
    return sock


def _read(sock: socket.socket, path: str) -> Iterator[dict[str, Any]]:
    """Yield the server's answer, line by line; if the answer is missing or cut off, an error at the end."""
    rest, is_whole = b"", False
    try:
        while octets := _receive(sock, path):
            *lines, rest = (rest + octets).split(b"\n")
            is_whole = not rest
            yield from map(read_object, lines)
    except ConfigError:
        raise
    except OSError:  # it was reset
        is_whole = False
    except ValueError:
        yield {"error": NO_ANSWER}
        return
    if not is_whole:
        yield {"error": ENDED}


def _receive(sock: socket.socket, path: str) -> bytes:
    """Return the next octets; b"": there are no more. An answer may take long, as that to a reload, while other callers get theirs."""
    while True:
        with contextlib.suppress(socket.timeout):
            return sock.recv(1 << 16)
        with _call(path, {"ask": "anything"}) as other:
            try:
                other.recv(1)
            except socket.timeout:
                raise ConfigError(f"{_name(sock)} does not answer: is it stopped, or does it hang?") from None


def _name(sock: socket.socket) -> str:
    if SO_PEERCRED is None:
        return "the supervisor"
    pid = sock.getsockopt(socket.SOL_SOCKET, SO_PEERCRED, 4)  # unix(7), struct ucred: the pid comes first
    return f"the supervisor (pid {int.from_bytes(pid, sys.byteorder)})"


# Questions, and showing their answers


def _show_each(
    show: Callable[[dict[str, Any]], str], args: argparse.Namespace, answer: Iterator[dict[str, Any]]
) -> int:
    for message in answer:
        if "error" in message:
            return _fail(message)
        sys.stdout.write(show(message) + "\n")
    return 0


def _show_status(args: argparse.Namespace, answer: Iterator[dict[str, Any]]) -> int:
    server, *others = answer
    for message in (server, *others[-1:]):  # refused, or cut off
        if "error" in message:
            return _fail(message)
    workers, warnings = [message["worker"] for message in others], server.get("warnings", [])  # older code has none
    if args.json:
        sys.stdout.write(json.dumps({**server, "workers": workers}, indent=1) + "\n")
    else:
        sys.stdout.write(f"aserve {server['version']} on {server['python']}, pid {server['pid']}: {server['text']}\n")
        sys.stdout.write(f"running for {show_age(server['seconds'])}\n\n")
        sys.stdout.write(_table([COLUMNS, *map(_row_of, workers)]))
        if server.get("attached"):
            sys.stdout.write("\n" + _table([ATTACHED_COLUMNS, *map(_row_of_attached, server["attached"])]))
        if server.get("jobs"):
            waiting, ended = server["jobs"]["waiting"], server["jobs"]["ended"]
            text = f"{sum(waiting.values())} waiting; " if waiting else ""
            sys.stdout.write(f"\njobs: {text}{', '.join(f'{count} {name}' for name, count in ended.items())}\n")
        if server.get("certificates"):
            sys.stdout.write("\n" + _table([CERTIFICATE_COLUMNS, *map(_row_of_certificate, server["certificates"])]))
        sys.stdout.write(_show_warnings(warnings))
    is_short = server["workers_ready"] < server["workers_wanted"]
    return REFUSED if is_short or any(warning["is_failure"] for warning in warnings) else 0


def _show_warnings(warnings: list[dict[str, Any]]) -> str:
    lines = (f"- {warning['text']}\n  {warning['do']}\n" for warning in warnings)
    return f"\nneeds a look:\n{''.join(lines)}" if warnings else ""


def _row_of(worker: dict[str, Any]) -> tuple[str, ...]:
    oldest = f"{worker['at'][0][1]} ({worker['at'][0][0]:g} s)" if worker["at"] else "-"
    state = worker["state"]
    if is_silent(worker):
        state += f", silent for {worker['silent_seconds']:.0f} s"
    return (
        str(worker["slot"] or "-"), str(worker["pid"] or "-"), state, show_age(worker["seconds"]),
        *(str(worker[name]) for name in ("requests", "running", "waiting")), f"{worker['threads_busy']:.4g}", show_open(worker),
        show_memory(worker), oldest,
    )  # fmt: skip


def _row_of_attached(program: dict[str, Any]) -> tuple[str, ...]:
    age = show_age(program["seconds"]) if program["pid"] else "-"
    return (
        program["name"], str(program["pid"] or "-"), program["state"], age, str(program["restarts"]), show_memory(program),
        program["last_end"] or "-", f"{program.get('when', '')} {program['command']}".strip(),
    )  # fmt: skip


def _row_of_certificate(one: dict[str, Any]) -> tuple[str, ...]:
    last = f"failed, again at {one['again']}" if one["fault"] else "done" if one["until"] else "-"
    return one["name"], one["until"] or "a placeholder", one["renewed_on"] or "-", last


def is_silent(worker: dict[str, Any]) -> bool:
    """Whether a worker serves, and its event loop has not turned for too long."""
    return worker["state"] in ("ready", "draining") and (worker["silent_seconds"] or 0) > SILENT_SECONDS


def show_open(worker: dict[str, Any]) -> str:
    """Return how many connections a worker has, and how many of these are WebSockets."""
    websockets = worker.get("websockets")  # older code does not have it
    return f"{worker['connections']} ({websockets} ws)" if websockets else str(worker["connections"])


def show_memory(worker: dict[str, Any]) -> str:
    """Return the memory that a worker does not share."""
    memory = worker["uss_bytes"] or worker["rss_bytes"]
    return show_bytes(memory >> 20 << 20) if memory else "-"


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def show_stacks(message: dict[str, Any]) -> str:
    """Return the stacks of one process, with its name above."""
    name = message.get("name") or (f"worker {message['worker']}" if message["worker"] else "")
    process = f"{name} (pid {message['pid']})" if name else f"pid {message['pid']}"
    return f"--- {process}; {ORDER}\n{message['text']}"


def _fail(message: dict[str, Any]) -> int:
    sys.stderr.write(f"aserve: error: {message['error']}\n")
    return REFUSED


def show_age(seconds: float) -> str:
    """Return a duration in readable form: "42 s", "3 min 20 s", "5 h 2 min", "12 d 3 h"."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (parts and len(parts) < 2):
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def _change(text: str) -> dict[str, int]:
    """Parse the argument of `aserve workers`: a count, or a change."""
    if not re.fullmatch(r"[+-]?[0-9]{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a change, such as +1")
    return {"change" if text[0] in "+-" else "count": int(text)}


_Show = Callable[[argparse.Namespace, "Iterator[dict[str, Any]]"], int]
_show_text: _Show = functools.partial(_show_each, operator.itemgetter("text"))
_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], dict[str, Any]], _Show]] = {
    "status": (lambda args: {"ask": "status"}, _show_status),
    "reload": (lambda args: {"ask": "reload"}, _show_text),
    "recycle": (lambda args: {"ask": "recycle", "worker": args.worker}, _show_text),
    "workers": (lambda args: {"ask": "workers", **args.count}, _show_text),
    "balancers": (lambda args: {"ask": "balancers", "wish": args.wish}, _show_text),
    "stacks": (lambda args: {"ask": "stacks", "worker": args.worker}, functools.partial(_show_each, show_stacks)),
}


# Arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    whom = _Parser(add_help=False)
    whom.add_argument(
        "--control",
        metavar="PATH",
        help="the server's control socket (default: $ASERVE_CONTROL, or that of the only server that runs)",
    )
    whom.add_argument("--config", metavar="FILE", help="TOML file of the server's settings, which names the socket")
    parser = _Parser(prog="aserve")
    parsers = parser.add_subparsers(dest="command", parser_class=_Parser)
    status = parsers.add_parser("status", parents=[whom], help="the state of a running server and its workers")
    status.add_argument("--json", action="store_true", help="for programs")
    parsers.add_parser(TOP, parents=[whom], help="the same, and the oldest requests, in the terminal, each second anew")
    parsers.add_parser("reload", parents=[whom], help="replace all workers; return when that is done, or has failed")
    recycle = parsers.add_parser("recycle", parents=[whom], help="replace one worker, when its successor serves")
    recycle.add_argument("worker", type=int, help="its number, as aserve status shows it")
    workers = parsers.add_parser("workers", parents=[whom], help="have more workers, or fewer")
    workers.add_argument("count", type=_change, metavar="COUNT", help="how many: 4, +1 or -1")
    balancers = parsers.add_parser("balancers", parents=[whom], help="tell balancers to send requests here, or not")
    balancers.add_argument("wish", choices=WISHES, help="drain: no new clients; maint: no requests; ready: all again")
    stacks = parsers.add_parser("stacks", parents=[whom], help="the stack of each thread, with its request")
    stacks.add_argument("worker", type=int, nargs="?", help="of this worker only")
    return parser.parse_args(argv)


def _from_file(path: str | None) -> str | None:
    """Return the socket that a TOML file of settings names, if any."""
    if path is None and not os.path.isfile("pyproject.toml"):
        return None
    control = read_toml(path or "pyproject.toml").get("control")
    return control if isinstance(control, str) else None
