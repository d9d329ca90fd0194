"""The cost of floods of HTTP/2 for a server: python tests/http2_floods.py [SECONDS] [--only=FLOOD] [FLAGS...]

Each flood of harness/http2_floods.py comes for some seconds, on a connection, made anew after the server's end, while a client of HTTP/2 asks
again and again.  For each, the program prints the sent frames, how often the connection ended, how much CPU time and memory the server has used, and
the client's view.  Loopback only; stops by itself.
"""

import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from harness.certificates import Authority
from harness.client import RawClient
from harness.http2_client import HTTP2Client
from harness.http2_floods import FLOODS, Flooder
from harness.process import ServerProcess


class Found(NamedTuple):
    """The cost of a flood."""

    sent_bytes: int
    connections: int
    seconds: float
    cpu_seconds: float
    memory_bytes: int  # more than before
    answers: int
    slowest_seconds: float


def measure(process: ServerProcess, name: str, seconds: float) -> Found:
    """Flood the server, and ask meanwhile."""
    began, cpu, memory = time.monotonic(), process.cpu_seconds(), process.memory_bytes()
    host, port = process.address
    command = [sys.executable, __file__, "--flood", RawClient.authority, host, str(port), name, str(seconds)]
    flooder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # a process, so that a CPU is left here
    times, most = [], memory
    while flooder.poll() is None:
        asked = time.monotonic()
        client = HTTP2Client(process.address)
        assert client.fetch().body == b"hello\n"
        client.close()
        times.append(time.monotonic() - asked)
        most = max(most, process.memory_bytes())
        time.sleep(0.02)
    taken = time.monotonic() - began
    sent, connections = map(int, flooder.communicate()[0].split())
    return Found(sent, connections, taken, process.cpu_seconds() - cpu, most - memory, len(times), max(times))


def start(folder: pathlib.Path, *flags: str) -> ServerProcess:
    """Start a server of HTTP/2."""
    authority = Authority(folder)
    RawClient.authority = str(authority.certificate)
    issued = authority.issue("localhost", "127.0.0.1")
    spec = f"{pathlib.Path(__file__).parent / 'harness/apps.py'}:site"
    return ServerProcess([spec, *issued.flags, "--http2", "auto", *flags], folder, {}, launcher=["env"])


def main(arguments: list[str]) -> None:
    """Measure all floods, or send a flood."""
    if arguments[:1] == ["--flood"]:
        RawClient.authority, host, port, name, for_seconds = arguments[1:]
        flooder = Flooder((host, int(port)), name)
        end = time.monotonic() + float(for_seconds)
        while time.monotonic() < end:
            flooder.run(lambda: time.monotonic() > end)
        print(flooder.sent_bytes, flooder.connections)
        return
    seconds = float(arguments.pop(0)) if arguments and arguments[0].replace(".", "").isdigit() else 3.0
    names = [arguments.pop(0).partition("=")[2]] if arguments and arguments[0].startswith("--only=") else list(FLOODS)
    with tempfile.TemporaryDirectory() as folder:
        process = start(pathlib.Path(folder), *arguments)
        try:
            for name in names:
                found = measure(process, name, seconds)
                print(
                    f"| {name} | {found.sent_bytes / 1e6 / found.seconds:.2f} MB/s | {found.connections} | "
                    f"{found.cpu_seconds / found.seconds:.0%} | {found.memory_bytes / 2**20:+.1f} MiB | "
                    f"{found.answers} | {found.slowest_seconds:.2f} s |", flush=True
                )  # fmt: skip
        finally:
            process.end()


if __name__ == "__main__":
    main(sys.argv[1:])
