"""Chains of certificates, right and wrong, made in memory in a moment; needs the package cryptography, which comes with acme."""

from __future__ import annotations

import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Any) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def pem_of(*certificates: Any) -> str:
    """Return certificates as PEM, in order."""
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in certificates)


class Signer:
    """An authority: its key, its certificate and its issuer's."""

    def __init__(self, name: str, above: Signer | None = None, **dates: float) -> None:
        self.key, self.name = new_key(), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = (above or self).sign(self.key.public_key(), is_authority=True, subject=self.name, **dates)
        self.chain: tuple[Any, ...] = (self.certificate, *(above.chain if above is not None else ()))

    def sign(
        self, key: Any, *names: str, begin: float = -1 / 24, end: float = 90, is_authority: bool = False, subject: Any = None
    ) -> x509.Certificate:  # fmt: skip
        """Return a certificate; `begin`, `end`: in days from now."""
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(
            self.name, subject or x509.Name([]), key, x509.random_serial_number(), now + begin * DAY, now + end * DAY
        ).add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([*map(x509.DNSName, names)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())
