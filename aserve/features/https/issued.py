"""A certificate in its file: from when and until when it is valid, and when it is to be renewed.

Owns:     Issued, Given, refuse_unusable, show_time.
Thread:   any; it reads a file.
Not here: ordering one (renewal.py), its names, key and signatures (tls/chain.py).
"""

from __future__ import annotations

import datetime
import functools

from ...core.named_tuple import NamedTuple
from ...tls.chain import chain_of, find_fault
from ...tls.validity import Validity
from .folder import MAX_BYTES, Folder
from .schedule import renew_at

# Guess: how far a clock may be behind that of an authority, which has certificates begin as they are signed.
SKEW_SECONDS = 300.0


class UnusableError(Exception):
    """No client would take this certificate; the text says why."""


class Issued(NamedTuple):
    """The dates of one, as times of the clock."""

    until: float
    renew_at: float
    begin: float = 0.0

    @classmethod
    def of(cls, folder: Folder, name: str) -> Issued | None:
        """Return those of a name's certificate, be it a placeholder; None: no client would take it for that name."""
        path = folder.certificate(name)
        try:
            with open(path, "rb") as file:
                return _issued(path, name, file.read(MAX_BYTES))
        except OSError:
            return None

    @classmethod
    def of_pem(cls, pem: bytes) -> Issued | None:
        """Return those of the first certificate in a text, the server's own; None: there is none, or one of them is damaged."""
        chain = chain_of(pem)
        return cls._of_certificate(chain[0]) if chain else None

    @classmethod
    def _of_certificate(cls, one: Validity) -> Issued:
        return cls(one.end.timestamp(), renew_at(one.begin, one.end, one.certificate), one.begin.timestamp())

    def is_valid(self, now: float) -> bool:
        """Whether it is valid, but for a clock that is somewhat behind."""
        return self.begin - SKEW_SECONDS <= now < self.until


@functools.lru_cache(maxsize=256)
def _issued(path: str, name: str, pem: bytes) -> Issued | None:
    """Return the dates of a file with these octets: each minute it is the same."""
    return Issued.of_pem(pem) if not find_fault(path, name) else None


def refuse_unusable(path: str, name: str, now: float, present: Issued | None = None) -> None:
    """
    Look at a file before it becomes a name's certificate; `present`: the one in its place.

    Raises:
        UnusableError: no client would take it, or it is to be renewed already, and ends before the present one.
        OSError: it cannot be read.
    """
    fault = find_fault(path, name)
    if fault:
        raise UnusableError(fault)
    with open(path, "rb") as file:
        # A client may know another way from the issuer on, by certificates that are not in the chain.
        chain = [Issued._of_certificate(one) for one in chain_of(file.read())[:2]]
    first = chain[0]
    is_worse = present is not None and first.renew_at <= now and first.until < present.until
    for place, one in enumerate(chain, 1):
        if not one.is_valid(now) or is_worse:
            dates = f"from {show_time(one.begin)} until {show_time(one.until)}"
            raise UnusableError(f"certificate {place} of its chain is valid {dates}, and here it is {show_time(now)}")


class Given(NamedTuple):
    """A certificate that one of the hosts has got."""

    directory: str
    pem: bytes  # key and chain


def show_time(at: float) -> str:
    """Return a time for the log."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"
