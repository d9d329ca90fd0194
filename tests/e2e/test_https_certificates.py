"""--https with a real authority: certificates come and are renewed, and only the server can read their keys."""

import contextlib
import http.client
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from harness.https_site import DAY, NEEDS, RENEWAL, SECONDS, UMASK, load_over_tls, private, rights_below
from harness.pebble import NOBODYS_ADDRESS
from harness.process import run_command
from harness.waiting import wait_until

from aserve.command.init import init

pytestmark = NEEDS


@pytest.mark.parametrize(
    "binds",
    [
        pytest.param({"http": False}, id="tls-alpn-01"),
        pytest.param({"tls_port": 8443}, id="http-01", marks=pytest.mark.long_on_pypy),
    ],
)
def test_the_first_certificate(pebble, serve_https, binds):
    """A start gets the certificate, and serves it without a restart; other users can never read a key; the server does not load the libraries."""
    pebble.pause()
    site = serve_https("shop.example", launcher=UMASK, **binds)
    site.wait_for_log("asking .* for a certificate for shop.example")
    assert site.certificate("shop.example") is None  # the placeholder
    pebble.resume()
    seen = set()
    wait_until(
        lambda: seen.update(rights_below(site.files)) or site.certificate("shop.example"), SECONDS, lambda: site.log
    )
    assert seen | rights_below(site.files) == private()
    assert list((site.files / "challenges").iterdir()) == [] and site.count_orders("shop.example") == 1
    assert "could not be checked" not in site.log
    assert "/cryptography/" not in pathlib.Path(f"/proc/{site.pid}/maps").read_text()
    assert site.stop() == 0


@pytest.mark.long_on_pypy
def test_names_and_workers(pebble, serve_https):
    """Each name has its own certificate, ordered by one worker and served by all; a name that leads elsewhere stops no other.

    The status says which name has a certificate, and why another has none; the metrics say until when each is valid.
    """
    pebble.lead("elsewhere.example", NOBODYS_ADDRESS)
    names = ("elsewhere.example", "a.example", "b.example")
    site = serve_https(*names, flags=("--workers=2", "--control=control", f"--metrics={pebble.host}:9100"))
    line = site.wait_for_log("ERROR .*https: no certificate for elsewhere.example: (.*)\n", SECONDS)[1]
    assert "could not connect to elsewhere.example at port 80" in line and "must lead to this machine" in line
    assert site.wait_for_certificate("a.example") != site.wait_for_certificate("b.example")
    # A new connection reaches any of the workers.
    wait_until(lambda: all(site.certificate("b.example") for _ in range(20)), SECONDS)
    assert [site.count_orders(name) for name in names] == [1, 1, 1]
    told = status(site)
    assert [each["name"] for each in told] == [*names] and [bool(each["until"]) for each in told] == [False, True, True]
    assert [each["fault"] in line for each in told] == [True] * 3 and told[0]["fault"] and not told[1]["fault"]
    ends = certificate_ends(pebble)
    assert ends["elsewhere.example"] == 0  # a placeholder
    assert [round((ends[name] - time.time()) / DAY) for name in names[1:]] == [90, 90]
    assert site.stop() == 0


def certificate_ends(pebble):
    """Return by name the end of each certificate, from the metrics."""
    text = pebble.ask("GET", f"http://{pebble.host}:9100/metrics").decode()
    line = r'(?m)^aserve_certificate_not_after_timestamp_seconds\{file="[^"]*/certificates/([^"]+)\.pem"\} (\S+)$'
    return {name: float(end) for name, end in re.findall(line, text)}


def status(site):
    """Return the certificates in `aserve status --json`."""
    return json.loads(run_command("status", "--json", "--control", site.folder / "control").stdout)["certificates"]


@pytest.mark.long_on_pypy
def test_what_init_writes(pebble, serve_https, tmp_path):
    """Settings and the unit's folders are enough: the certificate comes, and `aserve status` shows it without a flag."""
    folder, run = tmp_path / "shop", tmp_path / "run" / "aserve" / "shop"
    folder.mkdir()
    run.mkdir(parents=True)
    init(["--https", "shop.example", "shop:app"], str(folder))
    launcher = ("env", f"RUNTIME_DIRECTORY={run}")
    site = serve_https(flags=("--config", str(folder / "aserve.toml")), launcher=launcher)
    site.wait_for_certificate("shop.example")
    done = run_command("status", env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")})
    assert re.search(r"\ncertificate +until .*\nshop\.example +20", done.stdout), done.stdout + done.stderr
    assert site.stop() == 0


@pytest.mark.long_on_pypy
def test_renewal_under_load(pebble, serve_https):
    """A certificate is renewed at two thirds of its life; no client loses a request. A wrong clock does no harm."""
    site = serve_https("shop.example", flags=("--workers=2",))
    first = site.wait_for_certificate("shop.example")
    with load_over_tls(pebble.host) as load:
        site.set_clock(-400 * DAY)
        site.set_clock(RENEWAL)
        second = site.wait_for_certificate("shop.example", first)
        site.set_clock(0)
        load.go_on(100, SECONDS)
    assert load.first_words == {b"one"} and second != first
    assert site.count_orders("shop.example") == 2  # and not at each look
    assert site.stop() == 0


def test_an_end_while_ordering(pebble, serve_https):
    """SIGTERM does not wait for the authority, and leaves no process with a turn behind."""
    pebble.pause()
    site = serve_https("shop.example")
    site.wait_for_log("asking .* for a certificate for shop.example")
    assert site.stop() == 0
    wait_until(site.is_turn_free)  # the kernel ends the process with the turn


@pytest.fixture
def open_folder():
    """Return a folder readable by other users."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="aserve-https-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.long_on_pypy
def test_keys_belong_to_the_user(need_python_of_all, open_folder, pebble, serve_https):
    """With --user the keys belong to the user, and so does the ordering process."""
    user = pwd.getpwnam("nobody")
    pebble.ca = shutil.copy(pebble.ca, open_folder / "ca.pem")
    site = serve_https("shop.example", folder=open_folder, flags=("--user=nobody",), launcher=UMASK)
    site.wait_for_certificate("shop.example")
    assert rights_below(site.files) == private(user.pw_uid)
    assert site.stop() == 0


@pytest.mark.long_on_pypy
def test_a_worker_that_dies_while_ordering(pebble, serve_https):
    """The begun order goes on without the dead worker."""
    pebble.pause()
    site = serve_https("shop.example", flags=("--workers=2",))
    number = site.wait_for_log(r"worker (\d): https: asking")[1]
    site.wait_for_workers(2)
    os.kill(int(site.wait_for_log(rf"worker {number} \(pid (\d+)\) is ready")[1]), signal.SIGKILL)
    site.wait_for_log(f"worker {number} .*(killed|SIGKILL)")
    pebble.resume()
    site.wait_for_certificate("shop.example")
    assert site.stop() == 0


@pytest.mark.long_on_pypy
def test_files_that_are_lost(pebble, serve_https):
    """A damaged file, or a removed folder, is made anew; until then the old certificate is served."""
    site = serve_https("shop.example")
    first = site.wait_for_certificate("shop.example")
    (site.files / "certificates/shop.example.pem").write_text("damaged")
    second = site.wait_for_certificate("shop.example", other_than=first)
    site.files.rename(site.files.with_name("lost"))  # in one step: the server may be writing there
    third = site.wait_for_certificate("shop.example", other_than=second)
    assert len({first, second, third}) == 3 and rights_below(site.files) == private()
    assert site.stop() == 0


@pytest.mark.long_on_pypy
def test_a_redirect_leads_to_tls(pebble, serve_https):
    """With a certificate, port 80 leads the name's clients to TLS, and to no foreign host; renewals are still checked there."""
    site = serve_https("shop.example", tls_port=8443, flags=("--https-redirect=443",))
    first = site.wait_for_certificate("shop.example")
    wait_until(lambda: answer(site, "shop.example") == (308, "https://shop.example/a?b"), SECONDS)
    assert answer(site, "other.example") == (308, "https://shop.example/a?b")
    site.set_clock(RENEWAL)
    site.wait_for_certificate("shop.example", other_than=first)
    assert "could not be checked" not in site.log
    assert site.stop() == 0


def answer(site, name):
    """Return status and Location for a client of port 80."""
    client = http.client.HTTPConnection(site.host, timeout=SECONDS)
    with contextlib.closing(client):
        client.request("GET", "/a?b", headers={"Host": name})
        response = client.getresponse()
        response.read()
        return response.status, response.headers["Location"]


def test_the_ports_of_a_site(serve_https):
    """Without --bind aserve listens on ports 443 and 80 of all interfaces; without an authority it serves all the same."""
    alone = ("unshare", "--net")  # where these ports are free
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of its own can be made here")
    site = serve_https("shop.example", binds=(), launcher=alone)
    line = site.wait_for_log("serving on (.*)\n")[1]
    assert ":443 (all interfaces)" in line and ":80 (all interfaces)" in line
    site.wait_for_log("cannot be reached from here")
    assert site.stop() == 0
