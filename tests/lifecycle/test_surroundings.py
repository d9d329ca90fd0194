"""The folder, the variables and the import path of an app."""

import os
import sys

import pytest

from aserve.core.start_folder import StartFolder
from aserve.features import SETTINGS, Config
from aserve.lifecycle.loading import load_app
from aserve.lifecycle.surroundings import SurroundingsError, set_surroundings, with_whole_paths
from aserve.settings import ConfigError


@pytest.fixture(autouse=True)
def _as_before(monkeypatch, tmp_path):
    """The process of the tests is as before, afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_nothing_is_asked_for(tmp_path):
    """By default nothing changes."""
    path, environ = list(sys.path), {"A": "1"}
    set_surroundings(Config(), environ)
    assert (sys.path, environ, os.getcwd()) == (path, {"A": "1"}, str(tmp_path))


def test_folder_and_variables(tmp_path):
    """Relative folders of --python-path are of the new folder."""
    (tmp_path / "site" / "lib").mkdir(parents=True)
    environ = {"A": "1", "B": "1"}
    set_surroundings(Config(chdir="site", env=["A=2", "C=x=y", "D="], python_path=["lib", "/nowhere"]), environ)
    assert os.getcwd() == str(tmp_path / "site") and environ == {"A": "2", "B": "1", "C": "x=y", "D": ""}
    assert sys.path[:2] == [str(tmp_path / "site" / "lib"), "/nowhere"]


def test_pth_files_are_obeyed(tmp_path):
    (tmp_path / "lib").mkdir()
    for folder, name in ((tmp_path, "placed_one"), (tmp_path / "lib", "placed_one"), (tmp_path, "placed_two")):
        (folder / f"{name}.py").write_text(f"def application(*_): ...\nplace = {str(folder)!r}\n")
    set_surroundings(Config(python_path=["lib"]), {})
    load_app("placed_two")
    assert sys.path[:2] == [str(tmp_path), str(tmp_path / "lib")]
    set_surroundings(Config(python_path=["lib", "."]), {})
    load_app("placed_one")
    assert sys.path[:2] == [str(tmp_path / "lib"), str(tmp_path)] and sys.path.count(str(tmp_path)) == 1
    assert sys.modules["placed_one"].place == str(tmp_path / "lib")


def test_pth_files(tmp_path):
    """What is installed in place in a folder of packages is found, too."""
    packages, source = tmp_path / "packages", tmp_path / "source"
    packages.mkdir()
    source.mkdir()
    (packages / "in_place.pth").write_text(f"{source}\n")
    sys.path.append(str(packages))
    same = sys.path
    set_surroundings(Config(python_path=[str(packages)]), {})
    assert sys.path is same and sys.path[:2] == [str(packages), str(source)] and sys.path.count(str(packages)) == 1


def test_a_folder_that_is_not_there():
    """The error names the flag."""
    with pytest.raises(SurroundingsError, match="--chdir /no/such: No such file or directory"):
        set_surroundings(Config(chdir="/no/such"), {})


def test_whole_paths_are_below_the_first_folder(tmp_path):
    """Files are below the folder of the command's start; other values stay."""
    config = with_whole_paths(
        Config(access_log="a", control="b", log_config="/c", bind=["unix:s", ":1"], metrics="unix:m", statsd="unix:d")
    )
    assert (config.access_log, config.control, config.log_config) == (f"{tmp_path}/a", f"{tmp_path}/b", "/c")
    assert config.bind == (f"unix:{tmp_path}/s", ":1")
    assert (config.metrics, config.statsd) == (f"unix:{tmp_path}/m", f"unix:{tmp_path}/d")
    places = ["jobs", "/jobs", "shared:jobs"]
    spooler = with_whole_paths(Config(workers=1, spooler=places, shared="redis://host")).spooler
    assert list(spooler) == [f"{tmp_path}/jobs", "/jobs", "shared:jobs"]
    assert with_whole_paths(Config(access_log="-")).access_log == "-"
    assert with_whole_paths(Config(access_log="syslog:")).access_log == "syslog:"
    moved = with_whole_paths(Config(chdir="x", bind=["uwsgi://unix:s", ":1", "unix:@a"]))
    files = with_whole_paths(Config(chdir="x", static=["/s=a", "/t=/b"], x_sendfile=["c", "/p=d"]))
    assert files.static == (f"/s={tmp_path}/a", "/t=/b") and files.x_sendfile == (f"{tmp_path}/c", f"/p={tmp_path}/d")
    assert moved.bind == (f"uwsgi://unix:{tmp_path}/s", ":1", "unix:@a")


def test_touched_files_by_the_name_of_the_folder(tmp_path):
    """A link that leads to another release is a change of them, too."""
    folder = StartFolder(str(tmp_path), is_said=True)
    assert with_whole_paths(Config(workers=1, touch_reload=["a", "/b"]), folder).touch_reload == (f"{tmp_path}/a", "/b")


def test_sockets_by_the_name_of_the_folder(tmp_path):
    """A link to the current release stays in the path, so that a reload in the next one finds the same address."""
    (tmp_path / "current").symlink_to(tmp_path)
    config = with_whole_paths(Config(bind="unix:s", stats="unix:t"), StartFolder(f"{tmp_path}/current", is_said=True))
    assert (*config.bind, config.stats) == (f"unix:{tmp_path}/current/s", f"unix:{tmp_path}/current/t")


def test_a_socket_in_a_folder_with_a_long_name(tmp_path, monkeypatch):
    """Only a relative path leads there, and stays one; behind --chdir the path would lead elsewhere, and is refused."""
    (tmp_path / ("n" * 110)).mkdir()
    monkeypatch.chdir(tmp_path / ("n" * 110))
    assert with_whole_paths(Config(bind="unix:s")).bind == ("unix:s",)
    with pytest.raises(ConfigError, match="longer than"):
        with_whole_paths(Config(bind="unix:s", chdir="/"))


def test_the_folder_of_temporary_files(tmp_path):
    """TMPDIR leads to the same folder after the app has changed the working directory."""
    environ = {"TMPDIR": "t", "TMP": "/t", "TEMP": ""}
    set_surroundings(Config(), environ)
    assert environ == {"TMPDIR": f"{tmp_path}/t", "TMP": "/t", "TEMP": ""}


def test_each_path_has_the_same_meaning_everywhere(tmp_path):
    """--chdir: paths of settings are below the former folder, whichever setting, and in options of a bind, too."""
    config = with_whole_paths(
        Config(
            chdir="x", certificate="c.pem", key="k.pem", client_ca="ca.pem", client_certificate="required", sni=["a.example=d.pem:e.pem", "b.example=/f.pem"],
            pid_file="pid", workers=1, reload=True, reload_extra=["conf/**/*.toml"],
            bind=["https://:1?certificate=g.pem&key=h.pem&client-certificate=none", "https://unix:s"],
        )
    )  # fmt: skip
    here = str(tmp_path)
    assert (config.certificate, config.key, config.client_ca) == (f"{here}/c.pem", f"{here}/k.pem", f"{here}/ca.pem")
    assert config.sni == (f"a.example={here}/d.pem:{here}/e.pem", "b.example=/f.pem")
    assert config.pid_file == f"{here}/pid" and config.reload_extra == (f"{here}/conf/**/*.toml",)
    assert config.bind == (
        f"https://:1?certificate={here}/g.pem&key={here}/h.pem&client-certificate=none", f"https://unix:{here}/s",
    )  # fmt: skip
    assert with_whole_paths(config) == config


def test_every_setting_that_is_a_path_says_so():
    """A setting with a file's path has the column `path`; the exceptions are below the folder behind --chdir, or are that folder."""
    of_files = {setting.name for setting in SETTINGS if setting.kind.metavar in ("FILE", "PATH", "ADDRESS")}
    with_path = {setting.name for setting in SETTINGS if setting.path is not None}
    assert of_files - with_path == {"chdir", "python_path", "warm_up", "healthcheck_path", "acme_email"}
