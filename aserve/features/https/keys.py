"""Keys, and their signatures: requests for certificates, certificates of our own.

Owns:     new_key, load_key; new_request; new_placeholder; the certificate of TLS-ALPN-01.
Thread:   the child's only one.
Spec:     RFC 8737 section 3; RFC 5280.
Not here: files (folder.py), the account's key in ACME's form (account.py).
"""

from __future__ import annotations

import datetime
import hashlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ...tls.validity import PLACEHOLDER

# Nothing looks at these dates; a machine with a clock years behind shall serve a placeholder, too.
PLACEHOLDER_BEGIN, PLACEHOLDER_END = datetime.datetime(2000, 1, 1), datetime.datetime(2049, 12, 31)
ACME_IDENTIFIER = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")  # RFC 8737 6.1
OCTET_STRING = 4  # the tag in DER


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key, of a curve known to every client of TLS 1.2."""
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM."""
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """
    Return the key of a PEM file.

    Raises:
        ValueError: the key is damaged, or of another kind.
    """
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("it is no key of an elliptic curve")
    return key


def new_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Return the request for a certificate, as PEM."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.add_extension(_names_of(name), critical=False).sign(key, hashes.SHA256())
    pem: bytes = request.public_bytes(serialization.Encoding.PEM)
    return pem


def new_placeholder(name: str) -> bytes:
    """Return a key and a certificate signed by the key itself, as PEM."""
    return _sign_oneself(name, [])


def new_answer(name: str, authorization: str) -> bytes:
    """Return key and certificate of the answer to TLS-ALPN-01, as PEM."""
    digest = hashlib.sha256(authorization.encode()).digest()
    extension = x509.UnrecognizedExtension(ACME_IDENTIFIER, bytes([OCTET_STRING, len(digest)]) + digest)
    return _sign_oneself(name, [extension])


def _sign_oneself(name: str, critical: list[x509.ExtensionType]) -> bytes:
    key = new_key()
    subject = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, PLACEHOLDER)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(PLACEHOLDER_BEGIN)
        .not_valid_after(PLACEHOLDER_END)
        .add_extension(_names_of(name), critical=False)
    )
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    pem: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return pem_of(key) + pem


def _names_of(name: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.DNSName(name)])
