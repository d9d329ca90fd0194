"""What wrk, close_load and mixed_load print, as figures.

Figures:  `n` and `rps` count good answers only. An answer with another status is an error, and so is
          whatever did not come to its end.
Not here: running them (clients.py).
"""

from __future__ import annotations

import re

from figures import Row
from procs import BenchmarkError

UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def parse_wrk(output: str) -> Row:
    """
    Return the figures in wrk's report.

    Raises:
        BenchmarkError: it is not one.
    """
    match = re.search(r"(\d+) requests in ", output)
    rps = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if not match or not rps:
        raise BenchmarkError("wrk: " + " ".join(output.split())[-300:])
    socket_errors = re.search(r"Socket errors: (.*)", output)
    counts = re.findall(r"(\w+) (\d+)", socket_errors[1]) if socket_errors else []
    counts += [("status", count) for count in re.findall(r"Non-2xx or 3xx responses: (\d+)", output)]
    errors = {kind: int(count) for kind, count in counts if int(count)}
    # wrk counts those with another status among the requests.
    total = int(match[1])
    good = total - errors.get("status", 0)
    row: Row = {"n": good, "rps": float(rps[1]) * good / total if total else 0.0, "errors": errors}
    for percent in (50, 99):
        found = re.search(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)$", output, re.MULTILINE)
        row[f"p{percent}_ms"] = float(found[1]) * UNITS_MS[found[2]] if found else None
    return row


def parse_close_load(output: str) -> Row:
    """
    Return the figures in the report of close_load, or of mixed_load.

    Raises:
        BenchmarkError: it is not one.
    """
    words = output.split()
    if words[:1] != ["good"]:
        raise BenchmarkError("the client: " + " ".join(words)[-300:])
    numbers = {name: float(value) for name, value in zip(words[::2], words[1::2])}
    kinds = ("connect", "reset", "wrong", "timeout")
    return {
        "n": int(numbers["good"]),
        "rps": numbers["good"] / numbers["seconds"],
        "p50_ms": numbers["p50_us"] / 1000,
        "p99_ms": numbers["p99_us"] / 1000,
        "errors": {kind: int(numbers[kind]) for kind in kinds if numbers[kind]},
    }
