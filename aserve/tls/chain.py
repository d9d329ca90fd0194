"""Faults of a file of key and chain in a client's eyes, found before a client gets the file.

Owns:     chain_of, find_fault.
Thread:   any; a file is read, within a few milliseconds.
Spec:     RFC 8555 section 9.1 (the form); RFC 8446 section 4.4.2 (the order); RFC 5280 section 6.
Not here: dates (validity.py), serving the file (certificates.py).

A handshake in memory has OpenSSL judge as a client does: the key must be the certificate's, the name in the certificate, and each signature right.
The client trusts the last certificate of the chain, as no list of authorities has the private ones.
"""

from __future__ import annotations

import contextlib
import ssl

from ..core.patterns import lazy_pattern
from .certificates import PEM_CERTIFICATE, reason_of
from .errors import guard
from .validity import Validity, dates_of

_BLOCK = rb"-----BEGIN %b-----[A-Za-z0-9+/=\s]+-----END %b-----\s*"
_KEY, _CERTIFICATE = _BLOCK % ((rb"[A-Z ]*PRIVATE KEY",) * 2), _BLOCK % ((b"CERTIFICATE",) * 2)
# RFC 8555 9.1: certificates, and nothing else; so no second key can come in by an authority's answer.
_FORM = lazy_pattern(rb"%b(?:%b)+" % (_KEY, _CERTIFICATE))
# X509_V_FLAG_PARTIAL_CHAIN and NO_CHECK_TIME of OpenSSL; the ssl module has the first from 3.10 on, the second never.
FLAGS = 0x80000 | 0x200000


def chain_of(pem: bytes) -> list[Validity]:
    """Return the certificates of a text; none if one is damaged."""
    found = [dates_of(text) for text in PEM_CERTIFICATE.findall(pem)]
    return [one for one in found if one is not None] if all(found) else []


def find_fault(path: str, name: str) -> str:
    """
    Return why no client would take the file's chain for a server of this name, whatever the date; "": a client would.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        pem = file.read()
    if not _FORM.fullmatch(pem):
        return "it is not certificates in PEM, and nothing else"
    try:
        return _find_disorder(chain_of(pem)) or _find_refusal(path, name, pem)
    except ssl.SSLCertVerificationError as exc:
        return exc.verify_message.rstrip(".")
    except ssl.SSLError as exc:
        reason = reason_of(exc)
        return {"key values mismatch": "it is for another key", "PEM lib": "it is damaged"}.get(reason, reason)


def _find_disorder(chain: list[Validity]) -> str:
    if not chain:
        return "it is damaged"
    for place, (one, issuer) in enumerate(zip(chain, chain[1:]), 1):
        if one.issuer != issuer.subject:
            return f"certificate {place} of its chain is not issued by the next one"
    return ""


def _find_refusal(path: str, name: str, pem: bytes) -> str:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    guard(server.load_cert_chain)(path, None, str)  # asks for no passphrase
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.hostname_checks_common_name = False  # as browsers
    client.verify_flags |= FLAGS
    client.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(chain_of(pem)[-1].certificate))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for end in ends * 2:
        with contextlib.suppress(ssl.SSLWantReadError):
            guard(end.do_handshake)()
    for end in ends:  # now each end has everything sent by its peer
        guard(end.do_handshake)()
    return ""
