"""Paths with the same meaning from every folder, in each form of value."""

import os

import pytest

from aserve.core.start_folder import StartFolder
from aserve.features.access_log.settings import whole_log
from aserve.settings.paths import Base, whole, whole_by_name, whole_certificates, whole_folder


@pytest.mark.parametrize(
    ("function", "text", "expected"),
    [
        (whole, "a/b", "{}/a/b"),
        (whole, "/a/../b", "/b"),
        (whole, "conf/**/*.toml", "{}/conf/**/*.toml"),
        (whole_log, "log", "{}/log"),
        (whole_log, "-", "-"),
        (whole_log, "syslog:udp://a:1", "syslog:udp://a:1"),
        (whole_folder, "/static=a", "/static={}/a"),
        (whole_folder, " a", "{}/a"),
        (whole_certificates, "a.example=c.pem", "a.example={}/c.pem"),
        (whole_certificates, "a.example=/c.pem:k.pem", "a.example=/c.pem:{}/k.pem"),
    ],
)
def test_forms_make_paths_absolute(function, text, expected, tmp_path, monkeypatch):
    """Text beside the path stays."""
    monkeypatch.chdir(tmp_path)
    base = Base(StartFolder(str(tmp_path), is_said=True), is_left=True)
    assert function(text, base) == expected.format(os.getcwd())


def test_by_name_a_link_stays_in_the_path(tmp_path, monkeypatch):
    """The file is another once the link leads elsewhere."""
    (tmp_path / "one").mkdir()
    (tmp_path / "current").symlink_to("one")
    monkeypatch.chdir(tmp_path / "current")
    base = Base(StartFolder(f"{tmp_path}/current", is_said=True), is_left=False)
    assert whole_by_name("touch", base) == f"{tmp_path}/current/touch"
    assert whole("touch", base) == f"{tmp_path}/one/touch"
