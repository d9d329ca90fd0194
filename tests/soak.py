"""Good and bad clients against a server for a while: python tests/soak.py [SECONDS] [--save] [FLAGS...]

Every good request must be answered rightly while bad clients send half heads and garbage, break
off in the middle, read slowly or not at all.  Memory must stay flat after the warm-up, and
no file descriptor may be left.  The server runs on the same interpreter; further
arguments are flags for it.  --save writes benchmarks/results/soak-INTERPRETER.json, or soak-inline-...
for --threads 0.  Loopback only; stops by itself; the last line is the result as JSON.
"""

import contextlib
import json
import pathlib
import platform
import random
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from typing import Any

from harness.client import RawClient, Truncated
from harness.interpreter import IS_PYPY
from harness.process import ServerProcess
from harness.waiting import wait_until

MIB = 1 << 20
BENCHMARKS = pathlib.Path(__file__).parent.parent / "benchmarks"
GOOD_THREADS = BAD_THREADS = 6
SAMPLES = 24  # in use: when garbage is collected, and free memory given back
# The bound on growth, from the median of the second quarter to the median of the last.
# CPython: the allocator's slack.  PyPy: the JIT compiles for minutes.
# Guess, from runs of 30 and 150 seconds; in fewer PyPy has hardly begun (85 MiB were seen), and only
# growth without any bound is found.
GROWTH_MIB = 48 if IS_PYPY else 12
SHORT_SECONDS = 30.0
SHORT_GROWTH_MIB = 192 if IS_PYPY else GROWTH_MIB
FLAGS = [
    "--threads", "8", "--body-memory", "64k", "--head-timeout", "1", "--body-timeout", "1",
    "--write-timeout", "2", "--keep-alive", "2",
]  # fmt: skip

HELLO = b"hello\n"
# A fork copies the page tables of the whole server: often enough to meet everything else.
FORK_SHARE = 0.1
GET = b"GET / HTTP/1.1\r\nHost: soak\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: soak\r\n"


class Wrong(Exception):
    """A good request was answered wrongly."""


def expect(what: str, value: Any, expected: Any) -> None:
    """Raise Wrong unless the two are equal."""
    if value != expected:
        raise Wrong(f"{what}: {value!r:.200} instead of {expected!r:.200}")


# Good clients: all of these must be answered rightly


def keep_alive(client: RawClient, rng: random.Random) -> None:
    """Send several requests in turn."""
    for _ in range(rng.randint(1, 30)):
        expect("hello", client.fetch().body, HELLO)


def pipelining(client: RawClient, rng: random.Random) -> None:
    """Send many requests at once."""
    count = rng.randint(2, 60)
    client.send(GET * count)
    for _ in range(count):
        expect("pipelined", client.recv_response().body, HELLO)


def upload(client: RawClient, rng: random.Random) -> None:
    """Send a body: small or spooled, with a length or in chunks, in pieces."""
    for _ in range(rng.randint(1, 3)):
        body = bytes([rng.randrange(256)]) * rng.choice([1, 1000, 60_000, 70_000, 300_000])
        step = rng.choice([len(body), 1 + len(body) // 3])
        pieces = [body[start : start + step] for start in range(0, len(body), step)]
        if rng.random() < 0.5:
            client.send(POST + b"Content-Length: %d\r\n\r\n" % len(body))
            for piece in pieces:
                client.send(piece)
        else:
            client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            for piece in pieces:
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            client.send(b"0\r\n\r\n")
        expected = b"%d %d" % (len(body), (len(body) * body[0]) & 0xFFFFFFFF)
        expect("upload", client.recv_response().body, expected)


def download(client: RawClient, rng: random.Random) -> None:
    """Fetch a stream, a file or a large body, now and then slowly."""
    count = rng.randint(1, 100)
    kind = rng.choice(["stream", "file", "big"])
    if kind == "stream":
        body = client.fetch(f"/stream?{count}").body
        expect("stream", body, b"".join(b"%07d\n" % number * 512 for number in range(count)))
    elif kind == "file":
        expect("file", client.fetch(f"/file?{count * 10_000}").body, b"\0" * count * 10_000)
    else:
        client.request(f"/big?{count * 10_000}")
        client.recv_head()
        for _ in range(count):
            expect("big", client.recv_exactly(10_000), b"x" * 10_000)
            if rng.random() < 0.05:
                time.sleep(0.01)  # as a slow client; nothing is waited for


def close(client: RawClient, rng: random.Random) -> None:
    """Ask for the end of the connection."""
    expect("close", client.fetch("/", "Connection: close").body, HELLO)
    expect("end", client.recv_to_end(), b"")


def failing_app(client: RawClient, rng: random.Random) -> None:
    """Fetch a response failing in the middle: the response must not look whole."""
    try:
        client.fetch("/raise")
    except Truncated:
        return
    raise Wrong("a response that failed looked whole")


def urgent(client: RawClient, rng: random.Random) -> None:
    """End the server's read early, by urgent data or a passed descriptor: the octets behind are answered, too."""
    if client.sock.family == socket.AF_UNIX:
        client.sock.sendmsg([GET], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", client.sock.fileno()))])
    else:
        client.sock.send(GET + b"!", socket.MSG_OOB)
    client.send(GET)
    for _ in range(2):
        expect("urgent", client.recv_response().body, HELLO)
    if client.sock.family != socket.AF_UNIX:  # a second mark would put the first urgent octet into the stream
        close(client, rng)


def late_hints(client: RawClient, rng: random.Random) -> None:
    """Ask an app with early hints from a second thread at the return; the hints come in time, or not at all."""
    for _ in range(rng.randint(1, 5)):
        client.request("/late?" + rng.choice(["whole", "pieces"]))
        reply = client.recv_response()
        if reply.status == 103:
            reply = client.recv_response()
        expect("late hints", reply.body, HELLO)


def forking_app(client: RawClient, rng: random.Random) -> None:
    """Ask a forking app: the parent answers, and nobody else."""
    if rng.random() < FORK_SHARE:
        expect("fork", client.fetch("/fork?" + rng.choice(["return", "raise", "exit", "leave", "kill"])).body, HELLO)
    expect("hello", client.fetch().body, HELLO)


# Bad clients: the server may answer or not


def half_head(client: RawClient, rng: random.Random) -> None:
    """Send a part of a head, then wait for the 408 or leave."""
    client.send(GET[: rng.randint(1, len(GET) - 1)])
    if rng.random() < 0.1:
        client.recv_response()


def garbage(client: RawClient, rng: random.Random) -> None:
    """Send octets unlike HTTP."""
    client.send(bytes(rng.randrange(256) for _ in range(rng.randint(1, 2000))) + b"\r\n\r\n")
    if rng.random() < 0.5:
        client.recv_response()


def broken_body(client: RawClient, rng: random.Random) -> None:
    """Break off in the middle of a body, or break the framing."""
    if rng.random() < 0.5:
        client.send(POST + b"Content-Length: 500000\r\n\r\n" + b"x" * rng.randint(0, 200_000))
    else:
        client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n10000\r\n" + b"x" * 65536 + b"\r\nno size\r\n")


def no_reader(client: RawClient, rng: random.Random) -> None:
    """Ask for much and read little."""
    client.request(rng.choice(["/stream?5000", "/file?20000000", "/big?2000000"]))
    client.recv_exactly(rng.randint(1, 1000))
    if rng.random() < 0.2:
        time.sleep(rng.random())  # this is the client's whole purpose


def pipeliner(client: RawClient, rng: random.Random) -> None:
    """Ask for very much at once and leave."""
    client.send((GET + b"GET /big?50000 HTTP/1.1\r\nHost: soak\r\n\r\n") * rng.randint(1, 300))


def vanish(client: RawClient, rng: random.Random) -> None:
    """Leave at once, or right behind a request."""
    if rng.random() < 0.5:
        client.send(GET)


GOOD = [
    keep_alive, keep_alive, pipelining, upload, upload, download, download, close, failing_app, urgent, late_hints, forking_app,
]  # fmt: skip
LAST = (close, failing_app, urgent)  # behind these the connection is over
BAD = [half_head, garbage, broken_body, no_reader, pipeliner, vanish]


class Soak:
    """A run."""

    def __init__(self, addresses: list[Any], seconds: float) -> None:
        self._addresses = addresses
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self.good = self.bad = 0
        self.wrong: list[str] = []

    def run_good(self, seed: int) -> None:
        """Be a good client, again and again."""
        rng = random.Random(seed)
        while time.monotonic() < self._end and not self.wrong:
            behaviour = rng.choice(GOOD)
            client = RawClient(rng.choice(self._addresses))
            try:
                for _ in range(1 if behaviour in LAST else 3):
                    behaviour(client, rng)
            except (Wrong, Truncated, OSError, AssertionError) as exc:
                self.wrong.append(f"{behaviour.__name__}: {type(exc).__name__}: {exc}")
            finally:
                client.close()
            with self._lock:
                self.good += 1

    def run_bad(self, seed: int) -> None:
        """Be a bad client, again and again."""
        rng = random.Random(seed)
        while time.monotonic() < self._end and not self.wrong:
            with contextlib.suppress(OSError, Truncated, AssertionError):
                client = RawClient(rng.choice(self._addresses), rng.choice([None, 4096]))
                try:
                    rng.choice(BAD)(client, rng)
                finally:
                    client.reset() if rng.random() < 0.5 else client.close()
            with self._lock:
                self.bad += 1


def soak(seconds: float, flags: list[str], folder: pathlib.Path) -> dict[str, Any]:
    """Run the soak; return the result."""
    app = f"{pathlib.Path(__file__).parent / 'harness/apps.py'}:site"
    path = str(folder / "soak.sock")
    server = ServerProcess([app, "--bind", f"unix:{path}", *FLAGS, *flags], folder, {})
    try:
        with contextlib.closing(RawClient(server.address)) as client:
            client.fetch()
            client.fetch("/big?1000000")  # from the first large body on, a server has the pump's descriptors
            client.fetch("/", "Connection: close")
            client.recv_to_end()
        wait_until(lambda: not sockets(server)[1:], 30)  # the TCP listener remains
        before = open_files(server)
        run = Soak([server.address, path], seconds)
        threads = [threading.Thread(target=run.run_good, args=(seed,), daemon=True) for seed in range(GOOD_THREADS)]
        threads += [
            threading.Thread(target=run.run_bad, args=(1000 + seed,), daemon=True) for seed in range(BAD_THREADS)
        ]
        for thread in threads:
            thread.start()
        resident, samples = sample_while(threads, server, seconds / SAMPLES)
        # The longest time limit, a tick of the timer, and the time to notice.
        with contextlib.suppress(AssertionError):
            wait_until(lambda: len(open_files(server)) <= len(before), 30)
        after = open_files(server)
        server.signal()
        status = server.wait(30)
    finally:
        server.end()
    quarter = max(len(samples) // 4, 1)
    warm, end = statistics.median(samples[quarter : 2 * quarter]), statistics.median(samples[-quarter:])
    faults = list(run.wrong)
    bound = SHORT_GROWTH_MIB if seconds < SHORT_SECONDS else GROWTH_MIB
    if end - warm > bound:
        faults.append(f"memory grew from {warm:.1f} to {end:.1f} MiB, by more than {bound}")
    if len(after) > len(before):
        faults.append(f"file descriptors left: {after} instead of {before}")
    if status or server.faults():
        faults.append(f"the server ended with status {status}: {server.faults() or server.log[-2000:]}")
    return {
        "server": f"{platform.python_implementation()} {platform.python_version()}",
        "seconds": seconds,
        "good": run.good,
        "bad": run.bad,
        "rss_mib": {
            "warm": round(warm, 1),
            "end": round(end, 1),
            "bound": bound,
            "max_before_gc": round(max(resident), 1),
        },
        "fds": {"before": len(before), "after": len(after)},
        "faults": faults,
    }


def open_files(server: ServerProcess) -> list[str]:
    """Return the open files of a server, but for libuv's own /dev/null, opened at any time."""
    return [name for name in server.open_files() if name != "/dev/null"]


def sockets(server: ServerProcess) -> list[str]:
    """Return the open sockets of a server, but for the pair of the event loop."""
    tcp = pathlib.Path("/proc/net/tcp").read_text()
    return [name for name in server.open_files() if name.startswith("socket:") and f" {name[8:-1]} " in tcp]


def sample_while(
    threads: list[threading.Thread], server: ServerProcess, every_seconds: float
) -> tuple[list[float], list[float]]:
    """Return the resident memory of a server until the threads have ended, and now and then the memory in use."""
    resident, in_use = [], []
    next_look = time.monotonic() + every_seconds
    for thread in threads:
        while thread.is_alive():
            resident.append(server.memory_bytes() / MIB)
            if time.monotonic() >= next_look:
                client = RawClient(server.address)
                client.fetch("/collect")
                client.close()
                in_use.append(server.memory_bytes() / MIB)
                next_look = time.monotonic() + every_seconds
            thread.join(0.1)
    return resident, in_use


def save(bench: str, result: dict[str, Any]) -> None:
    """Keep a result among the benchmarks' results."""
    sys.path.append(str(BENCHMARKS))
    import record

    path = record.default_path(bench, platform.python_implementation().lower())
    record.write(path, {**record.describe_run(bench), **result})


def main(arguments: list[str]) -> int:
    """Run the soak from the command line."""
    is_saved = "--save" in arguments
    arguments = [argument for argument in arguments if argument != "--save"]
    seconds = float(arguments.pop(0)) if arguments else 30.0
    with tempfile.TemporaryDirectory() as folder:
        result = soak(seconds, arguments, pathlib.Path(folder))
    if is_saved:
        is_inline = " --threads 0 " in f" {' '.join(arguments)} "
        save("soak-inline" if is_inline else "soak", {"flags": [*FLAGS, *arguments], **result})
    print(json.dumps(result))
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
