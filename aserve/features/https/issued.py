"""A certificate in its file: from when and until when it is valid, and when it is to be renewed.

Owns:     Issued, Given, show_time.
Thread:   any; it reads a file.
Not here: ordering one (renewal.py).
"""

from __future__ import annotations

import datetime
import re

from ...core.named_tuple import NamedTuple
from ...core.patterns import lazy_pattern
from ...tls.validity import dates_of
from .folder import MAX_BYTES, Folder
from .schedule import renew_at

_CERTIFICATE = lazy_pattern(rb"-----BEGIN CERTIFICATE-----(.*?)-----END", re.DOTALL)


class Issued(NamedTuple):
    """The dates of one, as times of the clock."""

    until: float
    renew_at: float

    @classmethod
    def of(cls, folder: Folder, name: str) -> Issued | None:
        """Return those of a name's certificate, be it a placeholder; None: it cannot be read."""
        try:
            with open(folder.certificate(name), "rb") as file:
                return cls.of_pem(file.read(MAX_BYTES))
        except OSError:
            return None

    @classmethod
    def of_pem(cls, pem: bytes) -> Issued | None:
        """Return those of the first certificate in a text; None: there is none, or it is damaged."""
        text = _CERTIFICATE.search(pem)
        found = dates_of(text[1]) if text is not None else None
        if found is None:
            return None
        return cls(found.end.timestamp(), renew_at(found.begin, found.end, found.certificate))


class Given(NamedTuple):
    """A certificate that one of the hosts has got."""

    directory: str
    pem: bytes  # key and chain


def show_time(at: float) -> str:
    """Return a time for the log."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"
