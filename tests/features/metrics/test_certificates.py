"""The ends of certificates, in metrics."""

import os
import time

import pytest
from harness.certificates import HAS_OPENSSL

from aserve.features import Config
from aserve.features.metrics.certificates import CertificateFiles
from aserve.tls.validity import PLACEHOLDER

pytestmark = pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
DAY = 86400


def days_left(config, files=None):
    """Return each certificate's days of validity, by file."""
    found = (files or CertificateFiles(config)).ends(config)
    return {path: round((end - time.time()) / DAY) if end else 0 for path, end in found}


def test_files_of_binds(authority):
    """Each file of any bind is there once, also an expired one; other files are left out."""
    soon, gone, own = (
        authority.issue("a.example", days=9),
        authority.issue("b.example", days=-2),
        authority.issue("c.example", days=4),
    )
    nothing = authority.issue("d.example")
    nothing.certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    config = Config(
        bind=["https://:1", ":2", f"https://:3?certificate={own.certificate}&key={own.key}"], certificate=soon.certificate, key=soon.key,
        sni=[f"b.example={gone.certificate}:{gone.key}", f"d.example={nothing.certificate}", f"e.example={soon.certificate}:{soon.key}"],
    )  # fmt: skip
    assert days_left(config) == {str(soon.certificate): 9, str(gone.certificate): -2, str(own.certificate): 4}
    assert days_left(Config()) == {}


def test_a_file_that_cannot_be_read(authority):
    """The metric leaves it out, and has the others."""
    here, gone = authority.issue("a.example", days=9), authority.issue("b.example")
    gone.certificate.unlink()
    config = Config(
        bind="https://:1", certificate=here.certificate, key=here.key, sni=f"b.example={gone.certificate}:{gone.key}"
    )
    assert days_left(config) == {str(here.certificate): 9}


def test_a_placeholder_is_left_out(authority):
    """A placeholder is no certificate, whatever its dates."""
    issued = authority.issue("a.example", subject=f"/O={PLACEHOLDER}", days=9)
    assert days_left(Config(bind="https://:1", certificate=issued.certificate, key=issued.key)) == {
        str(issued.certificate): 0
    }


def test_a_reload_changes_the_files(authority, tmp_path, monkeypatch):
    """After a reload the files are of the new settings; a relative path is below the first working directory, wherever the app has gone."""
    old, new = authority.issue("a.example", days=9), authority.issue("b.example", days=4)
    monkeypatch.chdir(old.certificate.parent)
    config = Config(bind="https://:1", certificate=old.certificate.name, key=old.key)
    files = CertificateFiles(config)
    monkeypatch.chdir(tmp_path)
    assert days_left(config, files) == {os.path.realpath(old.certificate): 9}
    assert days_left(config.replace(certificate=str(new.certificate), key=str(new.key)), files) == {
        str(new.certificate): 4
    }
