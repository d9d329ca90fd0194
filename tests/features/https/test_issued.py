"""The dates of a certificate in its file."""

import time

import pytest
from harness.certificates import HAS_OPENSSL, Authority

from aserve.features.https.issued import Issued, UnusableError, refuse_unusable
from aserve.features.https.settings import show_time

DAY = 86400.0


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
def test_its_dates_are_the_first_certificates(folder, tmp_path):
    """The server's own certificate, the first, counts."""
    authority = Authority(tmp_path / "authority")
    issued = authority.issue("a.example", days=90)
    chain = issued.key.read_bytes() + issued.certificate.read_bytes() + authority.certificate.read_bytes()
    folder.write(folder.certificate("a.example"), chain)
    found = Issued.of(folder, "a.example")
    assert 27 * DAY < found.until - found.renew_at < 31 * DAY


@pytest.mark.parametrize(
    "octets", [None, b"", b"-----BEGIN CERTIFICATE-----\n\n-----END", b"-----BEGIN CERTIFICATE-----\nMAAA\n-----END"]
)
def test_missing_files_have_no_dates(folder, octets):
    if octets is not None:
        folder.write(folder.certificate("a.example"), octets)
    assert Issued.of(folder, "a.example") is None


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
def test_what_no_client_would_take(folder, tmp_path):
    """A certificate for another name, or with another key, is none; a changed file is looked at again."""
    authority = Authority(tmp_path / "authority")
    issued, other = authority.issue("a.example"), authority.issue("b.example")
    path = folder.certificate("a.example")
    for key, certificate, is_there in ((issued, issued, True), (other, other, False), (other, issued, False)):
        folder.write(path, key.key.read_bytes() + certificate.certificate.read_bytes())
        assert (Issued.of(folder, "a.example") is not None) is is_there


def test_valid_for_a_clock_that_is_behind():
    """Some minutes do not count, as authorities have certificates begin when they sign; at the end each second counts."""
    issued = Issued(2000.0, 1500.0, 1000.0)
    assert [issued.is_valid(now) for now in (600.0, 700.0, 1999.0, 2000.0)] == [False, True, True, False]


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
def test_an_issuer_that_has_expired(folder, tmp_path):
    """Clients refuse certificates signed by an expired issuer."""
    authority = Authority(tmp_path / "authority")  # its own certificate is valid for two days
    issued = authority.issue("a.example", days=90)
    path = tmp_path / "file.pem"
    path.write_bytes(b"".join(one.read_bytes() for one in (issued.key, issued.certificate, authority.certificate)))
    refuse_unusable(str(path), "a.example", time.time())
    with pytest.raises(UnusableError, match="certificate 2 of its chain is valid from"):
        refuse_unusable(str(path), "a.example", time.time() + 3 * DAY)


def test_a_time_is_shown_in_utc():
    assert show_time(0.0) == "1970-01-01 00:00 UTC"
