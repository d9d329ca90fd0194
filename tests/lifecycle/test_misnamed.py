"""Modules other than the meant ones: the error tells why, and a remedy."""

import os
import sys
import types

import pytest

from aserve.command.subcommands import OWN
from aserve.features import commands
from aserve.lifecycle.load_error import LoadError
from aserve.lifecycle.loading import load_app
from aserve.lifecycle.misnamed import OWN as TOLD
from aserve.lifecycle.misnamed import hint_for_module, why_hidden

APP = "def app(environ, start_response): ...\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return tmp_path


@pytest.mark.parametrize("spec", ["json:app", "json", "json:create_app()"])
def test_behind_the_standard_library(folder, spec):
    """A json.py can only be named as a file: Python has imported another json."""
    (folder / "json.py").write_text(APP)
    with pytest.raises(LoadError) as caught:
        load_app(spec)
    told = f"{folder}/json.py is hidden by the standard library's json; rename json.py, or name the file: json.py:NAME"
    assert str(caught.value) == told and caught.value.exit_status == 2
    assert load_app("json.py:app").__name__ == "app"


@pytest.mark.parametrize("name", ["shop.wsgi", "shop-wsgi"])
def test_a_file_that_is_named_without_its_folder(folder, name):
    """Other servers find a file by its name alone; the error says how to write a file here."""
    (folder / name).write_text(APP)
    with pytest.raises(LoadError, match=f"; write ./{name} for the file$"):
        load_app(f"{name}:app")
    assert load_app(f"./{name}:app").__name__ == "app"


def test_a_file_of_settings_in_place_of_the_app(folder):
    (folder / "site.toml").touch()
    with pytest.raises(LoadError, match=r"; write --config site\.toml$"):
        load_app("site.toml")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("help", "for the flags write: aserve --help"),
        ("version", "for the version write: aserve --version"),
        ("serve", "there is no subcommand 'serve', as aserve serves without one; write: aserve APP"),
    ],
)
def test_a_subcommand_of_other_programs(folder, name, said):
    """The error names aserve's own words for it; a module of that name is served as any other."""
    with pytest.raises(LoadError) as caught:
        load_app(name)
    assert str(caught.value).endswith(said)
    (folder / f"{name}.py").write_text(APP)
    sys.modules.pop(name, None)
    assert load_app(f"{name}.py:app").__name__ == "app"
    sys.modules.pop(name, None)


def test_a_packages_folder_is_to_be_renamed(folder):
    (folder / "email").mkdir()
    (folder / "email" / "__init__.py").write_text("")
    (folder / "email" / "site.py").write_text(APP)
    import email  # noqa: F401

    with pytest.raises(LoadError) as caught:
        load_app("email.site:app")
    assert str(caught.value).endswith(
        "email/__init__.py is hidden by the standard library's email; rename the folder email"
    )


def test_behind_another_module(folder, monkeypatch):
    """A hidden module's error names the file of the other; one of C has none, and is Python's."""
    (folder / "shop.py").write_text(APP)
    other = types.ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", other)
    assert "the standard library's shop" in why_hidden("shop", str(folder))
    other.__file__ = "/srv/old/shop.py"
    assert "is hidden by /srv/old/shop.py, which is imported already; rename shop.py, or" in why_hidden(
        "shop", str(folder)
    )
    assert why_hidden("shop.part", str(folder)).endswith("; rename shop.py")
    other.__file__ = str(folder / "shop.py")
    assert why_hidden("shop", str(folder)) == ""


def test_nothing_hidden_needs_no_hint(folder):
    """A name of another's alone, or nobody's, is told as before."""
    assert why_hidden("json", str(folder)) == "" == why_hidden("nowhere_at_all", str(folder))
    with pytest.raises(LoadError, match="no 'app' in json"):
        load_app("json:app")
    (folder / "nowhere_at_all.py").write_text("")
    assert why_hidden("nowhere_at_all", str(folder)) == ""


def test_hints_name_a_near_module(folder):
    (folder / "shop.py").write_text("")
    assert hint_for_module("shp") == "did you mean shop?"
    assert hint_for_module("json.loads") == "did you mean json:loads?"
    assert hint_for_module("quite_another").startswith("run aserve in the folder")


def test_hints_name_a_near_subcommand(folder):
    """The beginning of a subcommand and a mistyped subcommand get a proposal; a module of the folder is no subcommand."""
    assert {*TOLD} == {*OWN, *commands()}
    assert hint_for_module("st") == hint_for_module("statsu") == "did you mean the subcommand status?"
    (folder / "stations.py").write_text("")
    assert hint_for_module("statons") == "did you mean stations?"


@pytest.mark.parametrize("spec", ["C:\\proj\\app.py", "C:\\proj\\app.py:app", "c:/proj/app.py", "C:projapp.py"])
def test_a_path_of_windows_is_told(folder, spec):
    """The error names the kind of path, also where a shell has taken the backslashes."""
    with pytest.raises(LoadError, match=r" is a path of Windows; write the path on this machine, such as /srv/"):
        load_app(spec)


def test_a_folder_that_may_not_be_read(monkeypatch):
    """The error names the user without the right, as with --user where the app is below root's home."""

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    assert "may not read the current folder: have the app where it may" in hint_for_module("nowhere")
