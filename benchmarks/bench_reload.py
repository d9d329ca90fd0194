"""Reloads, crashes and ends under load: which requests fail, how long others wait, which connections stay.

Use:      make bench-reload ARGS="..."; python benchmarks/bench_reload.py --help; README.md says how to read it.
Owns:     the flags; when what is done; the table and the file.
Not here: the events, and how each server is told (events.py); the clients (kept_load.c); see README.md's table.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import IO, Any

import command
import events
import procs
import record
import rounds
import servers
import tables
from events import Site, Way
from procs import BenchmarkError
from servers import Pair, Server

BENCH = "reload"
KEPT, FRESH, PAUSE_MS = 16, 4, 20  # clients, and how long each waits between a response and its next request
IMPORT_SECONDS, QUICK_IMPORT_SECONDS = 5.0, 1.0
BEFORE_SECONDS = 2.0  # of load, before it happens
START_SECONDS = 60.0  # Guess: much more than two imports
LAST_SECONDS = 40.0  # Guess: more than what is under way may take, at a client and at a server that ends
QUIET_SECONDS = 5.0


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    return command.run("bench_reload", measure, parse_args(argv), "cc")


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    names, kinds = [server.name for server in servers.RELOAD_SERVERS], list(events.EVENTS)
    what.add_argument(
        "--only", type=command.choice_of(*names), default=names, metavar="NAME,...", help=", ".join(names)
    )
    what.add_argument("--events", type=command.choice_of(*kinds), default=kinds, metavar="EVENT,...",
        help=", ".join(kinds))  # fmt: skip
    what.add_argument("--import-seconds", type=command.positive(float), metavar="SECONDS",
        help=f"that the app takes to be imported ({IMPORT_SECONDS:g})")  # fmt: skip
    command.add_place_flags(parser)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    chosen = servers.choose(pair, args.only, bench=BENCH)
    import_seconds = args.import_seconds or (QUICK_IMPORT_SECONDS if args.quick else IMPORT_SECONDS)
    rows = []
    with tempfile.TemporaryDirectory(prefix="aserve-bench-") as folder:
        program = rounds.compile_program("kept_load", folder)
        if not program:
            raise BenchmarkError("there is no C compiler (cc) for the client, kept_load.c")
        for event in args.events:
            for server in chosen:
                rows.append(Run(pair, server, event, import_seconds, program).row())
                print(tables.event_line(rows[-1]), file=sys.stderr, flush=True)
    document = describe(pair, chosen, import_seconds, rows)
    print(tables.events_table(document))
    command.write_document(BENCH, args, pair, document)
    return int(any(row["server"] == "aserve" and row["note"].startswith(FAILED) for row in rows))


FAILED = "not measured: "


class Run:
    """One event at one server, which is started for it."""

    def __init__(self, pair: Pair, server: Server, event: str, import_seconds: float, program: str) -> None:
        self._pair = pair
        self._server = server
        self._event = event
        self._import_seconds = import_seconds
        self._program = program
        self._cpus = procs.choose_cpus()

    def row(self) -> dict[str, Any]:
        """Let it happen; return what was counted, or why nothing was."""
        head = {"event": self._event, "server": self._server.name}
        way = events.WAYS[self._server.name].get(self._event)
        if way is None:
            return {**head, "note": "not available"}
        if self._pair.version(self._server) is None:
            return {**head, "note": f"{FAILED}{self._server.package} is not installed"}
        try:
            with self._serving(way) as site:
                return {**head, **self._happen(site, way), "note": way.note}
        except BenchmarkError as fault:
            return {**head, "note": f"{FAILED}{fault}"}

    @contextlib.contextmanager
    def _serving(self, way: Way) -> Iterator[Site]:
        """Run the server until all its workers serve, and the block is over."""
        with tempfile.TemporaryDirectory() as home, open(f"{home}/output", "w+b") as output:
            port = procs.free_port()
            values = {
                **servers.places(self._pair),
                "port": str(port),
                "home": home,
            }
            words = servers.build_command(self._server, values)
            words += [word.format_map(values) for word in shlex.split(way.flags)]
            env = {**procs.environment(home, home), "IMPORT_SECONDS": f"{self._import_seconds:g}"}
            Site(0, port, pathlib.Path(home)).deploy(events.FIRST)
            pathlib.Path(home, "touched").touch()
            with procs.running(words, self._cpus[0], env, home, output) as process:
                site = Site(process.pid, port, pathlib.Path(home))
                self._wait_for_start(site, process, output)
                yield site

    def _wait_for_start(self, site: Site, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        procs.wait_until(lambda: process.poll() is not None or site.ask() == events.FIRST, START_SECONDS)
        if process.poll() is not None or site.ask() != events.FIRST:
            output.seek(0)
            text = " ".join(output.read().decode(errors="replace").split())
            raise BenchmarkError(f"it did not start: {text[-300:]}")
        time.sleep(self._import_seconds + 1)  # the other worker may begin when the first serves

    def _happen(self, site: Site, way: Way) -> dict[str, Any]:
        """Load the server, let it happen, and wait until it should be over."""
        target = "/slow" if self._event == "end" else "/"
        words = [self._program, str(site.port), str(KEPT), str(FRESH), str(PAUSE_MS), target]
        client = subprocess.Popen(["taskset", "-c", str(self._cpus[1]), *words], stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(BEFORE_SECONDS)
            if events.EVENTS[self._event]:
                site.deploy(events.EVENTS[self._event])
            if self._event == "end":
                client.terminate()  # it begins no more, and waits for what is under way
            way.act(site)
            if self._event != "end":
                time.sleep(self._window_seconds(way))
                client.terminate()
            text, _ = client.communicate(timeout=LAST_SECONDS)
        except subprocess.TimeoutExpired:
            raise BenchmarkError("the client has not ended")
        finally:
            client.kill()
            client.wait()
        after = "" if self._event == "end" else self._look_afterwards(site)
        return {**parse(text), "after": after}

    def _window_seconds(self, way: Way) -> float:
        """Return for how long it is watched: two workers, one after another, and as much again for what else they do."""
        if self._event == "nothing":
            return QUIET_SECONDS
        return 3 * self._import_seconds + QUIET_SECONDS + way.extra_seconds

    def _look_afterwards(self, site: Site) -> str:
        """Return which versions answer now."""
        seen = {site.ask() or "none" for _ in range(20)}
        return " and ".join(sorted(seen))


def parse(text: str) -> dict[str, Any]:
    """
    Return the figures of kept_load's line.

    Raises:
        BenchmarkError: it is not one.
    """
    words = text.split()
    if words[:1] != ["good"]:
        raise BenchmarkError("the client: " + " ".join(words)[-300:])
    numbers = {name: int(value) for name, value in zip(words[::2], words[1::2])}
    for name in ("worst", "gap"):
        numbers[f"{name}_ms"] = round(numbers.pop(f"{name}_us") / 1000)
    return numbers


def describe(pair: Pair, chosen: list[Server], import_seconds: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept."""
    return {
        **record.describe_run(BENCH),
        "aserve_python": servers.without_folders(pair.aserve_facts),
        "peer_python": servers.without_folders(pair.peer_facts),
        "import_seconds": import_seconds,
        "clients": {"kept": KEPT, "fresh": FRESH, "pause_ms": PAUSE_MS},
        "servers": {
            server.name: {
                "command": server.command,
                "note": server.note,
                "version": pair.version(server),
                "flags": {event: way.flags for event, way in events.WAYS[server.name].items() if way.flags},
            }
            for server in chosen
        },
        "descriptions": events.DESCRIPTIONS,
        "events": rows,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
