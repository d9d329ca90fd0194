"""The dates of a certificate in its file."""

from __future__ import annotations

import pytest
from harness.certificates import HAS_OPENSSL, Authority

from aserve.features.https.folder import Folder
from aserve.features.https.issued import Issued, show_time

DAY = 86400.0


@pytest.fixture
def folder(tmp_path):
    """Return a folder."""
    made = Folder(str(tmp_path / "https"))
    made.make(None)
    return made


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
def test_its_dates(folder, tmp_path):
    """The server's own certificate counts, which is the first."""
    authority = Authority(tmp_path / "authority")
    issued = authority.issue("a.example", days=90)
    chain = issued.key.read_bytes() + issued.certificate.read_bytes() + authority.certificate.read_bytes()
    folder.write(folder.certificate("a.example"), chain)
    found = Issued.of(folder, "a.example")
    assert 27 * DAY < found.until - found.renew_at < 31 * DAY


@pytest.mark.parametrize(
    "octets", [None, b"", b"-----BEGIN CERTIFICATE-----\n\n-----END", b"-----BEGIN CERTIFICATE-----\nMAAA\n-----END"]
)
def test_none(folder, octets):
    """A file that is missing or damaged has none."""
    if octets is not None:
        folder.write(folder.certificate("a.example"), octets)
    assert Issued.of(folder, "a.example") is None


def test_time():
    """It is shown in UTC, as certificates have it."""
    assert show_time(0.0) == "1970-01-01 00:00 UTC"
