"""The dates of a certificate, and the issuer.

Owns:     warn_of_dates; Validity, dates_of, read_validity; PLACEHOLDER, the mark of a stand-in for a certificate.
Thread:   any; pure, but for the clock.
Spec:     RFC 5280 section 4.1.
Not here: loading certificates (certificates.py).
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator

from ..core.named_tuple import NamedTuple

PLACEHOLDER = "aserve: placeholder until the certificate is there"  # the organization of the subject


def warn_of_dates(path: str, pem: bytes) -> Iterator[str]:
    """Return a warning if a certificate, the base64 of a PEM file, is not valid now."""
    found = dates_of(pem)
    if found is None:
        return  # accepted by OpenSSL; only the dates cannot be read here
    _, begin, end, _, _ = found
    now = datetime.datetime.now(datetime.timezone.utc)
    if now > end:
        yield f"the certificate {path} expired on {end:%Y-%m-%d %H:%M} UTC; clients will refuse it"
    elif now < begin:
        yield f"the certificate {path} is not valid before {begin:%Y-%m-%d %H:%M} UTC; until then clients refuse it"


class Validity(NamedTuple):
    certificate: bytes  # DER, as issuer and subject
    begin: datetime.datetime
    end: datetime.datetime
    issuer: bytes
    subject: bytes


def dates_of(pem: bytes) -> Validity | None:
    """Return the dates of a certificate, the base64 of a PEM file; None: damaged."""
    try:
        octets = base64.b64decode(pem)
        _, _, issuer, _, subject = _read_elements(octets)
        return Validity(octets, *read_validity(octets), issuer, subject)
    except (ValueError, IndexError):
        return None


def read_validity(certificate: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    """
    Return the first and the last moment of a certificate; the ssl module gives the two to clients only.

    Raises:
        ValueError, IndexError: not a certificate in DER.

    Spec: RFC 5280 section 4.1.
    """
    validity = _read_elements(certificate)[3]
    _, position, _ = _read_der(validity, 0)
    dates = []
    for _ in range(2):
        tag, start, position = _read_der(validity, position)
        # RFC 5280 4.1.2.5: years of two digits are from 1950 to 2049; so no century is guessed.
        text = validity[start:position].decode("ascii")
        if tag == 0x17:
            text = ("19" if text >= "5" else "20") + text
        date = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ")
        dates.append(date.replace(tzinfo=datetime.timezone.utc))
    return dates[0], dates[1]


def _read_elements(certificate: bytes) -> list[bytes]:
    """Return serial number, algorithm, issuer, dates and subject, in DER."""
    _, start, _ = _read_der(certificate, 0)
    _, position, _ = _read_der(certificate, start)
    found: list[bytes] = []
    while len(found) < 5:
        tag, _, end = _read_der(certificate, position)
        if tag != 0xA0:  # the version, maybe missing
            found.append(certificate[position:end])
        position = end
    return found


def _read_der(data: bytes, position: int) -> tuple[int, int, int]:
    """Return tag, start and end of the contents of the element at `position`."""
    tag, length = data[position], data[position + 1]
    position += 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[position : position + count], "big")
        position += count
    return tag, position, position + length
