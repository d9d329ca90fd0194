"""The answers at --metrics: the text for Prometheus, the status page, and its stream of events.

Owns:     MetricsPages: the rights of clients, and the response to each request; the page's file.
Thread:   that of its owner: a supervisor's, or an event loop's.
Spec:     RFC 9112, as far as GET needs it; HTML, "Server-sent events"; CSP Level 3.
Not here: connections (scrapes.py), the numbers (text.py, picture.py), the page itself (page.html).

The page shows running requests, and settings. So by default only this machine sees it: a browser there, ssh -L, kubectl
port-forward, or a front server that asks for a password. A browser on this machine also runs pages of strangers, whose host name may
resolve to 127.0.0.1 (DNS rebinding): so there a Host other than `localhost` is refused.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import pkgutil
import re
import time
from collections.abc import Sequence
from typing import Callable

from ...connections.addresses import is_address
from ...core.named_tuple import NamedTuple
from .balance import Balance
from .text import CONTENT_TYPE

logger = logging.getLogger("aserve")

METRICS, EVENTS, LIVE, READY = "/metrics", "/events", "/live", "/ready"
PAGES = ("/", "/status")
FOR_MACHINES = (METRICS, LIVE, READY)  # for every client that can connect
EVENT_STREAM = "text/event-stream; charset=utf-8"
# How long an answer is cached for all clients. Guess.
FRESH_SECONDS = 0.2
# How long a page that has lost its stream waits before it connects again.
RETRY_MILLISECONDS = 2000
REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 421: "Misdirected Request",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip
# Read at import: later, --user may not be able to.
_PAGE = pkgutil.get_data(__package__, "page.html") or b""
ALLOW = "Allow: GET, HEAD\r\n"
RETRY = "Retry-After: 5\r\n"
# Pages of other sites may not read this one, or show it in a frame.
OURS_ONLY = (
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
)


class Whence(NamedTuple):
    """The origin of a connection."""

    is_unix: bool = False
    is_own: bool = True  # from this machine
    is_loopback: bool = True  # to an address of loopback
    is_stats: bool = False  # to that of --stats


class Reply(NamedTuple):
    """The octets for a client; with `is_stream`, events follow."""

    octets: bytes
    is_stream: bool = False


class Wanted(NamedTuple):
    """A request of this method wants the metrics, which must be made first."""

    method: str


class MetricsPages:
    """The pages of one address, and which clients may see them."""

    def __init__(
        self,
        metrics: Callable[[], bytes],
        event: Callable[[], bytes],
        stats: Callable[[], bytes],
        reach: Callable[[], str],
        balance: Balance,
    ) -> None:
        """`metrics` makes the text, `event` an event, `stats` uWSGI's JSON; `reach`: --status-page."""
        self._balance = balance
        self._make_metrics = metrics
        self._metrics, self._metrics_at = b"", float("-inf")
        self._event = event
        self._first, self._first_at = b"", float("-inf")  # for new readers
        self._make_stats = stats
        self._stats, self._stats_at = b"", float("-inf")
        self._reach = reach
        self._policy = _policy_of(_PAGE)

    def next_event(self) -> bytes:
        """Return the next event for readers of the stream."""
        try:
            return b"data: %b\n\n" % self._event()
        except Exception:
            logger.exception("internal error; please report this as a bug in aserve")
            return b": no event\n\n"

    def stats(self) -> bytes:
        """Return the answer to a connection to --stats; b"" on an internal error."""
        now = time.monotonic()
        if now - self._stats_at >= FRESH_SECONDS:
            try:
                self._stats, self._stats_at = self._make_stats(), now
            except Exception:
                logger.exception("internal error; please report this as a bug in aserve")
                return b""
        return self._stats

    def agent_line(self) -> bytes:
        """Return the answer to a connection to --agent-check; b"" on an internal error: HAProxy then keeps the last state."""
        try:
            return self._balance.agent_line()
        except Exception:
            logger.exception("internal error; please report this as a bug in aserve")
            return b""

    def tell_metrics(self, app_text: bytes, methods: Sequence[str]) -> list[Reply]:
        """Make the text, followed by the app's; return the responses to requests of these methods."""
        try:
            self._metrics, self._metrics_at = self._make_metrics() + app_text, time.monotonic()
            return [respond(200, self._metrics, method) for method in methods]
        except Exception:
            logger.exception("internal error; please report this as a bug in aserve")
            return [respond(500, "the metrics could not be made; aserve's log says why", method) for method in methods]

    def answer(self, head: bytes, whence: Whence, has_room: bool) -> Reply | Wanted:
        """Return the response to a request; `has_room`: the stream may have one more reader."""
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return respond(400, "this is not HTTP/1.1")
        method, path = words[0], words[1].partition("?")[0]
        if whence.is_stats:
            refusal = self._refuse(METRICS, _host_of(lines), whence, method)
            return refusal if refusal is not None else respond(200, self.stats(), method, kind="application/json")
        if path not in FOR_MACHINES and path != EVENTS and path not in PAGES:
            return respond(404, f"the status page is at /, aserve's metrics are at {METRICS}", method)
        if method not in ("GET", "HEAD"):
            return respond(405, f"ask with GET or HEAD, not {method[:20]}", method, ALLOW)
        refusal = self._refuse(path, _host_of(lines), whence, method)
        return refusal if refusal is not None else self._show(path, method, has_room)

    def _refuse(self, path: str, host: str, whence: Whence, method: str) -> Reply | None:
        reach = self._reach()
        if path not in FOR_MACHINES and reach == "off":
            return respond(
                404, f"there is no status page (--status-page off); aserve's metrics are at {METRICS}", method
            )
        if path not in FOR_MACHINES and reach == "local" and not (whence.is_unix or whence.is_own):
            why = "the status page is for this machine: use ssh -L or kubectl port-forward, or --status-page all"
            return respond(403, why, method)
        is_known = (
            whence.is_unix or not (whence.is_loopback or (whence.is_own and path not in FOR_MACHINES)) or _is_here(host)
        )
        return None if is_known else respond(421, "this address is asked by its number, or as localhost", method)

    def _show(self, path: str, method: str, has_room: bool) -> Reply | Wanted:
        now = time.monotonic()
        if path == METRICS:
            is_fresh = now - self._metrics_at < FRESH_SECONDS
            return respond(200, self._metrics, method) if is_fresh else Wanted(method)
        if path in (LIVE, READY):
            why = self._balance.why_dead() if path == LIVE else self._balance.why_unready()
            return respond(503 if why else 200, why or path[1:], method, RETRY if why else "")
        if path in PAGES:
            return respond(200, _PAGE, method, self._policy + OURS_ONLY, "text/html; charset=utf-8")
        if not has_room:
            return respond(503, "too many look at the status page already", method, RETRY)
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {EVENT_STREAM}\r\n{OURS_ONLY}Cache-Control: no-store\r\n"
            f"Connection: close\r\n\r\n"
        )
        if method == "HEAD":
            return Reply(head.encode())
        if now - self._first_at >= FRESH_SECONDS:
            self._first, self._first_at = self.next_event(), now
        return Reply(b"%bretry: %d\n\n%b" % (head.encode(), RETRY_MILLISECONDS, self._first), True)


def respond(status: int, body: bytes | str, method: str = "GET", fields: str = "", kind: str = CONTENT_TYPE) -> Reply:
    """Return a whole response; a str is sent as a line of plain text."""
    octets = body if isinstance(body, bytes) else f"{body}\n".encode()
    kind = kind if isinstance(body, bytes) else "text/plain; charset=utf-8"
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(octets)}\r\n"
        f"{fields}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return Reply(head.encode() + (b"" if method == "HEAD" else octets))


def _host_of(lines: list[str]) -> str:
    """Return the Host field; "" without one: every browser sends it."""
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "host":
            return value.strip()
    return ""


def _is_here(host: str) -> bool:
    """Whether a Host is an IP address, or a name that is always this machine's (RFC 6761 6.3)."""
    found = re.match(r"(?:\[([^\]]*)\]|([^:]*))(?::[0-9]*)?\Z", host)
    name = (found[1] or found[2] or "").lower() if found else "?"
    return name in ("", "localhost") or name.endswith(".localhost") or is_address(name)


def _policy_of(page: bytes) -> str:
    """Return the policy that allows the page's own style and script, by their hashes, and nothing else."""

    def allow(element: bytes) -> str:
        (text,) = re.findall(rb"<%b>(.*?)</%b>" % (element, element), page, re.S)
        return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"

    return (
        f"Content-Security-Policy: default-src 'none'; style-src {allow(b'style')}; script-src {allow(b'script')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    )
