"""What is kept of a measurement: the figures of every round, on what, of what, in JSON.

Owns:     the form of the files in results/, their names, the description of the machine. One row a line:
          a difference between two runs can be read.
Rules:    nothing in a file names a host, a user or a folder of theirs.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
from typing import Any

import nginx
import pages
import servers
import tls
from figures import COLUMNS, Result, base_of

FORMAT = 2  # of the file; a change of meaning raises it
RESULTS = servers.HERE / "results"


def describe_machine() -> dict[str, Any]:
    """Return the properties of the machine that matter for speed."""
    cpu = re.search(r"^model name\s*:\s*(.*)", _read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo"), re.MULTILINE)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.MULTILINE)
    return {
        "cores": os.cpu_count(),
        "cpu": cpu[1] if cpu else platform.machine(),
        "is_virtual": bool(re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.MULTILINE)),
        "memory_gib": round(int(memory[1]) / 1024 / 1024, 1) if memory else None,
        "kernel": platform.release(),
        "system": system[1] if system else platform.system(),
    }


def default_path(bench: str, interpreter: str) -> pathlib.Path:
    """Return where the results of a command on an interpreter belong: the newest in the place of the last."""
    return RESULTS / f"{bench}-{interpreter}.json"


def save(path: pathlib.Path, bench: str, results: dict[str, tuple[Result, str]], judged: list[dict[str, Any]]) -> None:
    """Write everything; results: of each set, by its name, and its base."""
    write(path, document(bench, results, judged))


def document(bench: str, results: dict[str, tuple[Result, str]], judged: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a file's content; results: of each set, by its name, and its base."""
    sets = {name: describe(result, base) for name, (result, base) in results.items()}
    return {**describe_run(bench), "targets": judged, "sets": sets}


def describe_run(bench: str) -> dict[str, Any]:
    """Return how every file begins: what was run, when, where, of what."""
    return {
        "format": FORMAT,
        "bench": bench,
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "commit": _commit(),
        "tools": {"wrk": _wrk_version(), "nginx": nginx.version(), "openssl": tls.version()},
    }


def write(path: pathlib.Path, document: dict[str, Any]) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(format_json(document) + "\n")
    new.replace(path)
    if path.parent == RESULTS:
        pages.write()


def format_json(value: Any, indent: str = "") -> str:
    """Return JSON with each row of figures on a line of its own."""
    has_rows = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    if _height(value) <= (2 if indent else 0) and not has_rows:
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(str(key))}: {format_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + format_json(item, inner) for item in value) + f"\n{indent}]"


def _height(value: Any) -> int:
    """How deep lists and objects are nested: a row of figures is one, with a table of its errors two."""
    if not isinstance(value, (dict, list)):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_height, items), default=0)


def describe(result: Result, base: str) -> dict[str, Any]:
    """Return a set's settings and figures."""
    plan = result.plan
    kinds = {server.name: plan.pair.is_pypy_for(server) for server in plan.servers}
    return {
        "title": plan.title,
        "app": plan.app,
        "way": plan.way,
        "source": plan.source,
        "has_browser_fields": plan.has_browser_fields,
        "seconds": plan.seconds,
        "rounds": plan.rounds,
        "aserve_python": servers.without_folders(plan.pair.aserve_facts),
        "peer_python": servers.without_folders(plan.pair.peer_facts),
        "servers": {
            server.name: {
                "command": re.sub(r"(?<!\S)/\S*/(?=[^/\s])", "", server.command),  # what is called, and not where it is
                "note": server.note,
                "version": plan.pair.version(server),
                "warm_up_seconds": [plan.warm_up(kinds[server.name], is_first) for is_first in (True, False)],
            }
            for server in plan.servers
        },
        "left_out": result.left_out,
        "warnings": result.warnings(),
        "base": base,
        "figure": plan.figure,
        "medians": {
            name: {str(count): _medians(result, name, base_of(name, base), count) for count in plan.connections}
            for name in plan.names
            if name not in result.left_out
        },
        "each_round": [
            {name: {str(count): row for count, row in rows.items()} for name, rows in each.items()}
            for each in result.rounds
        ],
    }


def _medians(result: Result, name: str, base: str, connections: int) -> dict[str, Any]:
    medians: dict[str, Any] = {column: result.median(name, connections, column) for column in COLUMNS}
    medians["ratio"] = result.ratio(name, base, connections)
    medians["errors"] = result.errors(name, connections)
    return medians


def _commit() -> str:
    """Return which commit was measured, with + when the tree differs from it; empty: unknown."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=servers.ROOT, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _wrk_version() -> str:
    # Without arguments it says its version and its usage, and fails.
    try:
        text = subprocess.run(["wrk", "-v"], capture_output=True, text=True, timeout=30, check=False).stdout
    except OSError:
        return ""
    match = re.match(r"wrk (\S+)", text)
    return match[1] if match else ""


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""
