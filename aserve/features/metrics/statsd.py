"""Sends the metrics to statsd, once a second (--statsd).

Owns:     Statsd: its socket, the numbers sent so far, and the names, which are gunicorn's where it has one.
Thread:   that of its owner: a supervisor's, or an event loop's.
Spec:     statsd, "Metric Types": c, g, ms and sample rates; several to a datagram.
Not here: counting (counting.py, totals.py).

Sending never blocks: a datagram that the kernel does not take now is lost. A counter is sent as its increase since the last second.
statsd wants single request times, but aserve counts in buckets: each bucket is sent as one time with a sample rate that gives
the number of requests. The times are chosen so that their sum is the real one: counts and means are right, and quantiles within a
factor of two.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...core.log_once import LogOnce
from ...settings import parse_bind
from .settings import MetricsSettings
from .table import BOUNDS, BUCKETS, CLASSES, ENDS, METRICS, PLACES, SUM, THOUSANDTH, WORDS

logger = logging.getLogger("aserve")

# Fits into a packet on any network: Ethernet's 1500 octets, less the headers of IPv6, UDP and a tunnel.
MAX_DATAGRAM_BYTES = 1400

Words = Sequence[int]

_REQUESTS = PLACES["aserve_requests_total"]
# By a counter's name, the words to add up.
COUNTERS: dict[str, list[int]] = {
    "requests": [_REQUESTS + place for place in range(len(CLASSES) * len(ENDS))],
    **{
        f"request.status.{name}": [_REQUESTS + number * len(ENDS) + end for end in range(len(ENDS))]
        for number, name in enumerate(CLASSES)
    },
    "requests.cut": [_REQUESTS + number * len(ENDS) + ENDS.index("cut") for number in range(len(CLASSES))],
    "requests.refused": [
        PLACES["aserve_requests_refused_total"] + cell
        for cell in range(len(METRICS["aserve_requests_refused_total"].cells))
    ],
    "response.bytes": [PLACES["aserve_response_body_bytes_total"]],
    "app.exceptions": [PLACES["aserve_app_exceptions_total"]],
}
TIMES = {
    "request.duration": PLACES["aserve_request_duration_seconds"],
    "request.queue": PLACES["aserve_request_queue_seconds"],
}
_THREADS = PLACES["aserve_threads"]
GAUGES: dict[str, list[int]] = {
    "threads.limit": [PLACES["aserve_threads_limit"]],
    **{f"threads.{name}": [_THREADS + cell] for cell, name in ((0, "busy"), (3, "stuck"))},
    "requests.waiting": [PLACES["aserve_requests_waiting"]],
    "requests.in_flight": [PLACES["aserve_requests_in_flight"]],
    "connections": [PLACES["aserve_connections"] + cell for cell in range(len(METRICS["aserve_connections"].cells))],
}
IN_THOUSANDTHS = {"threads.busy", "threads.stuck"}


class Statsd:
    """The connection to one statsd."""

    def __init__(self, address: str, prefix: str) -> None:
        """Look the address up, once, since that may take a while."""
        self._prefix = prefix
        self._sent: Words = [0] * WORDS
        self._socket: socket.socket | None = None
        self._line = LogOnce(logger, logging.WARNING)
        bind = parse_bind(address)
        try:
            if bind.kind == "unix":
                self._connect(socket.AF_UNIX, bind.unix_address)
            else:
                found = socket.getaddrinfo((bind.host or "localhost").encode(), bind.port, type=socket.SOCK_DGRAM)
                self._connect(found[0][0], found[0][4])
            logger.info("sending statistics to statsd at %s", address)
        except OSError as exc:
            logger.warning(
                "cannot send to statsd at %s: %s; correct the address, or start statsd, and restart aserve",
                address,
                exc.strerror or exc,
            )

    @classmethod
    def of(cls, config: MetricsSettings) -> Statsd | None:
        """Return the connection to the statsd of the settings; None: --statsd is not set."""
        return cls(config.statsd, config.statsd_prefix) if config.statsd else None

    def _connect(self, family: int, address: Any) -> None:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        self._socket, self._address = sock, address

    def begin_at(self, words_by_slot: Mapping[int, Words]) -> None:
        """Treat these counts as sent: the previous process has sent them."""
        self._sent = _add_up(words_by_slot)

    def send(self, words_by_slot: Mapping[int, Words], workers: int) -> None:
        """Send the increases of counters, and the gauges, once a second."""
        words = _add_up(words_by_slot)
        lines = [f"workers:{workers}|g", *_lines(words, self._sent)]
        self._sent = words
        if self._socket is None:
            return
        try:
            for datagram in _pack([f"{self._prefix}.{line}" for line in lines]):
                self._socket.sendto(datagram, self._address)
            self._line.reset()
        except BlockingIOError:
            pass  # statsd does not keep up: drop these
        except OSError as exc:  # nothing listens on the unix socket, for now
            self._line.log("cannot send statistics to statsd: %s; trying again each second", exc.strerror or exc)

    def close(self) -> None:
        """Send nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _add_up(words_by_slot: Mapping[int, Words]) -> Words:
    return [sum(column) for column in zip(*words_by_slot.values())] or [0] * WORDS


def _lines(words: Words, before: Words) -> Iterator[str]:
    risen = [now - then for now, then in zip(words, before)]
    for name, places in COUNTERS.items():
        count = sum(risen[place] for place in places)
        if count > 0:
            yield f"{name}:{count}|c"
    for name, places in GAUGES.items():
        count = sum(words[place] for place in places)
        yield f"{name}:{f'{count * THOUSANDTH:.4g}' if name in IN_THOUSANDTHS else count}|g"
    for name, place in TIMES.items():
        yield from _time_lines(name, risen[place : place + SUM + 1])


def _time_lines(name: str, risen: Words) -> Iterator[str]:
    """Yield one time in milliseconds for each bucket; the last, which has no bound, is assumed to end at twice its beginning."""
    middles = [bound * 750 for bound in BOUNDS]  # the middle of a bucket from half of its bound to its bound
    middles.append(BOUNDS[-1] * 1500)
    guessed = sum(count * middle for count, middle in zip(risen, middles))
    if not guessed:
        return
    scale = risen[SUM] / 1000 / guessed
    for count, middle in zip(risen[: BUCKETS + 1], middles):
        if count > 0:
            rate = f"|@{1 / count:.9g}" if count > 1 else ""
            yield f"{name}:{middle * scale:.6g}|ms{rate}"


def _pack(lines: Sequence[str]) -> Iterator[bytes]:
    """Yield datagrams, each of whole lines."""
    datagram = b""
    for line in map(str.encode, lines):
        if datagram and len(datagram) + 1 + len(line) > MAX_DATAGRAM_BYTES:
            yield datagram
            datagram = b""
        datagram += b"\n" + line if datagram else line
    yield datagram
