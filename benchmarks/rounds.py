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
from typing import Any, NamedTuple

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


class Service(NamedTuple):
    """A server that runs: its process, where it or its front listens, and its folder."""

    pid: int
    port: int
    home: str


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
    """Start fresh servers, and nginx before them where they need one; return their rows by number of connections."""
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        front = (
            {"nginx": nginx, "apache2": apache}[FRONTS.get(plan.way, "nginx")] if server.protocol != "http" else None
        )
        services = [_start(plan, server, front, folder, programs, stack) for _ in range(plan.copies)]
        keep = [clients.check(plan, service.port) for service in services]
        start_mb = sum(procs.pss_mb(service.pid) for service in services)
        is_pypy = plan.pair.is_pypy_for(server)
        pid, port = services[0].pid, services[0].port
        cpus = plan.cpus[: plan.server_cpus] if plan.has_neighbours else ()
        neighbours = [stack.enter_context(procs.computing(cpu)) for cpu in cpus]
        rows = {}
        for number, count in enumerate(plan.connections):
            warm_up_seconds = plan.warm_up(is_pypy, number == 0)
            has_bad_ones = server.name.endswith(servers.BAD)
            try:
                row = _measure_load(plan, services, neighbours, count, warm_up_seconds, home, programs, has_bad_ones)
            except BenchmarkError as fault:
                if not rows:
                    raise
                # It has served fewer connections: that it does not serve these is what there is to tell.
                print(f"{server.name}: {fault}", file=sys.stderr, flush=True)
                rows[count] = {"n": 0, "rps": 0.0, "per_cpu_s": 0.0, "is_kept": all(keep), "errors": {"no answers": 1}}
                break
            if row["errors"] and front:
                print(f"{server.name}: {front.last_complaint(services[0].home)}", file=sys.stderr, flush=True)
            rows[count] = {**row, "is_kept": all(keep), "pss_start_mb": start_mb}
            if plan.takes_samples:
                taken = samples.Samples(pid, home)
                clients.load(plan, port, count, plan.seconds, home, programs)
                rows[count].update(taken.end())
        if plan.counts_calls:
            rows[count].update(_count_calls(plan, pid, port, count, home, programs))
        return rows


def _start(
    plan: Plan, server: Server, front: Any, folder: str, programs: dict[str, str], stack: contextlib.ExitStack
) -> Service:
    """Start one server, and the front before it; both end with the stack."""
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
    cpus = ",".join(str(cpu) for cpu in plan.cpus[: plan.server_cpus])
    process = stack.enter_context(procs.running(command, cpus, env, str(servers.HERE), output))

    def is_up() -> bool:
        return procs.is_listening_at(sock) if front else procs.is_listening(port)

    procs.wait_until(lambda: process.poll() is not None or is_up(), START_SECONDS)
    if process.poll() is not None or not is_up():
        output.seek(0)
        text = " ".join(output.read().decode(errors="replace").split())
        raise BenchmarkError(f"did not start: {text[-300:] or shlex.join(command)}")
    if front:
        port = stack.enter_context(front.running(server.protocol, sock, plan.cpus[1], home))
    return Service(process.pid, port, home)


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
    plan: Plan, services: list[Service], neighbours: list[int], connections: int, warm_up_seconds: float, home: str,
    programs: dict[str, str], has_bad_ones: bool,
) -> Row:  # fmt: skip
    """Warm up, then measure; the warm-up also absorbs what an earlier load has left."""
    pids, ports = [service.pid for service in services], [service.port for service in services]
    clients.load_all(plan._replace(requests=0), ports, connections, warm_up_seconds, home, programs)  # ab knows no time
    row: Row = {}
    with clients.bad_ones(plan, ports[0], row) if has_bad_ones else contextlib.nullcontext():
        started, all_before = time.monotonic(), procs.busy_seconds(plan.cpus[0])
        cpu, switches = sum(map(procs.cpu_seconds, pids)), sum(map(procs.context_switches, pids))
        beside = sum(map(procs.cpu_seconds, neighbours[:1]))  # the one on that CPU
        row.update(clients.load_all(plan, ports, connections, plan.seconds, home, programs))
        cpu = sum(map(procs.cpu_seconds, pids)) - cpu
        wall = time.monotonic() - started
        switches = sum(map(procs.context_switches, pids)) - switches
        beside = sum(map(procs.cpu_seconds, neighbours[:1])) - beside
        others = procs.busy_seconds(plan.cpus[0]) - all_before - cpu - beside
    if not row["n"] or cpu <= 0:
        raise BenchmarkError(f"{row['n']} requests in {cpu} CPU seconds at {connections} connections: {row['errors']}")
    row["cpu_seconds"] = cpu
    row["per_cpu_s"] = row["n"] / cpu
    row["busy"] = cpu / wall
    row["switches"] = switches / row["n"]
    row["others"] = max(0.0, others) / wall
    row["pss_mb"] = sum(map(procs.pss_mb, pids))
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
    text = "  ".join(f"{count}: {format_rate(row[plan.figure])}" for count, row in rows.items()) if rows else "left out"
    print(f"round {number}/{plan.rounds}  {name:24}{text}", file=sys.stderr, flush=True)
