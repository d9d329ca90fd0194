"""--https with an authority that is hostile: the certificate that is there is served, whatever ends or begins afterwards."""

from __future__ import annotations

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
    """Return what a client gets, in PEM."""
    return ssl.get_server_certificate(site.address)


@pytest.mark.provokes("no certificate for shop.example|was killed by SIGKILL")
@pytest.mark.parametrize(
    "row", ["another name", *(pytest.param(row, marks=pytest.mark.long) for row in ("a page", "another key"))]
)
def test_the_good_certificate_is_served(start_process, tmp_path, wait_until, row):
    """After a failed order, a reload, a crash of the worker and a new start, clients get what they had."""
    from harness.chains import key_pem, new_key, pem_of
    from harness.hostile_authority import ROWS, HostileAuthority

    from aserve.features.https.folder import Folder
    from aserve.features.https.notes import Notes

    authority = HostileAuthority(tmp_path)
    authority.wrong = {"certificate": ROWS[row].wrong}
    folder, key = Folder(str(tmp_path / "https")), new_key()
    folder.make(None)
    old = pem_of(authority.signer.sign(key.public_key(), NAME, begin=-80, end=10), *authority.signer.chain)
    folder.write(folder.certificate(NAME), (key_pem(key) + old).encode())
    Notes(f"{authority.base}/directory").write(folder, NAME)

    def start():
        flags = [
            "--workers=1",
            f"--https={NAME}",
            "--bind=https://127.0.0.1:0",
            f"--https-folder={folder.path}",
            "--acme-terms=accept",
        ]
        flags += [f"--acme-ca={authority.ca}", f"--acme-directory={authority.base}/directory", "--log-level=info"]
        return start_process("hello", *flags, launcher=("env",))

    def worker(site, number):
        """Wait for the worker with this number of all that have begun; return its pid."""
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
