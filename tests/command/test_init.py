"""`aserve init`: the app of the written files, and the files left alone."""

import errno
import os
import pwd
import shutil
import sys

import pytest

from aserve.command import init as init_module
from aserve.command.init import init
from aserve.settings import ConfigError

APP = "def app(environ, start_response): pass\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a name forbidden to units and hosts."""
    place = tmp_path / "My Shop_2"
    place.mkdir()
    return place


def test_what_is_written(folder):
    """Three files, by the folder's name; the text names the next step."""
    (folder / "hello.py").write_text(APP)
    said = init([], str(folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        "aserve.toml", "hello.py", "my-shop-2.nginx.conf", "my-shop-2.service",
    ]  # fmt: skip
    assert said.count(": written\n") == 3 and "aserve --config aserve.toml --check" in said
    assert 'app = "hello:app"' in (folder / "aserve.toml").read_text()


def test_a_public_site(folder):
    """Two files; the text names the terms, and the single remaining command."""
    said = init(["--https", "Shop.Example", "shop:app"], str(folder))
    assert 'https = ["shop.example"]' in (folder / "aserve.toml").read_text()
    assert "you agree to the terms of Let's Encrypt: https://letsencrypt.org/repository/\nNext, as root: " in said
    assert said.count(": written\n") == 2 and f"enable --now '{folder}/my-shop-2.service'\n" in said


def test_a_name_that_is_none(folder):
    """A wrong name is refused before anything is written."""
    with pytest.raises(ConfigError, match="Let's Encrypt knows no name without a dot"):
        init(["--https", "shop", "shop:app"], str(folder))
    assert list(folder.iterdir()) == []


def test_nothing_is_overwritten(folder):
    """A present file stays, and all missing files are written."""
    (folder / "aserve.toml").write_text("mine")
    said = init(["shop:create_app('x')"], str(folder))
    assert "aserve.toml: is there already, and stays as it is\n" in said and said.count(": written\n") == 2
    assert (folder / "aserve.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("names", "proposed"), [([], "static"), (["static"], "static"), (["static", "staticfiles"], "staticfiles")]
)
def test_the_folder_of_files(folder, names, proposed):
    """Django's collected files come before their sources."""
    for name in names:
        (folder / name).mkdir()
    init(["shop:app"], str(folder))
    assert f'# static = ["/static={proposed}"]\n' in (folder / "aserve.toml").read_text()


def test_the_app_that_is_named(folder):
    """The named app may come later; quotes are the file's."""
    init(['shop:create_app("x")'], str(folder))
    assert r'app = "shop:create_app(\"x\")"' in (folder / "aserve.toml").read_text()


def test_no_app_or_several(folder):
    """Nothing is guessed, and nothing written."""
    with pytest.raises(ConfigError, match=r"no app was found in .*; name it: aserve init module:app"):
        init([], str(folder))
    (folder / "app.py").write_text(APP)
    (folder / "main.py").write_text("def create_app(): pass\n")
    with pytest.raises(
        ConfigError,
        match=r"2 apps were found in .*; choose one: aserve init app:app or aserve init 'main:create_app\(\)'",
    ):
        init([], str(folder))
    assert {path.name for path in folder.iterdir()} == {"app.py", "main.py"}


def test_a_link_that_leads_nowhere(folder):
    """Such a link counts as a present file."""
    (folder / "aserve.toml").symlink_to(folder / "gone")
    assert "aserve.toml: is there already" in init(["a:b"], str(folder))
    assert not (folder / "gone").exists()


def test_a_folder_that_cannot_be_written_to(folder, monkeypatch):
    """The file is named, with the system's reason."""

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(init_module, "open", refuse, raising=False)
    with pytest.raises(ConfigError, match=r"cannot write .*aserve\.toml: Permission denied"):
        init(["a:b"], str(folder))


def test_whose_unit_it_is(folder, monkeypatch):
    """The unit's user is the folder's owner; root's folder is served by www-data, an owner without a name by number."""
    unit = folder / "my-shop-2.service"
    for owner, user in ((0, "www-data"), (4_000_000, "4000000"), (1, pwd.getpwuid(1).pw_name)):
        monkeypatch.setattr(os, "stat", lambda path, owner=owner: os.stat_result([0] * 4 + [owner] + [0] * 5))
        init(["a:b"], str(folder))
        assert f"\nUser={user}\n" in unit.read_text()
        unit.unlink()


def test_which_aserve_it_starts(folder, tmp_path, monkeypatch):
    """The unit starts aserve of this environment; without aserve beside the interpreter, aserve on PATH."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    for path in ("/usr/bin/aserve", None):
        monkeypatch.setattr(shutil, "which", lambda name, path=path: path)
        init(["a:b"], str(folder))
        assert f"ExecStart={path or tmp_path / 'bin/aserve'} " in (folder / "my-shop-2.service").read_text()
        (folder / "my-shop-2.service").unlink()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aserve").touch()
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/aserve")
    init(["a:b"], str(folder))
    assert f"ExecStart={tmp_path}/bin/aserve " in (folder / "my-shop-2.service").read_text()
