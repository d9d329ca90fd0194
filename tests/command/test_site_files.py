"""The files of a site: accepted settings, a unit readable to systemd."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from aserve.command.site_files import PROPOSALS, SiteFiles
from aserve.features import Config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = SiteFiles("shop", "shop.wsgi:application", "/srv/shop", "/srv/shop/venv/bin/aserve", "www-data", "static")


def settings_of(text):
    """Return the accepted settings of a file."""
    table = tomllib.loads(text)
    assert table.pop("app") == "shop.wsgi:application"
    Config.from_sources({}, {}, table)
    return table


def test_the_settings_written_are_accepted():
    """The settings are accepted as written, and with every proposal."""
    text = FILES.texts()["aserve.toml"]
    assert settings_of(text) == {"bind": ["127.0.0.1:8000"]}
    proposals = re.sub(r"^# ([a-z-]+ = )", r"\1", text, flags=re.M)
    assert settings_of(proposals).keys() == PROPOSALS.keys()
    assert max(map(len, text.splitlines())) < 130


def test_paths_in_the_unit():
    """A space, a percent sign and a dollar stay unchanged, by systemd's own rules."""
    files = FILES._replace(folder="/srv/my $hop 5%", command='/opt/a"b/aserve')
    unit = files.texts()["shop.service"]
    assert r'ExecStart="/opt/a\"b/aserve" --config "/srv/my $$hop 5%%/aserve.toml" --bind' in unit
    assert "WorkingDirectory=/srv/my $hop 5%%\n" in unit and 'ReadWritePaths="/srv/my $hop 5%%"\n' in unit
    assert "#   systemctl enable --now '/srv/my $hop 5%/shop.service'\n" in unit
    assert "cp /srv/shop/shop.service /etc" in FILES._replace(is_roots=False).texts()["shop.service"]


@pytest.mark.parametrize(("folder", "home"), [("/srv/shop", "yes"), ("/home/me/shop", "read-only")])
def test_a_site_in_a_home(folder, home):
    """A unit with hidden homes could not read the site."""
    assert f"\nProtectHome={home}\n" in FILES._replace(folder=folder).texts()["shop.service"]


def test_a_public_site():
    """The site has the name, agrees to the terms, and may listen on ports 443 and 80; there is no nginx."""
    texts = FILES._replace(https="shop.example").texts()
    assert {*texts} == {"aserve.toml", "shop.service"}
    assert settings_of(texts["aserve.toml"]) == {"https": ["shop.example"], "acme-terms": "accept", "workers": 1}
    assert (
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n" in texts["shop.service"]
        and "--bind" not in texts["shop.service"]
    )
    assert "\nCapabilityBoundingSet=\n" in FILES.texts()["shop.service"]


def test_the_server_of_nginx():
    """nginx passes requests to the socket of the unit."""
    texts = FILES.texts()
    [path] = re.findall(r"uwsgi_pass unix:(\S+);", texts["shop.nginx.conf"])
    assert f"--bind uwsgi://unix:{path}\n" in texts["shop.service"] and path.startswith("/run/aserve/shop/")
    assert 'static = ["/static=static"]' in texts["aserve.toml"]
    assert texts["shop.nginx.conf"].count("{") == texts["shop.nginx.conf"].count("}") == 2


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("https", ["", "shop.example"])
def test_systemd_reads_the_unit(tmp_path, https):
    """systemd has no remark on the unit, finds few rights, and starts the unit at each boot from the present place."""
    unit = FILES._replace(command=shutil.which("true"), folder=str(tmp_path), https=https).texts()["shop.service"]
    (tmp_path / "shop.service").write_text(unit)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "shop.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "shop." in line] == [] and done.returncode == 0, done.stderr
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=30", str(tmp_path / "shop.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr
    root = tmp_path / "root"
    (root / "srv").mkdir(parents=True)
    shutil.copy(tmp_path / "shop.service", root / "srv")
    subprocess.run(["systemctl", f"--root={root}", "enable", "/srv/shop.service"], capture_output=True, check=True)
    assert os.readlink(root / "etc/systemd/system/multi-user.target.wants/shop.service") == "/srv/shop.service"
