"""Where a server is, some thousand times a second: perf, by the part of the machine whose code runs.

Owns:     which program or library belongs to which part; perf's words, and what it prints.
Figures:  shares of the samples of the server's whole process tree. perf adds some per cent to what it looks at, most to the kernel.
Not here: the load meanwhile (rounds.py), what is made of the shares (bench_shares.py).
"""

from __future__ import annotations

import collections
import re
import signal
import subprocess
import time
from typing import Any

import procs
from procs import BenchmarkError

HERTZ = 1997  # no divisor of what else ticks
HOTTEST = 3
ATTACH_SECONDS = 0.5  # Guess: perf says nowhere that it has begun
END_SECONDS = 60.0
# The first that is found in a name; the rest is a server's own code.
PARTS = (
    ("kernel", re.compile(r"^\[(?!vdso|JIT)|\.ko$")),
    ("cffi", re.compile(r"^_cffi_backend")),
    (
        "Python",
        re.compile(r"^(lib)?(python|pypy)|^(libc|libm|ld-linux|libpthread|libdl|libstdc)[-.]|^\[(vdso|JIT)|^//anon"),
    ),  # what a JIT has made, too
)
OWN = "own C"
NAMES = ("kernel", "Python", OWN, "cffi")


class Samples:
    """Samples of one process tree, while they are taken."""

    def __init__(self, pid: int, home: str) -> None:
        """Begin. `home`: a folder for what perf writes."""
        self._path = f"{home}/samples"
        pids = ",".join(map(str, procs.tree(pid)))
        words = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-o", self._path, "-p", pids]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(ATTACH_SECONDS)

    def end(self) -> dict[str, Any]:
        """
        End; return {"shares": by part, of 1, "hottest": the functions that most samples are in}.

        Raises:
            BenchmarkError: perf has seen nothing.
        """
        self._process.send_signal(signal.SIGINT)
        self._process.wait(END_SECONDS)
        words = ["perf", "report", "-i", self._path, "--stdio", "--sort", "dso,sym", "-F", "sample", "-t", "|"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=END_SECONDS, check=False)
        return summary(done.stdout)


def summary(report: str) -> dict[str, Any]:
    """
    Return what `Samples.end` does, from perf's report.

    Raises:
        BenchmarkError: no sample is in it.
    """
    found = re.findall(r"^\s*(\d+)\s*\|(.*?)\|\s*\[.\]\s*(.*?)\s*$", report, re.MULTILINE)
    total = sum(int(count) for count, *_ in found)
    if not total:
        raise BenchmarkError("perf has seen nothing of the server")
    counts, functions = collections.Counter(dict.fromkeys(NAMES, 0)), collections.Counter[str]()
    for count, place, function in found:
        counts[part_of(place.strip())] += int(count)
        functions[function] += int(count)
    return {
        "samples": total,
        "shares": {name: round(count / total, 4) for name, count in counts.items()},
        "hottest": {name: round(count / total, 4) for name, count in functions.most_common(HOTTEST)},
    }


def part_of(place: str) -> str:
    """Return the part that a program, a library or the kernel belongs to."""
    return next((name for name, pattern in PARTS if pattern.search(place)), OWN)
