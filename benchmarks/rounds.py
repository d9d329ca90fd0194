"""A set of rounds: servers in turn (A B A B ...), each round a fresh server.

Owns:     what is measured and when; what a wrong server is.
Not here: processes (procs.py), clients (clients.py), commands (servers.py), what is done with the
          figures (figures.py), what is to be reached (targets.py).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import time

import apache
import clients
import nginx
import procs
import reports
import samples
import servers
import tls
from figures import BARE, FRONTS, LOADS, OVER_TLS, Plan, Result, Row, format_rate
from procs import BenchmarkError
from servers import Server

START_SECONDS = 30.0  # Guess: PyPy on a busy machine takes two
TRACED_SECONDS = 2.0
TRACED_CONNECTIONS = 10  # few: accepting them is not what a request on a kept connection takes
PEERS_APPS = {"zope_root", "zope_json"}  # installed beside the peers alone; aserve has the same build of Python


def run_plan(plan: Plan) -> Result:
    """
    Measure; say on standard error how far it is.

    Raises:
        BenchmarkError: what the whole plan needs is not there.
    """
    result = Result(plan, [], {})
    with tempfile.TemporaryDirectory(prefix="aserve-bench-") as folder:
        programs = {name: compile_program(name, folder) for name in ("floor", *set(LOADS.values()))}
        if plan.way in OVER_TLS:
            programs.update(
                tls.prepare(folder, clients.expected_body(plan.app))
            )  # what else commands name by its place
        if plan.way in LOADS and not programs[LOADS[plan.way]]:
            raise BenchmarkError(f"there is no C compiler (cc) for the client, {LOADS[plan.way]}.c")
        for number in range(1, plan.rounds + 1):
            result.rounds.append({})
            for server in plan.servers:
                if server.name not in result.left_out:
                    _run_server(
                        plan._replace(counts_calls=plan.counts_calls and number == 1), server, folder, programs, result
                    )
                    _say_progress(result, number, server.name)
            if plan.with_bare:
                row = _time_bare(plan)
                result.rounds[-1][BARE] = dict.fromkeys(plan.connections, row)
                _say_progress(result, number, BARE)
    return result


def compile_program(name: str, folder: str) -> str:
    """Return the path of a compiled program of ours in C; empty: there is no compiler."""
    path = f"{folder}/{name}"
    try:
        subprocess.run(["cc", "-O2", "-o", path, str(servers.HERE / f"{name}.c")], check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return path


def _run_server(plan: Plan, server: Server, folder: str, programs: dict[str, str], result: Result) -> None:
    reason = _why_not(plan, server, programs)
    if not reason:
        try:
            result.rounds[-1][server.name] = _measure(plan, server, folder, programs)
            return
        except BenchmarkError as fault:
            reason = str(fault)
    result.left_out[server.name] = reason


def _why_not(plan: Plan, server: Server, programs: dict[str, str]) -> str:
    """Return why a server cannot be measured at all; empty: it can."""
    if plan.pair.version(server) is None:
        return f"{server.package} is not installed{servers.why_not_installed(plan.pair, server.package)}"
    if server.name == "floor" and (plan.app != "hello" or plan.way != "kept"):
        return "it knows only hello on kept connections"
    if server.name == "floor" and not programs["floor"]:
        return "no C compiler"
    return ""


def _measure(plan: Plan, server: Server, folder: str, programs: dict[str, str]) -> dict[int, Row]:
    """Start a fresh server, and nginx before it where it needs one; return its rows by number of connections."""
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        output = stack.enter_context(open(f"{home}/output", "w+b"))
        port, sock = procs.free_port(), f"{home}/app.sock"
        values = {
            **servers.places(plan.pair),
            **programs,
            "port": str(port),
            "sock": sock,
            "app": plan.app,
            "log": f"{home}/access.log",
        }
        command = servers.build_command(server, values)
        modules = f"{servers.HERE}:{values['site']}" if plan.app in PEERS_APPS else servers.HERE
        env = procs.environment(home, modules)
        process = stack.enter_context(procs.running(command, plan.cpus[0], env, str(servers.HERE), output))
        front = (
            {"nginx": nginx, "apache2": apache}[FRONTS.get(plan.way, "nginx")] if server.protocol != "http" else None
        )

        def is_up() -> bool:
            return procs.is_listening_at(sock) if front else procs.is_listening(port)

        procs.wait_until(lambda: process.poll() is not None or is_up(), START_SECONDS)
        if process.poll() is not None or not is_up():
            output.seek(0)
            text = " ".join(output.read().decode(errors="replace").split())
            raise BenchmarkError(f"did not start: {text[-300:] or shlex.join(command)}")
        if front:
            port = stack.enter_context(front.running(server.protocol, sock, plan.cpus[1], home))
        is_kept = clients.check(plan, port)
        start_mb = procs.pss_mb(process.pid)
        is_pypy = plan.pair.is_pypy_for(server)
        rows = {}
        for number, count in enumerate(plan.connections):
            warm_up_seconds = plan.warm_up(is_pypy, number == 0)
            has_bad_ones = server.name.endswith(servers.BAD)
            try:
                row = _measure_load(plan, process.pid, port, count, warm_up_seconds, home, programs, has_bad_ones)
            except BenchmarkError as fault:
                if not rows:
                    raise
                # It has served fewer connections: that it does not serve these is what there is to tell.
                print(f"{server.name}: {fault}", file=sys.stderr, flush=True)
                rows[count] = {"n": 0, "rps": 0.0, "per_cpu_s": 0.0, "is_kept": is_kept, "errors": {"no answers": 1}}
                break
            if row["errors"] and front:
                print(f"{server.name}: {front.last_complaint(home)}", file=sys.stderr, flush=True)
            rows[count] = {**row, "is_kept": is_kept, "pss_start_mb": start_mb}
            if plan.takes_samples:
                taken = samples.Samples(process.pid, home)
                clients.load(plan, port, count, plan.seconds, home, programs)
                rows[count].update(taken.end())
        if plan.counts_calls:
            rows[count].update(_count_calls(plan, process.pid, port, count, home, programs))
        return rows


def _count_calls(plan: Plan, pid: int, port: int, connections: int, home: str, programs: dict[str, str]) -> Row:
    """Return the system calls of a request, all and the most frequent by name; under strace, which slows the server."""
    path = f"{home}/calls"
    words = ["strace", "-c", "-f", "-q", "-o", path, *(word for each in procs.tree(pid) for word in ("-p", str(each)))]
    tracer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        procs.wait_until(lambda: procs.is_traced(pid), START_SECONDS)
        row = clients.load(plan, port, min(connections, TRACED_CONNECTIONS), TRACED_SECONDS, home, programs)
    finally:
        tracer.terminate()
        tracer.wait()
    with open(path) as file:
        calls = reports.parse_strace(file.read())
    if not row["n"] or not calls:
        return {}
    most = sorted(calls.items(), key=lambda item: -item[1])[:8]
    names = {name: round(count / row["n"], 3) for name, count in most}
    return {"calls": sum(calls.values()) / row["n"], "calls_by_name": names}


def _measure_load(
    plan: Plan, pid: int, port: int, connections: int, warm_up_seconds: float, home: str, programs: dict[str, str],
    has_bad_ones: bool,
) -> Row:  # fmt: skip
    """Warm up, then measure; the warm-up also absorbs what an earlier load has left."""
    clients.load(plan._replace(requests=0), port, connections, warm_up_seconds, home, programs)  # ab knows no time
    row: Row = {}
    with clients.bad_ones(plan, port, row) if has_bad_ones else contextlib.nullcontext():
        started, all_before = time.monotonic(), procs.busy_seconds(plan.cpus[0])
        cpu, switches = procs.cpu_seconds(pid), procs.context_switches(pid)
        row.update(clients.load(plan, port, connections, plan.seconds, home, programs))
        cpu = procs.cpu_seconds(pid) - cpu
        wall = time.monotonic() - started
        switches = procs.context_switches(pid) - switches
        others = procs.busy_seconds(plan.cpus[0]) - all_before - cpu
    if not row["n"] or cpu <= 0:
        raise BenchmarkError(f"{row['n']} requests in {cpu} CPU seconds at {connections} connections: {row['errors']}")
    row["cpu_seconds"] = cpu
    row["per_cpu_s"] = row["n"] / cpu
    row["busy"] = cpu / wall
    row["switches"] = switches / row["n"]
    row["others"] = max(0.0, others) / wall
    row["pss_mb"] = procs.pss_mb(pid)
    return row


def _time_bare(plan: Plan) -> Row:
    """Time fib(36) in a process of its own, on the server's CPU and interpreter."""
    warm_up_seconds = plan.warm_up(plan.pair.is_pypy, True)
    command = ["taskset", "-c", str(plan.cpus[0]), str(plan.pair.aserve), "apps.py"]
    command += [str(warm_up_seconds), str(plan.seconds)]
    limit = warm_up_seconds + plan.seconds + clients.GRACE_SECONDS
    done = subprocess.run(command, cwd=servers.HERE, capture_output=True, text=True, timeout=limit, check=True)
    row: Row = json.loads(done.stdout)
    return {**row, "per_cpu_s": row["n"] / row["cpu_seconds"], "errors": {}}


def _say_progress(result: Result, number: int, name: str) -> None:
    plan, rows = result.plan, result.rounds[-1].get(name)
    text = "  ".join(f"{count}: {format_rate(row['per_cpu_s'])}" for count, row in rows.items()) if rows else "left out"
    print(f"round {number}/{plan.rounds}  {name:24}{text}", file=sys.stderr, flush=True)
