"""A Django site of two workers, its possible faults, and its clients meanwhile.

A fault is a file in the site's folder: the app looks for it at each request, so that any client meets it. `tests/record_outages.py` keeps the metrics
meanwhile, for the alert rules; `make drill` looks at a person's news, and their times.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import pathlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from .metrics import UnixConnection
from .workers import Workers

THREADS = 4
APP = """\
import ctypes, os, signal, time
import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

HELD = []

def has(name):
    return os.path.exists(os.path.join(FOLDER, name))

def take(name):
    '''Take a fault away, so that one process has it; whether it was there.'''
    try:
        os.remove(os.path.join(FOLDER, name))
    except FileNotFoundError:
        return False
    return True

def index(request):
    while has("stuck"):
        time.sleep(0.05)
    if has("hang") or take("hang-once"):
        ctypes.PyDLL(None).sleep(HANG_SECONDS)  # PyDLL keeps the GIL
    if has("die") or take("die-once"):
        os.kill(os.getpid(), signal.SIGKILL)
    if has("errors"):
        raise ConnectionError("the database is gone")
    if has("slow"):
        time.sleep(1)  # a query
    if has("leak"):
        HELD.extend(open(os.devnull) for _ in range(5))
    return HttpResponse("hello")

FOLDER = os.path.dirname(os.path.abspath(__file__))
HANG_SECONDS = 300
class Urls:
    urlpatterns = [path("", index)]
settings.configure(SECRET_KEY="only here", ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=Urls, LOGGING_CONFIG=None)
app = get_wsgi_application()
"""


class Site(Workers):
    """A site, with all its signs."""

    def __init__(self, folder: pathlib.Path, *flags: str, descriptors: int = 0) -> None:
        self.metrics, self.control, self.access_log = (folder / name for name in ("metrics", "control", "access.log"))
        launcher = ("sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh") if descriptors else ()
        bind = ("--bind", "127.0.0.1:0") if descriptors else ()
        super().__init__(
            folder, APP, "--workers", "2", "--threads", str(THREADS), "--metrics", f"unix:{self.metrics}",
            "--control", str(self.control), "--access-log", str(self.access_log), *bind, *flags, launcher=launcher,
        )  # fmt: skip

    def put(self, fault: str) -> None:
        """Put a fault in."""
        (self.folder / fault).touch()

    def take(self, fault: str) -> None:
        """Remove the fault."""
        (self.folder / fault).unlink()

    def fill_disk(self) -> None:
        """Let the disk of the access log be full."""
        self.access_log.unlink()
        self.access_log.symlink_to("/dev/full")

    def ask_metrics(self, target: str = "/metrics", seconds: float = 10.0) -> str:
        """Return the answer of --metrics; "": none."""
        with contextlib.closing(UnixConnection(str(self.metrics), timeout=seconds)) as connection:
            try:
                connection.request("GET", target, headers={"Host": "a"})
                return connection.getresponse().read().decode()
            except (OSError, http.client.HTTPException):
                return ""

    def read_event(self) -> dict[str, Any]:
        """Return the data of the status page at this moment."""
        with contextlib.closing(UnixConnection(str(self.metrics), timeout=20)) as connection:
            connection.request("GET", "/events", headers={"Host": "a"})
            response = connection.getresponse()
            while not (line := response.readline()).startswith(b"data: "):
                assert line, "the stream has ended"
            event: dict[str, Any] = json.loads(line[len(b"data: ") :])
            return event


class Clients:
    """Threads that ask for / again and again, each on a fresh connection; and the outcomes."""

    def __init__(
        self, site: Site, count: int = 8, patience_seconds: float | None = 60.0, pause_seconds: float = 0.2
    ) -> None:
        """`patience_seconds`: until a client gives up; None: never."""
        self.site = site
        self._patience_seconds, self._pause_seconds = patience_seconds, pause_seconds
        self._is_over = threading.Event()
        self.seen: collections.Counter[str] = collections.Counter()
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask no more; unanswered requests get no answer."""
        self._is_over.set()
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self.seen[self._ask()] += 1
            except OSError as exc:
                self.seen[type(exc).__name__] += 1
            self._is_over.wait(self._pause_seconds)

    def _ask(self) -> str:
        with socket.create_connection(self.site.address, timeout=self._patience_seconds) as client:
            self._sockets.add(client)
            try:
                client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                received = b""
                while octets := client.recv(65536):
                    received += octets
                return received[9:12].decode() or "closed"
            finally:
                self._sockets.discard(client)


class SlowHeads:
    """Connections that never come to the end of a request's head: a closed one is opened again."""

    def __init__(self, site: Site, count: int) -> None:
        self._site = site
        self._clients: list[socket.socket] = []
        self._count = count
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(20)
        for client in self._clients:
            client.close()

    def _run(self) -> None:
        while not self._is_over.wait(0.2):
            self._clients = [client for client in self._clients if self._is_open(client)]
            while len(self._clients) < self._count and not self._is_over.is_set():
                client = socket.create_connection(self._site.address, timeout=20)
                client.setblocking(False)
                client.send(b"GET / HTTP/1.1\r\n")
                self._clients.append(client)

    def _is_open(self, client: socket.socket) -> bool:
        try:
            if client.recv(65536):
                raise ConnectionError
        except BlockingIOError:
            return True
        except OSError:
            pass
        client.close()
        return False


@contextlib.contextmanager
def clients_of(site: Site, **options: Any) -> Iterator[Clients]:
    """Let clients ask within the block."""
    clients = Clients(site, **options)
    try:
        yield clients
    finally:
        clients.stop()
