"""Several processes that serve one app on shared listeners, each an aserve.Server.

`SharingServers` starts them: this file run as a program binds, forks the processes, tells their addresses, obeys its standard input, and ends them
with its end. Each answers with its number; /slow takes a while, in which the thread sleeps, /gate takes for ever, /die ends the process at once.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import aserve
from aserve.connections.in_flight import TABLE_BYTES, read_in_flight
from aserve.connections.listeners import open_listeners
from aserve.connections.load_board import NOBODY, Load, LoadBoard
from aserve.features import Config
from aserve.server.arguments import Processes
from aserve.settings import parse_bind

STRIDE = 512  # words: a page for each process
SLOW_SECONDS = 0.02


class SharingServers:
    """The processes, in a test's view."""

    def __init__(self, count: int, **settings: Any) -> None:
        self._process = subprocess.Popen(
            [*on_one_cpu(), sys.executable, "-I", str(pathlib.Path(__file__).resolve()), json.dumps([count, settings])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        address = self._read()
        self.address = tuple(address) if isinstance(address, list) else address

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the processes have failed; see standard error"
        return json.loads(line)

    def loads(self) -> list[Load | None]:
        """Return the processes' present loads."""
        return [None if load is None else Load(*load) for load in self._ask("loads")]

    def in_flight(self) -> list[list[tuple[float, str]]]:
        """Return their requests, or those at their death."""
        return [[(seconds, text) for seconds, text in found] for found in self._ask("in flight")]

    def _ask(self, what: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self._read()

    def end(self) -> list[int]:
        """Drain and end them; return their exit statuses."""
        statuses: list[int] = self._ask("end")
        return statuses

    def kill(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def on_one_cpu() -> list[str]:
    """Return a command that keeps all on one CPU: each has the same part of it, whatever else the machine does."""
    status = pathlib.Path("/proc/self/status").read_text()  # PyPy has no os.sched_setaffinity
    (cpus,) = re.findall(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return ["taskset", "-c", re.split("[-,]", cpus)[-1]]


def new_app(number: int) -> Any:
    """Return an app that answers with a number."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow":
            time.sleep(SLOW_SECONDS)
        elif environ["PATH_INFO"] == "/gate":
            threading.Event().wait()
        elif environ["PATH_INFO"] == "/die":
            os.kill(os.getpid(), signal.SIGKILL)
        start_response("200 OK", [("Content-Length", "1")])
        return [b"%d" % number]

    return app


async def serve(server: aserve.Server, started: int) -> None:
    """Serve until SIGTERM."""
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)
    async with server:
        os.write(started, b"x")
        await is_over.wait()


def fork(serve_until_sigterm: Any) -> int:
    """Return the process that serves."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            serve_until_sigterm()
            status = 0
        finally:
            os._exit(status)
    return pid


def main(count: int, settings: dict[str, Any]) -> None:
    """Bind, fork, do the test's orders."""
    config = Config(**settings)
    listeners = open_listeners([parse_bind(bind) for bind in config.bind])
    words = memoryview(mmap.mmap(-1, 8 * STRIDE * count)).cast("Q")
    tables = [mmap.mmap(-1, TABLE_BYTES) for _ in range(count)]
    seeing, started = os.pipe()

    def new_process(number: int) -> int:
        words[number * STRIDE] = NOBODY
        board = LoadBoard(words, number, count, stride=STRIDE)
        server = aserve.Server(
            new_app(number), config, processes=Processes(listeners, load_board=board, in_flight=tables[number])
        )
        return fork(lambda: asyncio.run(serve(server, started)))

    def say(what: Any) -> None:
        print(json.dumps(what), flush=True)

    pids = [new_process(number) for number in range(count)]
    for _ in pids:
        assert os.read(seeing, 1) == b"x"
    say(listeners[0].address)
    for line in sys.stdin:
        if line == "end\n":
            break
        if line == "loads\n":
            say([Load.of(words[number * STRIDE]) for number in range(count)])
        else:
            say([read_in_flight(table) for table in tables])
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    say([os.waitpid(pid, 0)[1] for pid in pids])
    for _ in sys.stdin:
        say([Load.of(words[number * STRIDE]) for number in range(count)])


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
