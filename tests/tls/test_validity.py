"""Until when a certificate is valid; the warnings are tested beside the certificates, too."""

import datetime
import re
import ssl

from harness.certificates import openssl

from aserve.tls.validity import read_validity


def test_read_validity_agrees_with_openssl(authority, localhost):
    """The year has two digits or four."""
    for issued in (localhost, authority.issue("localhost", days=365 * 60)):
        der = ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())
        text = openssl("x509", "-in", issued.certificate, "-noout", "-dates").decode()
        printed = [datetime.datetime.strptime(date, "%b %d %H:%M:%S %Y GMT") for date in re.findall(r"=(.*GMT)", text)]
        assert [date.replace(tzinfo=None) for date in read_validity(der)] == printed


def test_read_validity_of_the_old():
    """RFC 5280 4.1.2.5.1: 50 is 1950; a certificate without a version is one of version 1."""
    dates = b"\x17\x0d500101000000Z\x17\x0d491231235959Z"
    body = b"\x02\x01\x01" + b"\x30\x00" + b"\x30\x00" + b"\x30" + bytes([len(dates)]) + dates + b"\x30\x00"
    body = b"\x30" + bytes([len(body)]) + body
    begin, end = read_validity(b"\x30" + bytes([len(body)]) + body)
    assert (begin.year, end.year) == (1950, 2049)
