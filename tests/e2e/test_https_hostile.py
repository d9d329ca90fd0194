"""--https with a hostile authority: the present certificate is served, whatever ends or begins afterwards."""

import os
import re
import signal
import ssl

import pytest
from harness.interpreter import has_module
from harness.workers import children_of

pytestmark = pytest.mark.skipif(not has_module("acme"), reason="acme is not installed")
NAME = "shop.example"


def served(site):
    """Return a client's certificate, in PEM."""
    return ssl.get_server_certificate(site.address)


def present(authority, tmp_path, **dates):
    """Return a folder with a good certificate for NAME, the certificate, and a site's flags for both."""
    from harness.chains import key_pem, new_key, pem_of

    from aserve.features.https.folder import Folder
    from aserve.features.https.notes import Notes

    folder, key = Folder(str(tmp_path / "https")), new_key()
    folder.make(None)
    old = pem_of(authority.signer.sign(key.public_key(), NAME, **dates), *authority.signer.chain)
    folder.write(folder.certificate(NAME), (key_pem(key) + old).encode())
    Notes(f"{authority.base}/directory").write(folder, NAME)
    flags = [
        "--workers=1",
        f"--https={NAME}",
        "--bind=https://127.0.0.1:0",
        f"--https-folder={folder.path}",
        "--acme-terms=accept",
    ]
    flags += [f"--acme-ca={authority.ca}", f"--acme-directory={authority.base}/directory", "--log-level=info"]
    return folder, old, flags


@pytest.mark.provokes("no certificate for shop.example|was killed by SIGKILL")
@pytest.mark.parametrize(
    "row", ["another name", *(pytest.param(row, marks=pytest.mark.long) for row in ("a page", "another key"))]
)
def test_the_good_certificate_is_served(start_process, tmp_path, wait_until, row):
    """After a failed order, a reload, a crash of the worker and a new start, clients get the same certificate."""
    from harness.hostile_authority import ROWS, HostileAuthority

    authority = HostileAuthority(tmp_path)
    authority.wrong = {"certificate": ROWS[row].wrong}
    _, old, flags = present(authority, tmp_path, begin=-80, end=10)
    start = lambda: start_process("hello", *flags, launcher=("env",))  # noqa: E731

    def worker(site, number):
        """Wait for the worker with this number among all begun; return its pid."""
        pids = lambda: re.findall(r"worker 1 \(pid (\d+)\) is ready", site.log)  # noqa: E731
        wait_until(lambda: len(pids()) == number, 60, lambda: site.log)
        wait_until(lambda: children_of(site.pid) == [int(pids()[-1])], 60, lambda: site.log)
        return int(pids()[-1])

    try:
        site = start()
        site.wait_for_log(f"ERROR .*no certificate for {NAME}: localhost:.* clients would refuse")
        assert served(site) in old
        site.signal(signal.SIGHUP)
        pid = worker(site, 2)
        assert served(site) in old
        os.kill(pid, signal.SIGKILL)
        worker(site, 3)
        assert served(site) in old
        site.signal()
        assert site.wait() == 0
        assert served(start()) in old
    finally:
        authority.end()


@pytest.mark.long  # a server looks once a minute
def test_a_revoked_certificate_is_replaced(start_process, tmp_path):
    """An operator removes the file: another certificate is ordered within a minute, and clients get the old until then."""
    from harness.hostile_authority import HostileAuthority

    authority = HostileAuthority(tmp_path)
    folder, old, flags = present(authority, tmp_path, begin=-10, end=80)
    try:
        site = start_process("hello", *flags, launcher=("env",))
        assert served(site) in old
        os.remove(folder.certificate(NAME))
        site.wait_for_log("it is gone; it is ordered anew", 180)
        site.wait_for_log("TLS: certificates loaded anew", 180)
        new = served(site)
        with open(folder.certificate(NAME), encoding="ascii") as file:
            assert new not in old and new in file.read()
        assert site.log.count("certificates loaded anew") == 1  # no placeholder came in between
    finally:
        authority.end()
