"""Our own keys, requests and certificates, as other programs read them."""

import hashlib
import ssl

import pytest

pytest.importorskip("acme", reason="needs the extra acme")

from cryptography import x509

from aserve.features.https.keys import load_key, new_answer, new_key, new_placeholder, new_request, pem_of
from aserve.tls.validity import PLACEHOLDER, read_validity

NAME = "shop.example.org"


def names_of(found):
    return found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


def test_a_key_again():
    """A written key is the same when read."""
    key = new_key()
    assert pem_of(load_key(pem_of(key))) == pem_of(key)


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_key(pem):
    """A damaged key is told, without a traceback."""
    with pytest.raises(ValueError):
        load_key(pem)


def test_another_kind_of_key():
    """An account has a key of an elliptic curve."""
    from cryptography.hazmat.primitives.asymmetric import ed25519

    with pytest.raises(ValueError, match="no key of an elliptic curve"):
        load_key(pem_of(ed25519.Ed25519PrivateKey.generate()))


def test_a_request_asks_for_the_name_alone():
    request = x509.load_pem_x509_csr(new_request(new_key(), NAME))
    assert names_of(request) == [NAME] and request.is_signature_valid


def test_a_placeholder_can_be_served(tmp_path):
    """A server can serve a placeholder, at any time of any clock; its subject tells it."""
    path = tmp_path / "a.pem"
    path.write_bytes(new_placeholder(NAME))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(str(path))
    octets = ssl.PEM_cert_to_DER_cert(path.read_text()[path.read_text().index("-----BEGIN CERT") :])
    begin, end = read_validity(octets)
    assert (begin.year, end.year) == (2000, 2049) and PLACEHOLDER.encode() in octets


def test_the_answer_to_tls_alpn():
    """RFC 8737 3: the name, and a critical extension with the digest of the key authorization."""
    pem = new_answer(NAME, "token.thumbprint")
    found = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :])
    extension = found.extensions.get_extension_for_oid(x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31"))
    assert names_of(found) == [NAME] and extension.critical
    assert extension.value.value == b"\x04\x20" + hashlib.sha256(b"token.thumbprint").digest()
