"""What is kept of a measurement: the figures of every round, on what, of what, in JSON.

Owns:     the form of the files in results/, their names, the description of the machine.
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

import rounds
import servers
from rounds import Result

FORMAT = 1  # of the file; a change of meaning raises it
RESULTS = servers.HERE / "results"


def describe_machine() -> dict[str, Any]:
    """Return what of the machine bears on speed."""
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


def short_name(machine: dict[str, Any]) -> str:
    """Return a few words for a file name, such as 2-core-amd-epyc."""
    text = re.sub(r"\((r|tm)\)|@.*|\b(cpu|processor|\d+-core)\b", " ", machine["cpu"].lower())
    words = re.findall(r"[a-z0-9]+", text)[:3]
    return "-".join([f"{machine['cores']}-core", *words])


def default_path(machine_name: str | None) -> pathlib.Path:
    """Return where the results of today on this machine belong."""
    name = machine_name or short_name(describe_machine())
    return RESULTS / f"{datetime.date.today().isoformat()}-{name}.json"


def save(path: pathlib.Path, results: list[Result], base: str | None, judged: list[dict[str, Any]]) -> None:
    """Write everything, as a whole or not at all."""
    document = {
        "format": FORMAT,
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "commit": _commit(),
        "wrk": _wrk_version(),
        "targets": judged,
        "sets": [_describe(result, base) for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(document, indent=1) + "\n")
    new.replace(path)


def _describe(result: Result, base: str | None) -> dict[str, Any]:
    plan = result.plan
    names = [server.name for server in plan.servers] + [rounds.BARE] * plan.with_bare
    measured = [name for name in names if name not in result.left_out]
    return {
        "title": plan.title,
        "app": plan.app,
        "has_browser_fields": plan.has_browser_fields,
        "is_close": plan.is_close,
        "seconds": plan.seconds,
        "warm_up_seconds": plan.warm_up_seconds,
        "rounds": plan.rounds,
        "aserve_python": plan.pair.aserve_facts,
        "peer_python": plan.pair.peer_facts,
        "commands": {server.name: server.command for server in plan.servers},
        "left_out": result.left_out,
        "warnings": rounds.warnings(result),
        "base": base,
        "medians": {
            name: {str(count): _medians(result, name, base, count) for count in plan.connections} for name in measured
        },
        "each_round": [
            {name: {str(count): row for count, row in rows.items()} for name, rows in each.items()}
            for each in result.rounds
        ],
    }


def _medians(result: Result, name: str, base: str | None, connections: int) -> dict[str, Any]:
    medians: dict[str, Any] = {column: result.median(name, connections, column) for column in rounds.COLUMNS}
    medians["ratio"] = result.ratio(name, base, connections) if base else None
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
    text = subprocess.run(["wrk", "-v"], capture_output=True, text=True, timeout=30, check=False).stdout
    match = re.match(r"wrk (\S+)", text)
    return match[1] if match else ""


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""
