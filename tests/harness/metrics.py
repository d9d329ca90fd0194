"""A server's text at --metrics, read by Prometheus' own parser."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Numbers = dict[tuple[str, ...], float]  # by name and the values of labels, in the order of the labels' names


class UnixConnection(http.client.HTTPConnection):
    """To a unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


def numbers_of(text: bytes) -> Numbers:
    """Return a text's numbers."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def ready_of(path: Any) -> int:
    """Return the status of /ready; 0: there is no answer."""
    with contextlib.closing(UnixConnection(str(path), timeout=20)) as connection:
        try:
            connection.request("GET", "/ready", headers={"Host": "a"})
            return connection.getresponse().status
        except OSError:
            return 0


def scrape(path: Any) -> tuple[Numbers, Numbers]:
    """Return all numbers from a unix socket, and the ones that must never fall."""
    with contextlib.closing(UnixConnection(str(path), timeout=20)) as connection:
        connection.request("GET", "/metrics", headers={"Host": "a"})
        text = connection.getresponse().read().decode()
    numbers, rising = {}, {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *(sample.labels[name] for name in sorted(sample.labels)))
            assert key not in numbers, key
            numbers[key] = sample.value
            if family.type in ("counter", "histogram"):
                rising[key] = sample.value
    return numbers, rising


def requests(path: Any, *, end: str = "complete", status: str = "2xx") -> float:
    """Return how many requests have ended in this way, in all workers."""
    numbers, _ = scrape(path)
    return sum(
        count for key, count in numbers.items() if key[0] == "aserve_requests_total" and key[1:3] == (end, status)
    )


class Scraping:
    """A thread that scrapes all the time, and its faults."""

    def __init__(self, path: Any) -> None:
        self._path = path
        self._is_over = False
        self.count = 0
        self.fallen: list[Any] = []
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        before: Numbers = {}
        try:
            while not self._is_over:
                _, rising = scrape(self._path)
                self.fallen += [(key, old, rising.get(key)) for key, old in before.items() if rising.get(key, -1) < old]
                before = rising
                self.count += 1
        except Exception as exc:
            self.error = exc

    def stop(self) -> None:
        """Scrape no more."""
        self._is_over = True
        self._thread.join(20)


@contextlib.contextmanager
def scraping(path: Any) -> Iterator[Scraping]:
    """Scrape while the block runs; afterwards, each answer was there, and no number has fallen."""
    running = Scraping(path)
    try:
        yield running
    finally:
        running.stop()
    assert running.error is None, running.error
    assert running.fallen == [] and running.count
