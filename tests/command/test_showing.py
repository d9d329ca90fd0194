"""What the command shows in place of serving."""

from __future__ import annotations

import platform
import re
import sys
import types

import pytest

from aserve.command import banner, cli

pytestmark = pytest.mark.long_on_pypy


def test_check_of_certificates(served, authority, capsys):
    """--check loads certificates, warns of dates, and shows the bind without its options."""
    expired = authority.issue("localhost", days=-1)
    assert cli.main(["--check", f"--bind=https://:1?certificate={expired.certificate}&key={expired.key}"]) == 0
    out, err = capsys.readouterr()
    assert "bind:    https://:1\n" in out
    assert "expired on" in err


def test_check(served, capsys):
    """--check says what would be served, and serves nothing."""
    assert (
        cli.main(["--check", "hello:app", "--bind", ":1,[::1]:2,unix:a,uwsgi://:3,fd:4,systemd:web", "--threads", "0"])
        == 0
    )
    assert served == []
    text = capsys.readouterr().out
    for part in (
        "hello:app (a function)",
        "port 1 of all interfaces",
        "http://[::1]:2",
        "unix:a",
        "bind:    uwsgi://:3",
        "bind:    fd:4",
        "bind:    systemd:web",
        "0, the app runs on the event loop's thread",
    ):
        assert part in text


def test_check_names_the_type(served, capsys, tmp_path):
    """An app that is an object is described by its class."""
    (tmp_path / "hello.py").write_text("class Site:\n    def __call__(self, e, s): return []\napp = Site()\n")
    cli.main(["--check", "hello"])
    assert "hello (hello.Site)" in capsys.readouterr().out


@pytest.mark.parametrize("has_both", [True, False])
def test_version(served, capsys, monkeypatch, tmp_path, has_both):
    """One line: our version, the interpreter's, the loop's; and whether C serves plain requests, where that is a question."""
    (tmp_path / "uvloop-0.99.dist-info").mkdir()
    (tmp_path / "uvloop_of_others-2.dist-info").mkdir()
    found = types.SimpleNamespace(origin=str(tmp_path / "uvloop/__init__.py")) if has_both else None
    monkeypatch.setattr(banner, "find_spec", lambda name: found)
    assert cli.main(["--version"]) == 0
    text = capsys.readouterr().out
    assert re.fullmatch(rf"aserve {re.escape(banner.VERSION)} on (CPython|PyPy) 3\.\S+.*\n", text)
    native = f", plain requests in {'C' if has_both else 'Python'}" if sys.implementation.name == "cpython" else ""
    assert text.endswith(f"{', uvloop 0.99' if has_both else ', asyncio'}{native}\n")


def test_a_folder_with_the_name_of_a_package(monkeypatch):
    """A folder named uvloop is no reason to fail."""
    monkeypatch.setattr(banner, "find_spec", lambda name: types.SimpleNamespace(origin=None))
    assert ", uvloop" in banner.version_line()


@pytest.mark.parametrize(
    ("record", "version"),
    [("uvloop-0.17.0-py3.11.egg-info", " 0.17.0"), ("uvloop-0.17.0.egg-info", " 0.17.0"), ("other", "")],
)
def test_version_of_an_installed_package(monkeypatch, tmp_path, record, version):
    """It is in the name of what an installer has recorded; without that, the package is named alone."""
    (tmp_path / record).mkdir()
    monkeypatch.setattr(
        banner, "find_spec", lambda name: types.SimpleNamespace(origin=str(tmp_path / "uvloop/__init__.py"))
    )
    assert re.search(rf", uvloop{re.escape(version)}(, plain .*)?\Z", banner.version_line())


def test_version_is_that_of_the_interpreter():
    """The words are those of the module `platform`, which takes long to load."""
    assert f" on {platform.python_implementation()} {platform.python_version()}" in banner.version_line()


@pytest.mark.parametrize("word", ["gunicorn", "uwsgi"])
def test_help_for_a_line_of_another_server(served, capsys, word):
    """It is about such lines, and serves nothing."""
    assert cli.main([word, "--help"]) == 0
    assert served == [] and f"aserve {word}" in capsys.readouterr().out
