"""Servers side by side over HTTP on one WSGI app, in turn, each round a fresh server.

Use:      make bench ARGS="..."; python benchmarks/bench_serve.py --help; README.md says how to read it.
Owns:     the flags.
Not here: what is measured and when (rounds.py), the servers (servers.py), the targets (targets.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import socket
import sys
import tempfile
import threading
from typing import Any

import procs
import record
import rounds
import servers
import targets
from procs import BenchmarkError
from rounds import Plan
from servers import Pair

# Measured 2026-11-21, hello on PyPy: 33,000 requests per CPU second after 1 s, 55,000 after 3 and after 10.
WARM_UP_SECONDS = {False: 1.0, True: 5.0}  # by whether it is PyPy
APPS = ["hello", "echo", "cpu", "fib36", "sleepy", "blob", "blobfile", "testapp"]


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    args = parse_args(argv)
    procs.exit_on_signals()
    try:
        procs.need_tools("wrk", "taskset")
        if args.self_test:
            return self_test(args)
        return run_targets(args) if args.targets else run_one(args)
    except BenchmarkError as fault:
        print(f"bench_serve: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; every server was stopped", file=sys.stderr)
        return 130


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument("--app", choices=APPS, default="hello", help="an app of apps.py (hello)")
    what.add_argument("--connections", type=_counts, default=(1, 10, 100), metavar="N,...", help="1,10,100")
    what.add_argument("--browser", action="store_true", help="send a browser's fields; wrk alone sends only Host")
    what.add_argument("--close", action="store_true", help="one request per connection")
    what.add_argument("--access-log", action="store_true", help="run servers that have a log also with it on: NAME+log")
    what.add_argument("--only", type=_names, default=[], metavar="NAME,...", help="these servers, of the table")
    what.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND",
        help="another server; {port}, {app}, {aserve}, {peer} and {bin} are filled in")  # fmt: skip
    what.add_argument("--base", metavar="NAME", help="whom ratios are to (bjoern; on PyPy: waitress)")
    how = parser.add_argument_group("how")
    how.add_argument("--rounds", type=_positive(int), default=5, help="5")
    how.add_argument("--seconds", type=_positive(float), default=4.0, help="of each measurement (4)")
    how.add_argument("--warm-up", type=_positive(float), metavar="SECONDS",
        help="before each measurement, not counted (1; on PyPy: 5)")  # fmt: skip
    where = parser.add_argument_group("where")
    where.add_argument("--interpreter", default="cpython", metavar="cpython|pypy|PATH",
        help="the virtual environments that make has made, or a python that has aserve and peers")  # fmt: skip
    where.add_argument("--aserve", metavar="PATH", default=os.environ.get("ASERVE_PYTHON"),
        help="virtual environment of aserve, or its python (.venv-bench or .venv, .venv-pypy); "
        "with --targets the folder on CPython, beside which FOLDER-pypy stands")  # fmt: skip
    where.add_argument("--peers", metavar="PATH", default=os.environ.get("PEERS"),
        help="virtual environment of the others (.venv-peers, .venv-peers-pypy); likewise")  # fmt: skip
    result = parser.add_argument_group("result")
    result.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything there")
    result.add_argument("--targets", type=_numbers, nargs="?", const=targets.NUMBERS, metavar="N,...",
        help="run what the targets need (all of them), say which are met, write benchmarks/results/")  # fmt: skip
    result.add_argument("--machine", metavar="WORDS", help="for the file's name; a description, not a host name")
    result.add_argument("--self-test", action="store_true", help="a second of hello, to check the plumbing")
    args = parser.parse_args(argv)
    if args.app in rounds.WHOLE_REQUESTS_ONLY:
        args.connections = (1,)
    return args


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_positive(int)(part) for part in text.split(","))


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if not set(numbers) <= set(targets.NUMBERS):
        raise argparse.ArgumentTypeError(f"there are targets {targets.NUMBERS}")
    return numbers


def _positive(kind: type) -> Any:
    def parse(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    return parse


# What to run


def _timing(args: argparse.Namespace, pair: Pair) -> dict[str, Any]:
    return {
        "rounds": args.rounds,
        "seconds": args.seconds,
        "warm_up_seconds": args.warm_up or WARM_UP_SECONDS[pair.is_pypy],
        "cpus": procs.choose_cpus(),
    }


def run_one(args: argparse.Namespace) -> int:
    """Measure one set, print its table."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    extra = [servers.parse_server(text) for text in args.server]
    plan = Plan(
        pair,
        servers.choose(pair, args.only, extra, args.access_log),
        app=args.app,
        connections=args.connections,
        has_browser_fields=args.browser,
        is_close=args.close,
        with_bare=args.app == "fib36",
        **_timing(args, pair),
    )
    base = args.base or ("waitress" if pair.is_pypy else "bjoern")
    _say_estimate(plan.estimate_seconds)
    result = rounds.run_plan(plan)
    print(rounds.format_table(result, base))
    if args.json:
        record.save(args.json, [result], base, [])
    return int(any(name.startswith("aserve") for name in result.left_out))


def run_targets(args: argparse.Namespace) -> int:
    """Measure what the targets need; print tables and judgement; write the results."""
    if args.interpreter != "cpython" or args.only or args.server:
        raise BenchmarkError("--targets chooses interpreters and servers itself")
    plans = {}
    for name in targets.sets_for(args.targets):
        interpreter = targets.SETS[name].interpreter
        try:
            pair = _pair_for(interpreter, args)
        except BenchmarkError as fault:
            print(f"not measured: {name}: {fault}", file=sys.stderr)
            continue
        plans[name] = targets.build_plan(name, pair, _timing(args, pair))
    _say_estimate(sum(plan.estimate_seconds for plan in plans.values()))
    results = {}
    path = args.json or record.default_path(args.machine)
    for name, plan in plans.items():
        results[name] = rounds.run_plan(plan)
        base = rounds.BARE if plan.with_bare else "waitress" if plan.pair.is_pypy else "bjoern"
        print(rounds.format_table(results[name], base), end="\n\n", flush=True)
    judged = targets.judge(results, args.targets)
    print(targets.format_judgement(judged))
    record.save(path, list(results.values()), None, judged)
    print(f"written: {path}")
    return int(any(row["figure"] is None for row in judged))


def _pair_for(interpreter: str, args: argparse.Namespace) -> Pair:
    """Return the environments for a target's interpreter: --aserve and --peers name both, by suffix."""
    suffix = "-pypy" if interpreter == "pypy" else ""
    named = [path + suffix if path and suffix else path for path in (args.aserve, args.peers)]
    return servers.find_pair(interpreter, *named)


def _say_estimate(seconds: float) -> None:
    print(f"about {seconds / 60:.0f} minutes; load average {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)


# Checking itself


def self_test(args: argparse.Namespace) -> int:
    """Run aserve and the floor for a moment; check every figure, the judgement, the file, the end."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers or args.aserve)
    chosen = servers.choose(pair, ["aserve", "floor"], [], with_logs=True)
    timing: dict[str, Any] = {"seconds": 0.3, "warm_up_seconds": 0.2, "cpus": procs.choose_cpus()}
    plan = Plan(pair, chosen, connections=(2,), rounds=1, has_browser_fields=True, **timing)
    result = rounds.run_plan(plan)
    print(rounds.format_table(result, "floor"))
    assert not set(result.left_out) - {"floor"}, result.left_out  # there may be no C compiler
    for name in ("aserve", "aserve" + servers.LOGGED):
        row = result.rounds[0][name][2]
        assert row["n"] > 0 and row["cpu_seconds"] > 0 and row["pss_mb"] > 5 and row["p99_ms"] >= row["p50_ms"] > 0, row
        assert not row["errors"], row
    judged = targets.judge({"bare head": result}, targets.NUMBERS)
    assert len(judged) == len(targets.TARGETS)
    assert not any(row["met"] for row in judged), "nothing was measured that could be met"
    assert targets.format_judgement(judged).count("NOT MET") == len(judged)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.json")
        record.save(path, [result], "floor", judged)
        text = path.read_text()
    assert os.uname().nodename not in text and str(pathlib.Path.home()) + "/" not in text
    _check_fields_are_sent(plan)
    with contextlib.suppress(BenchmarkError):
        procs.parse_wrk("unable to connect")
        raise AssertionError("no report was taken for one")
    assert procs.tree(os.getpid()) == [os.getpid()], "a process was left behind"
    print("self-test passed")
    return 0


def _check_fields_are_sent(plan: Plan) -> None:
    """Catch a request of wrk's; look for every field of the browser in it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as home:
        words = rounds.wrk_words(plan, home)
        client = threading.Thread(target=procs.wrk, args=(listener.getsockname()[1], 1, 0.3, plan.cpus[1], words))
        client.start()
        head = b""
        while not head:  # wrk first tries whether anybody listens, and sends nothing
            connection = listener.accept()[0]
            with connection:
                head = connection.recv(65536)
        client.join()
    fields = servers.browser_fields()
    assert len(fields) >= 12, fields
    assert set(fields) < set(head.decode("latin-1").split("\r\n")), head


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
