"""What wrk, ab, h2load, close_load, mixed_load, chaos_client and strace print, as figures.

Figures:  `n` and `rps` count good answers only. An answer with another status is an error, and so is
          whatever did not come to its end.
Not here: running them (clients.py).
"""

from __future__ import annotations

import json
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


def parse_h2load(output: str) -> Row:
    """
    Return the figures in h2load's report, which has no percentiles.

    Raises:
        BenchmarkError: it is not one.
    """
    seconds = re.search(r"^finished in ([\d.]+)(us|ms|s|m),", output, re.MULTILINE)
    found = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout\nstatus codes: (\d+) 2xx", output)
    if not seconds or not found:
        raise BenchmarkError("h2load: " + " ".join(output.split())[-300:])
    *bad, good = map(int, found.groups())
    errors = {kind: count for kind, count in zip(("failed", "errored", "timeout"), bad) if count}
    return {
        "n": good, "rps": good * 1000 / (float(seconds[1]) * UNITS_MS[seconds[2]]), "errors": errors, "p50_ms": None, "p99_ms": None,
    }  # fmt: skip


def parse_ab(output: str, percentiles: str) -> Row:
    """
    Return the figures in ab's report; percentiles: the file that its flag -e has written, of "50,1.234" lines in ms.

    Raises:
        BenchmarkError: it is not one.
    """
    complete, rps = (
        re.search(rf"^{name}:\s+([\d.]+)", output, re.MULTILINE)
        for name in ("Complete requests", "Requests per second")
    )
    if not complete or not rps:
        raise BenchmarkError("ab: " + " ".join(output.split())[-300:])
    kinds = {"connect": r"Connect: (\d+)", "read": r"Receive: (\d+)", "wrong": r"Length: (\d+)", "other": r"Exceptions: (\d+)",
             "status": r"^Non-2xx responses:\s+(\d+)"}  # fmt: skip
    found = {kind: re.search(pattern, output, re.MULTILINE) for kind, pattern in kinds.items()}
    errors = {kind: int(match[1]) for kind, match in found.items() if match and int(match[1])}
    total = int(complete[1])
    # Those that it does not count as failed have another length, or another status; one may be both.
    good = total - min(
        total, max(errors.get("status", 0), sum(errors.get(kind, 0) for kind in ("read", "wrong", "other")))
    )
    row: Row = {"n": good, "rps": float(rps[1]) * good / total if total else 0.0, "errors": errors}
    transfer = re.search(r"^Transfer rate:\s+([\d.]+)", output, re.MULTILINE)
    row["kb_per_s"] = float(transfer[1]) if transfer else None
    times = dict(re.findall(r"^(\d+),([\d.]+)$", percentiles, re.MULTILINE))
    for percent in (50, 99):
        row[f"p{percent}_ms"] = float(times[str(percent)]) if str(percent) in times else None
    return row


def parse_chaos(output: str) -> Row:
    """
    Return the figures in the JSON of chaos_client.py.

    Raises:
        BenchmarkError: it is none.
    """
    try:
        seen = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise BenchmarkError("chaos_client: " + " ".join(output.split())[-300:])
    errors = {kind: seen[kind] for kind in ("lost", "wrong", "crossed", "doubled") if seen[kind]}
    return {
        "n": seen["right"],
        "rps": seen["rps"],
        "p50_ms": seen["p50_ms"],
        "p99_ms": seen["p99_ms"],
        "errors": errors,
    }


def parse_strace(table: str) -> dict[str, int]:
    """Return the number of calls by name, of the table that `strace -c` writes."""
    # % time, seconds, usecs/call, calls, errors or nothing, name
    rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z]\w*)$", table, re.MULTILINE)
    return {name: int(count) for count, name in rows if name != "total"}


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
