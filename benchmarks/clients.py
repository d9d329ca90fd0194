"""The clients: one request to see that the answer is right, then many, each of them checked.

Owns:     what is sent and what must come back, for each app and each way of Plan; wrk, ab, close_load,
          mixed_load, h2load, tls_load and a slow client of our own as loads.
Not here: what they report (reports.py), who is loaded, when and for how long (rounds.py).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import http.client
import math
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from wsgiref.util import setup_testing_defaults

import apps
import mix
import servers
import tls
from figures import LOADS, ON_ONE_CONNECTION_EACH, OVER_TLS, STREAMS, WHOLE_REQUESTS_ONLY, Plan, Row
from procs import BenchmarkError
from reports import parse_ab, parse_chaos, parse_close_load, parse_h2load, parse_wrk

ANSWER_SECONDS = 30.0  # Guess: PyPy on a busy machine, computing fib(36) cold
GRACE_SECONDS = 30.0  # Guess: of a client beyond its own time, for a machine that is busy
CLOSE_SECONDS = {False: 0.2, True: 2.0}  # Guess: by then a server has closed; longer where that is asked of it
DEPENDING = {
    "testapp",
    "token",
    "cherrypy_hello",
    "zope_root",
    "zope_json",
}  # apps whose answer depends on the server, or on what came before
MANY_HEADS, MANY_TARGETS = 50, 200
AB_SECONDS = 60.0  # Guess: of the slowest server; it counts answers and no time
BAD_MIX = "good=0,slow=1,malformed=3,truncated=2,reset=2,vanish=2"
BAD_START_SECONDS = 0.5  # until they are there
BAD_CLIENTS = 10  # beside the good ones
ECHO_OCTETS = 71_453  # the body of the uwsgi and SCGI comparisons that others have published


# Asking once


def check(plan: Plan, port: int) -> bool:
    """
    Send one request and check the answer; return whether the connection is kept.

    Raises:
        BenchmarkError: the answer is not the app's, or the wish to close is not respected.
    """
    if plan.way == "rpc":
        return _check_call(port)
    if plan.way == "mixed":
        _check_mix(plan, port)
    data = b"x" * ECHO_OCTETS if plan.app == "echo" else None
    is_close = plan.way in ("close", "handshakes")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    if plan.way in OVER_TLS:
        context = tls.client_context()
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=ANSWER_SECONDS, context=context)
    try:
        connection.request("POST" if data else "GET", path_of(plan), data, {"Connection": "close"} if is_close else {})
        response = connection.getresponse()
        taken = connection.sock  # None by now, where the response says that it is the last
        body = response.read()
        is_kept = taken is not None and _stays_open(taken, CLOSE_SECONDS[is_close])
    except (OSError, http.client.HTTPException) as fault:
        raise BenchmarkError(f"does not answer: {fault!r}")
    finally:
        connection.close()
    wanted = data or expected_body(plan.app)
    if response.status != 200 or (wanted and body != wanted):
        raise BenchmarkError(f"answers wrongly: status {response.status}, {len(body)} octets, begins {body[:60]!r}")
    if is_close and is_kept:
        raise BenchmarkError("keeps the connection although asked to close it")
    return is_kept


def _stays_open(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return bool(connection.recv(1))
    except socket.timeout:
        return True


def _check_call(port: int) -> bool:
    call = build_call()
    reply = b""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
            connection.sendall(call.request)
            while data := connection.recv(65536):
                reply += data
    except OSError as fault:
        raise BenchmarkError(f"does not answer: {fault!r}")
    if reply != call.begin:
        raise BenchmarkError(f"answers wrongly: {reply[:60]!r}")
    return False


def _check_mix(plan: Plan, port: int) -> None:
    reply = b""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
            for step in mix.build_mix(plan.kinds, plan.every, _fields(plan)):
                connection.sendall(step.request)
                reply = connection.recv(65536)
                while reply and reply.startswith(step.begin) and not reply.endswith(step.end):
                    data = connection.recv(65536)
                    reply = reply + data if data else b""
                if not reply.startswith(step.begin):
                    raise BenchmarkError(f"answers wrongly to {step.request[:60]!r}: {reply[:60]!r}")
    except OSError as fault:
        raise BenchmarkError(f"does not answer: {fault!r}")


@functools.lru_cache(None)
def expected_body(app: str) -> bytes:
    """Return what the app answers when it is called without a server; empty: that depends on the server."""
    if app == "rpc":
        return servers.RPC_RESULT
    if app in DEPENDING:
        return b""
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    return b"".join(getattr(apps, app)(environ, lambda status, headers: None))


# Loading


class Call(NamedTuple):
    """A request in octets, and how its reply begins and ends."""

    request: bytes
    begin: bytes
    end: bytes


def load_all(
    plan: Plan, ports: Sequence[int], connections: int, seconds: float, home: str, programs: Mapping[str, str]
) -> Row:
    """
    Load all copies of a server at once, and with what computes beside that; return the figures of `load` for all together.

    Of latencies it is the worst copy's. `slow_rps`: answers a second of what computes, if that was asked for.

    Raises:
        BenchmarkError: a client did not run to its end.
    """
    with concurrent.futures.ThreadPoolExecutor(len(ports) + 1) as pool:  # each waits for a process of its own
        slow = None
        if plan.slow_connections:
            slow = pool.submit(wrk, ports[0], plan.slow_connections, seconds, plan.cpus[1], (), apps.SLOW_PATH)
        loads = [pool.submit(load, plan, port, connections, seconds, home, programs) for port in ports]
        row = add_rows([each.result() for each in loads])
        if slow is not None:
            beside = slow.result()
            row["slow_rps"] = beside["rps"]
            row["errors"] = add_errors(row["errors"], beside["errors"])
    return row


def add_rows(rows: Sequence[Row]) -> Row:
    """Return the figures of several loads as those of one."""
    row: Row = {**rows[0], "n": sum(each["n"] for each in rows), "rps": sum(each["rps"] for each in rows), "errors": {}}
    for each in rows:
        row["errors"] = add_errors(row["errors"], each["errors"])
        row.update({key: max(row[key], each[key]) for key in ("p50_ms", "p99_ms") if each[key] is not None})
    return row


def add_errors(errors: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums by kind."""
    return {kind: errors.get(kind, 0) + more.get(kind, 0) for kind in dict.fromkeys((*errors, *more))}


def load(plan: Plan, port: int, connections: int, seconds: float, home: str, programs: Mapping[str, str]) -> Row:
    """
    Load a server for this long; return n, rps, p50_ms, p99_ms and errors.

    `home`: where files may be put; `programs`: paths of those in C.

    Raises:
        BenchmarkError: the client did not run to its end.
    """
    if plan.app in WHOLE_REQUESTS_ONLY:
        return whole_requests(port, seconds)
    if plan.way in ON_ONE_CONNECTION_EACH:
        call = build_call() if plan.way == "rpc" else build_request(plan)
        program = [programs["close_load"]]
        if plan.way == "handshakes":
            program = [sys.executable, str(servers.HERE / "tls_load.py")]
        return one_connection_each(program, call, port, connections, seconds, plan.cpus[1], home)
    if plan.way == "mixed":
        sequence = pathlib.Path(home, "mix")
        sequence.write_bytes(mix.pack(mix.build_mix(plan.kinds, plan.every, _fields(plan))))
        words = [programs[LOADS[plan.way]], str(port), str(connections), str(seconds), str(sequence)]
        return parse_close_load(_run_client(words, plan.cpus[1], seconds))
    if plan.way in STREAMS:
        return h2load(plan, port, connections, seconds)
    if plan.requests:
        return ab(plan, port, connections, home)
    scheme = "https" if plan.way in OVER_TLS else "http"
    return wrk(port, connections, seconds, plan.cpus[1], wrk_words(plan, home), path_of(plan), scheme)


@contextlib.contextmanager
def bad_ones(plan: Plan, port: int, row: Row) -> Iterator[None]:
    """
    Run chaos_client beside another load; afterwards its errors are in the row, with those that the other load has counted.

    Raises:
        BenchmarkError: it did not run to its end.
    """
    words = [sys.executable, str(servers.HERE / "chaos_client.py"), f"http://127.0.0.1:{port}/", "--json"]
    words += [
        "--clients",
        str(BAD_CLIENTS),
        "--seconds",
        str(BAD_START_SECONDS + plan.seconds),
        "--requests",
        "1000000",
    ]
    words += ["--mix", BAD_MIX]
    process = subprocess.Popen(["taskset", "-c", str(plan.cpus[1]), *words], stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(BAD_START_SECONDS)
        yield
        seen = parse_chaos(process.communicate(timeout=plan.seconds + GRACE_SECONDS)[0])
    except subprocess.TimeoutExpired:
        raise BenchmarkError("chaos_client did not end")
    finally:
        process.kill()
        process.wait()
    row["errors"] = add_errors(row["errors"], seen["errors"])


def ab(plan: Plan, port: int, connections: int, home: str) -> Row:
    """
    Load a server with ab, on kept connections, until it has the plan's number of answers.

    Raises:
        BenchmarkError: it did not run to its end.
    """
    times = pathlib.Path(home, "percentiles")
    words = [
        "ab",
        "-q",
        "-k",
        "-r",
        "-s",
        str(int(GRACE_SECONDS)),
        "-n",
        str(max(plan.requests, connections)),
        "-c",
        str(connections),
    ]
    words += ["-e", str(times)]
    if plan.app == "echo":
        body = pathlib.Path(home, "body")
        body.write_bytes(b"x" * ECHO_OCTETS)
        words += ["-p", str(body), "-T", "application/octet-stream"]
    output = _run_client([*words, f"http://127.0.0.1:{port}{path_of(plan)}"], plan.cpus[1], AB_SECONDS)
    return parse_ab(output, times.read_text() if times.exists() else "")


def h2load(plan: Plan, port: int, connections: int, seconds: float) -> Row:
    """
    Load a server with h2load, each connection with as many requests at once as the way says.

    Raises:
        BenchmarkError: it did not run to its end.
    """
    words = ["h2load", "-t1", f"-c{connections}", f"-m{STREAMS[plan.way]}", f"-D{seconds * 1000:.0f}ms"]
    words += [word for field in _fields(plan) for word in ("-H", field)]
    return parse_h2load(_run_client([*words, f"https://127.0.0.1:{port}{path_of(plan)}"], plan.cpus[1], seconds))


def build_call() -> Call:
    """Return an RPC call as a uwsgi packet, and its reply."""
    items = b"".join(len(word).to_bytes(2, "little") + word.encode() for word in servers.RPC_WORDS)
    packet = b"\xad" + len(items).to_bytes(2, "little") + b"\0" + items
    reply = b"\xad" + len(servers.RPC_RESULT).to_bytes(2, "little") + b"\0" + servers.RPC_RESULT
    return Call(packet, reply, reply)


def build_request(plan: Plan) -> Call:
    """Return an HTTP request on a connection of its own, and what of the reply does not depend on the server."""
    body = b"x" * ECHO_OCTETS if plan.app == "echo" else b""
    lines = [f"{'POST' if body else 'GET'} {path_of(plan)} HTTP/1.1", "Host: 127.0.0.1", *_fields(plan)]
    lines += [f"Content-Length: {len(body)}"] if body else []
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    # Of a long body the last octets: no more than close_load keeps.
    return Call(head + body, b"HTTP/1.1 200 ", (body or expected_body(plan.app))[-1000:])


def _fields(plan: Plan) -> list[str]:
    fields = servers.browser_fields() if plan.has_browser_fields else []
    return fields + ["Connection: close"] * (plan.way in ("close", "handshakes"))


def wrk_words(plan: Plan, home: str) -> list[str]:
    """Return the flags that make wrk send what the plan says; `home`: where a script may be put."""
    if plan.has_many_heads:
        script = pathlib.Path(home, "heads.lua")
        script.write_text(many_heads())
        return ["-s", str(script)]
    words = [word for field in _fields(plan) for word in ("-H", field)]
    if plan.app == "echo":
        script = pathlib.Path(home, "post.lua")
        script.write_text(f'wrk.method = "POST"\nwrk.body = string.rep("x", {ECHO_OCTETS})\n')
        words += ["-s", str(script)]
    return words


def many_heads() -> str:
    """Return a script for wrk that sends the fields of 50 browsers, each with cookies of its own, to 200 targets."""
    heads = []
    for number in range(MANY_HEADS):
        fields = [line for line in servers.browser_fields() if not line.lower().startswith(("user-agent:", "cookie:"))]
        # Not all browsers send all.
        fields = fields[: len(fields) - number % 4]
        fields.append(
            f"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:{100 + number}.0) Gecko/20100101 Firefox/{100 + number}.0"
        )
        fields.append(
            f"Cookie: session={number * 2654435761 % 2**32:08x}{number:04d}; theme={'dark' if number % 2 else 'light'}"
        )
        heads.append("\\r\\n".join(["Host: 127.0.0.1", *fields, "", ""]))
    listed = ",\n".join(f'"{head}"' for head in heads).replace("\\\\", "\\")
    return f"""local heads = {{\n{listed}\n}}
local requests, next_one = {{}}, 0
function init()
    for target = 0, {MANY_TARGETS} - 1 do
        for _, head in ipairs(heads) do
            requests[#requests + 1] = "GET /pages/" .. target .. "?item=" .. target * 7 .. " HTTP/1.1\\r\\n" .. head
        end
    end
end
function request()
    next_one = (next_one + 7919) % #requests  -- a prime: none comes again before all have come
    return requests[next_one + 1]
end
"""


def path_of(plan: Plan) -> str:
    """Return the path that is asked for."""
    return tls.PATH if plan.way == "handshakes" else {"zope_json": "/@@data.json"}.get(plan.app, "/")


def wrk(
    port: int, connections: int, seconds: float, cpu: int, words: Sequence[str] = (), path: str = "/", scheme: str = "http"
) -> Row:  # fmt: skip
    """
    Load the server with wrk, one thread, on kept connections.

    Raises:
        BenchmarkError: wrk did not run to its end.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "--latency", *words]
    # wrk takes whole seconds only; interrupted, it reports what it has.
    interrupt_after = None if seconds == int(seconds) else seconds
    return parse_wrk(_run_client([*command, f"{scheme}://127.0.0.1:{port}{path}"], cpu, seconds, interrupt_after))


def one_connection_each(
    program: list[str], call: Call, port: int, connections: int, seconds: float, cpu: int, home: str
) -> Row:
    """
    Load the server with close_load or tls_load: each request on a connection of its own, which the server closes.

    Raises:
        BenchmarkError: the program did not run to its end.
    """
    folder = pathlib.Path(home, "call")
    folder.mkdir(exist_ok=True)
    for name, octets in call._asdict().items():
        (folder / name).write_bytes(octets)
    return parse_close_load(
        _run_client([*program, str(port), str(connections), str(seconds), str(folder)], cpu, seconds)
    )


def _run_client(words: list[str], cpu: int, seconds: float, interrupt_after: float | None = None) -> str:
    process = subprocess.Popen(
        ["taskset", "-c", str(cpu), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            process.send_signal(signal.SIGINT)
        return process.communicate(timeout=seconds + GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{pathlib.Path(words[0]).name} did not end within {seconds + GRACE_SECONDS:.0f} s")
    finally:
        process.kill()
        process.wait()


def whole_requests(port: int, seconds: float) -> Row:
    """
    Send requests one after the other for this long, the last one to its end; return the same figures as wrk.

    For slow apps: wrk stops in the middle of a request, whose CPU time then counts for nothing.
    """
    times_ms = []
    bad = 0
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=GRACE_SECONDS)) as connection:
        started = now = time.perf_counter()
        while now - started < seconds:
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            bad += response.status != 200
            before, now = now, time.perf_counter()
            times_ms.append((now - before) * 1000)
    good = len(times_ms) - bad
    return {
        "n": good,
        "rps": good / (now - started),
        "p50_ms": statistics.median(times_ms),
        "p99_ms": sorted(times_ms)[int(len(times_ms) * 0.99)],
        "errors": {"status": bad} if bad else {},
    }
