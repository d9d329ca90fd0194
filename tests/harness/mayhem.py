"""Workers stopped, killed, replaced, added and taken away at random times, while clients ask: the fate of each request.

A run is as long as MAYHEM_SECONDS, and as random as MAYHEM_SEED.
"""

import collections
import contextlib
import os
import pathlib
import random
import signal
import threading
import time
from collections.abc import Callable

from .client import RawClient
from .workers import Workers

SECONDS = float(os.environ.get("MAYHEM_SECONDS", "4"))
SEED = int(os.environ.get("MAYHEM_SEED", str(time.time_ns() % 100_000)))
CLIENTS = 20
# How long a request keeps its thread.
TAKES = (0.0, 0.0, 0.0, 0.02, 0.2)
MIN_WORKERS, MAX_WORKERS = 2, 4
# How long after a worker's kill its clients may see it, on a busy machine. Measured 2026-11-27, on two busy cores: 0.06 s.
SEEN_SECONDS = 1.0

# /NUMBER/SECONDS: the file has a line for each begun request, with the pid of its worker.
APP = """
import os, time
FILE = os.open({path!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def app(environ, start_response):
    number, seconds = environ["PATH_INFO"].split("/")[1:]
    os.write(FILE, b"%s %d\\n" % (number.encode(), os.getpid()))
    time.sleep(float(seconds))
    start_response("200 OK", [("Content-Length", str(len(number)))])
    return [number.encode()]
"""


class Mayhem:
    """A server under mayhem, and its clients."""

    def __init__(self, process: Workers, path: pathlib.Path, kills: bool) -> None:
        self._process, self._path, self._random = process, path, random.Random(SEED)
        self._acts = [self._stop, self._reload, self._recycle, self._resize]
        self._acts += [self._kill, self._stop_and_kill] if kills else []
        self._is_over, self._lock, self._number = False, threading.Lock(), 0
        self._size = MAX_WORKERS - 1
        self.killed: dict[int, float] = {}  # when, by pid
        self.answered: list[int] = []
        self.failed: dict[int, tuple[str, float]] = {}  # by number: the client's view, and its time
        self.done: collections.Counter[str] = collections.Counter()
        self._clients = [threading.Thread(target=self._ask, daemon=True) for _ in range(CLIENTS)]

    # Clients

    def _ask(self) -> None:
        while not self._is_over:
            try:
                with contextlib.closing(RawClient(self._process.address)) as client:
                    while not self._is_over and self._ask_once(client):
                        time.sleep(random.random() / 100)
            except OSError:
                time.sleep(0.01)

    def _ask_once(self, client: RawClient) -> bool:
        """Send a request, and note its fate; return whether the connection goes on."""
        with self._lock:
            self._number += 1
            number = self._number
        try:
            reply = client.fetch(f"/{number}/{random.choice(TAKES)}")
        except (OSError, RawClient.Truncated) as exc:
            is_closed = isinstance(exc, (ConnectionError, RawClient.Truncated))
            self.failed[number] = "closed" if is_closed else repr(exc), time.monotonic()
            return False
        if reply.status == 200 and reply.body == b"%d" % number:
            self.answered.append(number)
        else:
            self.failed[number] = repr(reply), time.monotonic()
        return reply.get("Connection") != "close"

    # Events

    def run(self) -> None:
        """Do so until the time is over, and let the clients have their last answers."""
        for client in self._clients:
            client.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            time.sleep(self._random.uniform(0.05, 0.6))
            what = self._random.choice(self._acts)
            self.done[what.__name__.strip("_")] += 1
            what()
        self._is_over = True
        for client in self._clients:
            client.join(60)

    def _one(self) -> int:
        """Return the pid of a worker."""
        return self._random.choice(self._process.workers or [0])

    def _send(self, pid: int, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self.killed.setdefault(pid, time.monotonic())
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, number)

    def _stop(self, then: signal.Signals = signal.SIGCONT) -> None:
        pid = self._one()
        self._send(pid, signal.SIGSTOP)
        time.sleep(self._random.uniform(0.1, 1.5))
        self._send(pid, then)

    def _stop_and_kill(self) -> None:
        self._stop(signal.SIGKILL)

    def _kill(self) -> None:
        self._send(self._one(), signal.SIGKILL)

    def _reload(self) -> None:
        self._process.signal(signal.SIGHUP)

    def _recycle(self) -> None:
        self._send(self._one(), signal.SIGTERM)

    def _resize(self) -> None:
        is_more = self._size < MAX_WORKERS and (self._size == MIN_WORKERS or self._random.random() < 0.5)
        self._size += 1 if is_more else -1
        self._process.signal(signal.SIGTTIN if is_more else signal.SIGTTOU)

    # Results

    @property
    def begun(self) -> dict[int, list[int]]:
        """The pids of the workers that have begun each request, by number."""
        found = collections.defaultdict(list)
        for line in self._path.read_text().splitlines():
            number, pid = map(int, line.split())
            found[number].append(pid)
        return found

    def faults(self) -> list[str]:
        """Return broken promises: a request begun twice, or without an answer though no worker was killed with it."""
        begun, log = self.begun, self._process.log
        found = [f"{number} was begun by {pids}" for number, pids in begun.items() if len(pids) > 1]
        found += [f"{number} was answered, and not begun" for number in self.answered if number not in begun]
        for number, (what, at) in self.failed.items():
            deaths = [self.killed.get(pid, at + 1) for pid in begun.get(number, ())] or list(self.killed.values())
            if what != "closed" or not any(0 <= at - death < SEEN_SECONDS for death in deaths):
                found.append(f"{number}: {what} at {at:.3f}; begun by {begun.get(number)}, killed at {deaths}")
        lost = [number for number in self.failed if number in begun]
        found += [f"{number} is named by no line" for number in lost if f"GET /{number}/" not in log]
        found += [f"{client.name} has no answer" for client in self._clients if client.is_alive()]
        return found

    def _since_a_death(self, at: float) -> list[float]:
        return [at - death for death in self.killed.values() if death <= at] or [float("inf")]

    def describe(self) -> str:
        """Return the numbers of a run."""
        lost = sum(number in self.begun for number in self.failed)
        latest = max((min(self._since_a_death(at)) for _, at in self.failed.values()), default=0.0)
        return (
            f"seed {SEED}: latest {latest:.2f} s; {len(self.answered)} answered, {len(self.failed)} closed, of these {lost} begun; "
            f"{len(self.killed)} killed; {dict(self.done)}"
        )


def start_mayhem(start_workers: Callable[..., Workers], folder: pathlib.Path, *flags: str, kills: bool) -> Mayhem:
    """Start workers of one thread each, and return their mayhem; `kills`: some are killed, too."""
    path = folder / "begun"
    path.touch()
    count = str(MAX_WORKERS - 1)
    process = start_workers("--threads", "1", "--workers", count, *flags, app=APP.format(path=str(path)))
    process.wait_for_workers(MAX_WORKERS - 1)
    return Mayhem(process, path, kills)
