"""The common property of several hosts of one site over --shared: answers to challenges, certificates with their keys, and the turn.

Owns:     SharingHosts.
Thread:   any; each call waits for the store, at most two seconds.
Not here: the store and its leases (features/sharing/).

An authority asks any of the hosts under the name, whichever has ordered. So each host without a file answers from the store, by HTTP-01 alone: the
event loop, with the answers of TLS-ALPN-01, waits for no store. Keys are named after the names of hosts, not after the app.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from ..sharing.leases import Leases
from ..sharing.settings import Shared
from ..sharing.store import Store, StoreError
from .issued import GivenCertificate

# Longer than an order takes.
ANSWER_SECONDS = 900


class SharingHosts:
    """The hosts with the same store and prefix."""

    def __init__(self, url: str, prefix: str | None) -> None:
        self._store = Store(Shared(url, prefix or "https"))
        self._leases = Leases(self._store)

    def _key(self, kind: str, name: str) -> bytes:
        return self._store.key("https", kind, name)

    def put_answer(self, token: str, octets: bytes) -> None:
        """
        Let all hosts give this answer.

        Raises:
            StoreError: the store does not have the answer.
        """
        self._store.ask("SET", self._key("answer", token), octets, "EX", ANSWER_SECONDS)

    def answer(self, token: str) -> bytes | None:
        """Return an answer put by another host; None: no answer, or the store is away."""
        with contextlib.suppress(StoreError):
            found: bytes | None = self._store.ask("GET", self._key("answer", token))
            return found
        return None

    def put(self, name: str, given: GivenCertificate) -> None:
        """
        Let all hosts have a certificate.

        Raises:
            StoreError: see put_answer.
        """
        text = json.dumps({"directory": given.directory, "pem": given.pem.decode("ascii")})
        self._store.ask("SET", self._key("certificate", name), text)

    def get(self, name: str) -> GivenCertificate | None:
        """
        Return the certificate of a name; None: no host has got one, or the store's text has another form.

        Raises:
            StoreError: the store is away.
        """
        text = self._store.ask("GET", self._key("certificate", name))
        try:
            found = json.loads(text or b"null")
            return GivenCertificate(found["directory"], found["pem"].encode("ascii"))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def wait(self, name: str, seconds: float) -> None:
        """Let no host order this name for a while: an order has failed. If the store is away, other hosts find out by themselves."""
        with contextlib.suppress(StoreError):
            self._store.ask("SET", self._key("wait", name), "1", "EX", max(1, int(seconds)))

    def wait_no_more(self, name: str) -> None:
        """Let hosts order this name again."""
        with contextlib.suppress(StoreError):
            self._store.ask("DEL", self._key("wait", name))

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[bool]:
        """
        Yield whether this host may order the name now: no other does, and none has failed lately.

        Raises:
            StoreError: the store is away.
        """
        lease = self._leases.take(self._key("turn", name), f"the turn to order a certificate for {name}")
        try:
            yield lease is not None and not self._store.ask("EXISTS", self._key("wait", name))
        finally:
            if lease is not None:
                self._leases.let_go(lease)
