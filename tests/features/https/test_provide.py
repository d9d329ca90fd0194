"""Before the first certificate there is a placeholder, so that a server can start."""

import errno
import os
import pwd
import subprocess
import types

import pytest
from harness.certificates import HAS_OPENSSL, Authority

from aserve.features import Config
from aserve.features.https import provide as provide_module
from aserve.features.https.child import ChildError
from aserve.features.https.folder import FileOwner, Folder
from aserve.features.https.provide import provide
from aserve.settings import ConfigError
from aserve.tls.certificates import load_certificates


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return the settings and the folder of a site with two names, and the jobs of its children."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    folder = Folder(str(tmp_path / "https"))
    jobs = []

    class FakeChild:
        """A child that writes no certificate."""

        def __init__(self, job, owner=None):
            jobs.append((job, owner))

        def wait(self):
            return {}

    monkeypatch.setattr(provide_module, "OrderProcess", FakeChild)
    config = Config(https="a.example,b.example", bind="https://:443", acme_terms="accept", https_folder=folder.path)
    return types.SimpleNamespace(config=config, folder=folder, jobs=jobs)


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
@pytest.mark.provokes("damaged")
def test_what_is_missing(site, tmp_path, caplog):
    """Names without a certificate get a placeholder; a damaged file is set aside, as no server would start with it."""
    issued = Authority(tmp_path / "authority").issue("a.example")
    provide(site.config)
    assert site.jobs == [
        ({"do": "placeholders", "folder": site.folder.path, "names": ["a.example", "b.example"]}, None)
    ]
    pem = issued.key.read_bytes() + issued.certificate.read_bytes()
    site.folder.write(site.folder.certificate("a.example"), pem)
    site.folder.write(site.folder.certificate("b.example"), pem[:400])
    provide(site.config)
    assert site.jobs[1][0]["names"] == ["b.example"]
    assert os.path.exists(site.folder.certificate("b.example") + ".damaged") and "is damaged" in caplog.text
    site.folder.write(site.folder.certificate("b.example"), pem)
    provide(site.config)
    assert len(site.jobs) == 2


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
@pytest.mark.provokes("damaged")
def test_a_key_with_a_passphrase(site, tmp_path):
    """The start does not ask for a passphrase: no server could read the file."""
    issued = Authority(tmp_path / "authority").issue("a.example")
    subprocess.run(
        ["openssl", "pkey", "-in", issued.key, "-aes256", "-passout", "pass:secret", "-out", tmp_path / "locked"],
        check=True,
    )
    pem = (tmp_path / "locked").read_bytes() + issued.certificate.read_bytes()
    site.folder.make(None)
    site.folder.write(site.folder.certificate("a.example"), pem)
    provide(site.config)
    assert os.path.exists(site.folder.certificate("a.example") + ".damaged")


def test_a_certificate_that_cannot_be_read_now(site, monkeypatch):
    """An unreadable file may be a good one, and stays."""
    site.folder.make(None)
    site.folder.write(site.folder.certificate("a.example"), b"")

    def fail(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(provide_module, "guard", lambda function: fail)
    with pytest.raises(ConfigError, match=r"a\.example\.pem cannot be read: Too many open files"):
        provide(site.config)
    assert os.path.exists(site.folder.certificate("a.example"))


def test_it_cannot_be_made(site, monkeypatch):
    """The start ends with one line."""

    def fail(job, owner):
        raise ChildError("No module named 'cryptography'")

    monkeypatch.setattr(provide_module, "OrderProcess", fail)
    with pytest.raises(
        ConfigError, match=r"no placeholder could be made for a\.example: No module named 'cryptography'; see"
    ):
        provide(site.config)


def test_root_makes_it_for_the_user(site, monkeypatch):
    """The server could not write it otherwise, once root is given up."""
    nobody = pwd.getpwnam("nobody")
    owners = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Folder, "make", lambda self, owner: owners.append(owner))
    provide(site.config.replace(user="nobody"))
    assert owners == [FileOwner(nobody.pw_uid, nobody.pw_gid)] and site.jobs[0][1] == owners[0]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    provide(site.config.replace(user="nobody"))
    assert owners[1] is None


def test_a_root_that_is_not_there(site):
    """Nothing would work without it, so the start says so."""
    with pytest.raises(ConfigError, match=r"--acme-ca /nowhere/ca\.pem cannot be read"):
        provide(site.config.replace(acme_ca="/nowhere/ca.pem"))


def test_a_check_makes_nothing(site, tmp_path, caplog):
    """--check looks only: it makes no folder and no placeholder, and says nothing of later certificates."""
    provide(site.config, is_check=True)
    assert not site.jobs and not os.path.exists(site.folder.path)
    missing = site.config.missing_certificates()
    assert missing == {site.folder.certificate("a.example"), site.folder.certificate("b.example")}
    load_certificates(site.config, without=missing)
    site.folder.make(None)
    os.chmod(site.folder.path, 0o755)
    with pytest.raises(ConfigError, match="others than"):
        provide(site.config, is_check=True)
