"""A server with --https at the address of an authority of the tests, with a clock moved by a test."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pathlib
import socket
import ssl
import stat
import sys
import time

import pytest

from .client import TLSClient
from .interpreter import has_module
from .load import Load, load
from .pebble import Pebble, needs_pebble, on_linux
from .waiting import wait_until
from .workers import Workers

# Marks of tests with such a server.
NEEDS = [
    needs_pebble,
    on_linux,
    pytest.mark.skipif(os.geteuid() != 0, reason="ports 80 and 443 take root"),
    pytest.mark.skipif(not has_module("acme"), reason="acme is not installed"),
]
SECONDS = 60.0  # for an order, on a busy machine
HOUR, DAY = 3600, 86400
RENEWAL = 64 * DAY  # a certificate of 90 days is then due
UMASK = ("sh", "-c", 'umask 0; exec "$@"', "sh")  # the rights of new files are then the server's own choice
# The command, for which a minute passes in a moment. Its time of day for renewals is apart from the real one by the seconds in a file.
COMMAND = """\
import os, sys, time
from aserve.features.https import renewal

class Clock:
    def __call__(self):
        with open(os.environ["CLOCK"]) as file:
            return time.time() + float(file.read() or 0)

renewal.LOOK_SECONDS = 0.2
renewal.Renewal.__init__.__defaults__ = (None, Clock())
from aserve.command.cli import main
sys.exit(main())
"""


class HTTPSSite(Workers):
    """`aserve APP --https NAME...`; it answers at ports 80 and 443 of the authority's address, where all names lead."""

    command = (sys.executable, "-I", "-c", COMMAND)

    def __init__(
        self, pebble: Pebble, folder: pathlib.Path, *names: str, flags: tuple[str, ...] = (), directory: str | None = None,
        host: str | None = None, tls_port: int = 443, http: bool = True, binds: tuple[str, ...] | None = None,
        launcher: tuple[str, ...] = ("env",),
    ) -> None:  # fmt: skip
        """`directory`: a URL, not the authority's own; `http`: with a bind without TLS, too; `binds`: in place of these two."""
        self._pebble, self._clock = pebble, folder / "clock"
        self.files = folder / "https"
        self.set_clock(0)
        self.host, self.tls_port = host or pebble.host, tls_port
        if binds is None:
            binds = (f"https://{self.host}:{tls_port}", *([f"{self.host}:80"] if http else []))
        words = [f"--https={name}" for name in names] + [f"--bind={bind}" for bind in binds]
        words += [f"--https-folder={self.files}", "--acme-terms=accept", f"--acme-ca={pebble.ca}", "--log-level=info"]
        words += [f"--acme-directory={directory or pebble.url}", *flags]
        # With a launcher, there is no bind but these.
        super().__init__(folder, "one", *words, launcher=launcher, CLOCK=str(self._clock))

    def set_clock(self, seconds: float) -> None:
        """Let the time be so much later."""
        beside = self._clock.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.replace(self._clock)

    def certificate(self, name: str) -> bytes | None:
        """Return the certificate for a client that trusts the authority alone, in DER; None: the client refuses it."""
        context = ssl.create_default_context(cadata=self._pebble.root)
        try:
            with (
                socket.create_connection((self.host, self.tls_port), SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=name) as client,
            ):
                return client.getpeercert(binary_form=True)
        except ssl.SSLCertVerificationError:
            return None

    def wait_for_certificate(self, name: str, other_than: bytes = b"") -> bytes:
        """Return a name's certificate, once it is not this other, and its order has ended: that still reads clock and file."""

        def look() -> bytes | None:
            time.sleep(0.1)  # each refusal is a line of the log
            found = self.certificate(name)
            return None if found == other_than or not self.is_turn_free() else found

        return wait_until(look, SECONDS, lambda: self.log)

    def is_turn_free(self) -> bool:
        """Return whether no process has its turn to order."""
        with open(self.files / "lock", "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def count_orders(self, name: str) -> int:
        """Return how often a certificate has been asked for."""
        return self.count(rf"asking \S+ for a certificate for {name}\n")


def load_over_tls(host: str) -> contextlib.AbstractContextManager[Load]:
    """Ask over TLS, on kept connections and on new ones, as `load` does."""
    connect = functools.partial(TLSClient, (host, 443), context=ssl._create_unverified_context())
    return load(connect, kinds=("fresh", "fresh", "kept"))


def rights_below(folder: pathlib.Path) -> set[tuple[bool, int, int]]:
    """Return the rights of a folder and of all in it: whether it is a folder, its mode, its owner."""
    found: set[tuple[bool, int, int]] = set()
    for path in [folder, *folder.rglob("*")]:
        try:
            status = path.lstat()
        except FileNotFoundError:  # a file of a moment
            continue
        found.add((path.is_dir(), stat.S_IMODE(status.st_mode), status.st_uid))
    return found


def private(uid: int = 0) -> set[tuple[bool, int, int]]:
    """Return the rights of folders and files that no other user can read."""
    return {(True, 0o700, uid), (False, 0o600, uid)}
