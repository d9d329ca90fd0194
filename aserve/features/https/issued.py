"""A certificate in a file: the dates, and the time of the renewal.

Owns:     Issued, GivenCertificate, refuse_unusable.
Thread:   any; a file is read.
Not here: ordering one (renewal.py), the names, key and signatures (tls/chain.py).
"""

from __future__ import annotations

import functools

from ...core.named_tuple import NamedTuple
from ...tls.chain import chain_of, find_fault
from ...tls.validity import Validity
from .folder import MAX_BYTES, Folder
from .schedule import renew_at
from .settings import show_time

# Guess: the lag of a clock behind an authority's; certificates begin at their signing.
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
        """Return the dates of a name's certificate, be it a placeholder; None: no client would accept the certificate for that name."""
        path = folder.certificate(name)
        try:
            with open(path, "rb") as file:
                return _issued(path, name, file.read(MAX_BYTES))
        except OSError:
            return None

    @classmethod
    def of_pem(cls, pem: bytes) -> Issued | None:
        """Return the dates of the first certificate in a text, the server's own; None: there is none, or one is damaged."""
        chain = chain_of(pem)
        return cls._of_certificate(chain[0]) if chain else None

    @classmethod
    def _of_certificate(cls, one: Validity) -> Issued:
        return cls(one.end.timestamp(), renew_at(one.begin, one.end, one.certificate), one.begin.timestamp())

    def is_valid(self, now: float) -> bool:
        """Whether the certificate is valid, also by a clock somewhat behind."""
        return self.begin - SKEW_SECONDS <= now < self.until


@functools.lru_cache(maxsize=256)
def _issued(path: str, name: str, pem: bytes) -> Issued | None:
    """Return the dates of a file with these octets: the same each minute."""
    return Issued.of_pem(pem) if not find_fault(path, name) else None


def refuse_unusable(path: str, name: str, now: float, present: Issued | None = None) -> None:
    """
    Look at a file before it becomes a name's certificate; `present`: the name's certificate so far.

    Raises:
        UnusableError: no client would accept the file; or it is due for renewal already, and ends before the present one.
        OSError: the file cannot be read.
    """
    fault = find_fault(path, name)
    if fault:
        raise UnusableError(fault)
    with open(path, "rb") as file:
        # A client may know another way from the issuer on, by certificates outside the chain.
        chain = [Issued._of_certificate(one) for one in chain_of(file.read())[:2]]
    first = chain[0]
    is_worse = present is not None and first.renew_at <= now and first.until < present.until
    for place, one in enumerate(chain, 1):
        if not one.is_valid(now) or is_worse:
            dates = f"from {show_time(one.begin)} until {show_time(one.until)}"
            raise UnusableError(f"certificate {place} of its chain is valid {dates}, and here it is {show_time(now)}")


class GivenCertificate(NamedTuple):
    """A certificate got by one of the hosts."""

    directory: str
    pem: bytes  # key and chain
