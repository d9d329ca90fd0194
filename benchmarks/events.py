"""What happens to a server with several workers, and how each server is told, as its own documentation says.

Owns:     the events; by server its flags for each and what is done, or why it is not available; the app that is deployed.
Not here: the servers' commands (servers.py), when it happens and what is counted (bench_reload.py).
"""

from __future__ import annotations

import http.client
import os
import pathlib
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import procs
import servers

APP = (servers.HERE / "reload_app.py").read_text()
BROKEN = "def app(:\n"
FIRST, SECOND = "one", "two"
SIGNAL_SECONDS = 30.0  # Guess: until a second master serves

# In the order of the table; what is deployed for it.
EVENTS = {
    "nothing": "",
    "reload": SECOND,
    "recycle": "",
    "kill": "",
    "broken": BROKEN,
    "upgrade": SECOND,
    "end": "",
}
DESCRIPTIONS = {
    "nothing": "for comparison",
    "reload": "new code is deployed, and a reload asked for",
    "recycle": "workers are replaced for their number of requests",
    "kill": "kill -9 of one worker",
    "broken": "code with a syntax error is deployed, and a reload asked for",
    "upgrade": "new code is deployed, and the whole server replaced in place",
    "end": "SIGTERM while each client waits for a response of a second; none asks again",
}


class Site(NamedTuple):
    """A running server, and the folder that it imports its app from."""

    pid: int
    port: int
    home: pathlib.Path

    def deploy(self, version: str) -> None:
        """Write the app in this version, or what is broken."""
        text = version if version == BROKEN else APP.replace('b"one"', f'b"{version}"')
        (self.home / "site_app.py").write_text(text)

    def signal(self, number: signal.Signals) -> None:
        """Send the first process a signal."""
        os.kill(self.pid, number)

    def ask(self) -> str:
        """Return the version that answers; empty: none does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/", headers={"Connection": "close"})
            response = connection.getresponse()
            return response.read().decode() if response.status == 200 else ""
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()

    @property
    def workers(self) -> list[int]:
        """The processes that it has started, but for a helper of multiprocessing's."""
        return [pid for pid in procs.tree(self.pid)[1:] if "resource_tracker" not in procs.command_of(pid)]


def _do_nothing(site: Site) -> None:
    """Let it happen by itself."""


def _kill_one(site: Site) -> None:
    os.kill(site.workers[0], signal.SIGKILL)


def _hang_up(site: Site) -> None:
    site.signal(signal.SIGHUP)


def _terminate(site: Site) -> None:
    site.signal(signal.SIGTERM)


def _user_2(site: Site) -> None:
    site.signal(signal.SIGUSR2)


def _touch(site: Site) -> None:
    (site.home / "touched").touch()


def _start_second_master(site: Site) -> None:
    """Let gunicorn start a second master beside the first, and end the first when the second serves."""
    _user_2(site)
    end = time.monotonic() + SIGNAL_SECONDS
    while site.ask() != SECOND and time.monotonic() < end:
        time.sleep(0.1)
    _terminate(site)


class Way(NamedTuple):
    """How an event comes about at one server."""

    act: Callable[[Site], None] = _do_nothing
    flags: str = ""
    note: str = ""
    extra_seconds: float = 0.0  # until it comes by itself


EVERYWHERE = {"nothing": Way(), "kill": Way(_kill_one), "end": Way(_terminate)}
BY_SIGNAL = {"reload": Way(_hang_up), "broken": Way(_hang_up)}
CHAIN = Way(_touch, "--touch-chain-reload {home}/touched", "chain reload")

# By server: what is not in it, the server does not have.
WAYS: dict[str, dict[str, Way]] = {
    "aserve": {
        **EVERYWHERE,
        **BY_SIGNAL,
        "recycle": Way(flags="--max-requests 5000 --max-requests-jitter 1000"),
        "upgrade": Way(_user_2, note="SIGUSR2"),
    },
    "gunicorn": {
        **EVERYWHERE,
        **BY_SIGNAL,
        "recycle": Way(flags="--max-requests 5000 --max-requests-jitter 1000"),
        "upgrade": Way(_start_second_master, note="SIGUSR2; SIGTERM to the first master when the second serves"),
    },
    "granian": {
        **EVERYWHERE,
        **BY_SIGNAL,
        "kill": Way(_kill_one, "--respawn-failed-workers"),
        "recycle": Way(flags="--workers-lifetime 60", note="it has no such limit; by age, at least 60 s", extra_seconds=60),
    },
    "uvicorn": {
        **EVERYWHERE,
        **BY_SIGNAL,
        "recycle": Way(flags="--limit-max-requests 5000 --limit-max-requests-jitter 1000"),
    },
    "uwsgi": {
        **EVERYWHERE,
        "reload": CHAIN,
        "broken": CHAIN,
        "recycle": Way(flags="--max-requests 5000 --max-requests-delta 500"),
        "upgrade": Way(_hang_up, note="SIGHUP: the master becomes its new program"),
    },
}  # fmt: skip
