"""Servers side by side over HTTP on one WSGI app, in turn, each round a fresh server.

Use:      make bench ARGS="..."; python benchmarks/bench_serve.py --help; README.md says how to read it.
Owns:     the flags; the self-test.
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

import clients
import command
import mix
import procs
import record
import reports
import rounds
import servers
import targets
from figures import BARE, WHOLE_REQUESTS_ONLY, Plan, Result, format_table
from procs import BenchmarkError

BENCH = "serve"
NUMBERS = targets.numbers_of(BENCH)
APPS = ["hello", "echo", "cpu", "fib36", "sleepy", "blob", "blobfile", "testapp", "unlike"]


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    args = parse_args(argv)
    measure = self_test if args.self_test else run_targets if args.targets else run_one
    return command.run("bench_serve", measure, args, "wrk")


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument("--app", choices=APPS, default="hello", help="an app of apps.py (hello)")
    what.add_argument("--connections", type=command.counts, metavar="N,...", help="1,10,100")
    what.add_argument("--browser", action="store_true", help="send a browser's fields; wrk alone sends only Host")
    what.add_argument("--close", action="store_true", help="one request per connection")
    what.add_argument(
        "--neighbour",
        action="store_true",
        help="beside a process that computes on the server's CPU; ratios are of requests a second",
    )
    what.add_argument("--access-log", action="store_true", help="run servers that have a log also with it on: NAME+log")
    what.add_argument("--only", type=command.names, default=[], metavar="NAME,...", help="these servers, of the table")
    what.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND",
        help="another server; {port}, {app}, {aserve}, {peer} and {bin} are filled in")  # fmt: skip
    what.add_argument("--base", metavar="NAME", help="whom ratios are to (bjoern; on PyPy: waitress; fib36: bare)")
    what.add_argument("--targets", type=_numbers, nargs="?", const=NUMBERS, metavar="N,...",
        help="run what the targets need (all that this interpreter has), and say which are met")  # fmt: skip
    what.add_argument("--self-test", action="store_true", help="seconds of hello, to check the plumbing")
    command.add_flags(parser)
    args = parser.parse_args(argv)
    if args.save and not args.targets:
        parser.error("--save is for --targets; --json FILE takes any run")
    own = (args.server, args.browser, args.close, args.neighbour, args.access_log)
    if args.targets and (any(own) or args.app != "hello"):
        parser.error("--targets chooses what to measure itself")
    return args


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if not set(numbers) <= set(NUMBERS):
        raise argparse.ArgumentTypeError(f"there are targets {NUMBERS}; bench_sidecar.py and bench_rpc.py have others")
    return numbers


# What to run


def run_one(args: argparse.Namespace) -> int:
    """Measure one set, print its table."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    extra = [servers.parse_server(text) for text in args.server]
    plan = Plan(
        pair,
        servers.choose(pair, args.only, extra, args.access_log),
        app=args.app,
        connections=(1,) if args.app in WHOLE_REQUESTS_ONLY else args.connections or targets.COUNTS,
        has_browser_fields=args.browser,
        way="close" if args.close else "kept",
        has_neighbours=args.neighbour,
        with_bare=args.app == "fib36",
        **command.timing(args, pair),
    )
    if plan.way == "close":
        procs.need_tools("cc")
    base = args.base or (BARE if plan.with_bare else "waitress" if pair.is_pypy else "bjoern")
    command.say_estimate([plan])
    result = rounds.run_plan(plan)
    print(format_table(result, base))
    command.write(BENCH, args, {plan.title: (result, base)}, [])
    return int(command.is_ours_missing(result))


def run_targets(args: argparse.Namespace) -> int:
    """Measure what the targets need; print tables and judgement; write the results."""
    interpreter = args.interpreter
    if interpreter not in ("cpython", "pypy"):
        interpreter = servers.find_pair(interpreter, args.aserve, args.peers).interpreter
    sets = targets.sets_for(BENCH, interpreter, args.targets)
    if not sets:
        raise BenchmarkError(f"the targets {args.targets} are not of {interpreter}; --interpreter says which")
    plans = command.plan_sets(BENCH, args, sets, args.only, args.connections, has_pypy_peers=True)
    return command.measure_sets(BENCH, args, plans, args.targets)


# Checking itself


def self_test(args: argparse.Namespace) -> int:
    """Run aserve and the floor for a moment; check every figure, the judgement, the file, the end."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers or args.aserve)
    chosen = servers.choose(pair, ["aserve", "floor"], [], with_logs=True)
    timing: dict[str, Any] = {"seconds": 0.3, "warm_up_seconds": 0.2, "cpus": procs.choose_cpus()}
    plan = Plan(pair, chosen, connections=(2,), rounds=1, has_browser_fields=True, **timing)
    result = rounds.run_plan(plan)
    print(format_table(result, "floor"))
    assert not set(result.left_out) - {"floor"}, result.left_out  # there may be no C compiler
    for name in ("aserve", "aserve" + servers.LOGGED):
        row = result.rounds[0][name][2]
        assert row["n"] > 0 and row["cpu_seconds"] > 0 and row["pss_mb"] > 5 and row["p99_ms"] >= row["p50_ms"] > 0, row
        assert not row["errors"], row
    judged = targets.judge({"bare head": result}, NUMBERS)
    assert not any(row["met"] for row in judged), "nothing was measured that could be met"
    assert targets.format_judgement(judged)
    _check_file(result, judged)
    _check_fields_are_sent(plan)
    _check_connections_are_counted(plan)
    _check_a_mix_is_counted(plan)
    with contextlib.suppress(BenchmarkError):
        reports.parse_wrk("unable to connect")
        raise AssertionError("no report was taken for one")
    assert procs.tree(os.getpid()) == [os.getpid()], "a process was left behind"
    print("self-test passed")
    return 0


def _check_file(result: Result, judged: list[dict[str, Any]]) -> None:
    """Write results; look for what must not be in them."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.json")
        record.save(path, BENCH, {"bare head": (result, "floor")}, judged)
        text = path.read_text()
    assert os.uname().nodename not in text and str(pathlib.Path.home()) + "/" not in text


def _check_fields_are_sent(plan: Plan) -> None:
    """Catch a request of wrk's; look for every field of the browser in it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as home:
        words = clients.wrk_words(plan, home)
        client = threading.Thread(target=clients.wrk, args=(listener.getsockname()[1], 1, 0.3, plan.cpus[1], words))
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


def _check_connections_are_counted(plan: Plan) -> None:
    """Answer close_load well, badly, not to the end and not at all; compare what both have counted."""
    plan = plan._replace(way="close", has_browser_fields=False)
    call = clients.build_request(plan)
    good = b"HTTP/1.1 200 OK\r\n\r\n" + call.end
    replies = [good, good[:-1], b"HTTP/1.1 500 No\r\n\r\n" + call.end, b""]
    seen = [0] * len(replies)

    def serve(listener: socket.socket) -> None:
        while True:
            connection = listener.accept()[0]
            with connection:
                data = connection.recv(65536)
                while data and len(data) < len(call.request):
                    data += connection.recv(65536)
                if data != call.request:
                    return
                kind = sum(seen) % len(replies)
                seen[kind] += 1
                connection.sendall(replies[kind])

    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as home:
        program = rounds.compile_program("close_load", home)
        if not program:
            return  # no C compiler
        port = listener.getsockname()[1]
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        row = clients.one_connection_each([program], call, port, 3, 0.3, plan.cpus[1], home)
        socket.create_connection(("127.0.0.1", port)).close()
        server.join(10)
    assert sum(seen) >= 8, seen
    assert row["n"] == seen[0] and row["errors"] == {"wrong": sum(seen[1:])}, (row, seen)


def _check_a_mix_is_counted(plan: Plan) -> None:
    """Answer mixed_load well and badly; compare what both have counted."""
    plan = plan._replace(way="mixed", has_browser_fields=False, kinds=mix.KINDS, every=2)
    steps = {step.request: step for step in mix.build_mix(plan.kinds, plan.every)}
    seen = {"good": 0, "wrong": 0}
    lock = threading.Lock()

    def answer(connection: socket.socket) -> None:
        with connection:
            while request := connection.recv(65536):  # all of it: it was sent at once
                with lock:
                    is_wrong = sum(seen.values()) % 7 == 6
                    seen["wrong" if is_wrong else "good"] += 1 if is_wrong else steps[request].count
                begin, end = steps[request].begin, steps[request].end
                connection.sendall(b"HTTP/1.1 500 No\r\n\r\n" if is_wrong else begin + b"OK\r\n\r\n1234" + end)

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as home:
        program = rounds.compile_program("mixed_load", home)
        if not program:
            return  # no C compiler
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        row = clients.load(plan, port, 3, 0.3, home, {"mixed_load": program})
        listener.shutdown(socket.SHUT_RDWR)
    assert seen["wrong"] and row["n"] == seen["good"] and row["errors"] == {"wrong": seen["wrong"]}, (row, seen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
