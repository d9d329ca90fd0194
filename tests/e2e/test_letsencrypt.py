"""docs/letsencrypt.md: the site serves certbot's files, and the page's hook copies them for the site's user."""

import grp
import os
import pwd
import re
import shlex
import stat
import subprocess

import pytest
from harness.front import Page, replaced
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, ONCE]
PAGE = Page("letsencrypt")


def test_static_serves_certbots_files(start_process, raw_client, tmp_path):
    """The command's --static serves certbot's files below its webroot, and nothing of the folder beside."""
    make, serve = PAGE.block("1. Serve certbot's files on port 80", "sh").replace("\\\n", " ").splitlines()
    webroot = re.search(r"-w (\S+)", PAGE.block("2. Get the certificate", "sh"))[1]
    words = shlex.split(serve)
    static = words[words.index("--static") + 1].replace(webroot, str(tmp_path))
    subprocess.run(["sh", "-ec", make.replace(webroot, str(tmp_path))], check=True)
    (tmp_path / ".well-known/acme-challenge/token").write_text("token.thumbprint")
    (tmp_path / "other").write_text("secret")
    process = start_process("hello", "--static", static)
    assert raw_client(process).fetch("/.well-known/acme-challenge/token").body == b"token.thumbprint"
    assert raw_client(process).fetch("/other").body == b"hello\n"  # the app's
    assert f'static = ["{words[words.index("--static") + 1]}"]' in PAGE.block("4. Serve HTTPS", "toml")


def test_the_hook_copies_key_and_certificate(tmp_path):
    """The hook copies key and certificate to the settings' paths; only the site's group reads the key."""
    block = PAGE.block("3. Let aserve read it", "sh")
    hook = re.search(r"<<'END'\n(.*?)^END$", block, re.M | re.S)[1]
    settings = PAGE.block("4. Serve HTTPS", "toml")
    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    hook = replaced(hook, {"/etc/shop/tls": f"{tmp_path}/tls", "-o root -g www-data": f"-o {user} -g {group}"})
    for name in ("privkey.pem", "fullchain.pem"):
        (tmp_path / name).write_text(name)
    for _ in range(2):  # the first time, and at a renewal
        subprocess.run(["sh", "-ec", hook], check=True, env={**os.environ, "RENEWED_LINEAGE": str(tmp_path)})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {"key.pem": 0o640, "cert.pem": 0o644} and stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o750
    assert (tmp_path / "tls/key.pem").read_text() == "privkey.pem"
    assert 'key = "/etc/shop/tls/key.pem"' in settings and 'certificate = "/etc/shop/tls/cert.pem"' in settings
