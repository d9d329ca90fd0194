"""The plan of a start, read from all sources."""

import importlib
import sys

import pytest

from aserve.command import cli, plans
from aserve.features import Config
from aserve.settings import ConfigError


def test_uwsgis_file_is_served_below_other_sources(served, capsys, monkeypatch, tmp_path):
    """App and settings are served, settings without effect are told; flags and a TOML file win."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = hello:app\nthreads = 3\nlisten = 7\nidle = 1\n")
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nbacklog = 9\n")
    assert cli.main(["a.ini"]) == cli.main(["--uwsgi-ini", "a.ini", "--threads", "5"]) == 0
    assert [(app.__module__, config.threads, config.backlog) for app, config in served] == [
        ("hello", 3, 9),
        ("hello", 5, 9),
    ]
    assert "a.ini:5: idle = 1: it has no effect here" in capsys.readouterr().err
    uwsgi = importlib.import_module("uwsgi")
    assert uwsgi.opt["listen"] == b"7" and uwsgi.opt["enable-threads"] is True
    del sys.modules["uwsgi"]
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = x\n")
    assert cli.main(["a.ini"]) == 2
    assert capsys.readouterr().err == "aserve: error: a.ini:2: threads = x: 'x' is not a whole number\n"


@pytest.mark.parametrize(
    "words",
    [
        ["a.ini"],
        ["--uwsgi-ini", "a.ini"],
        ["uwsgi", "a.ini"],
        ["uwsgi", "--threads", "3"],
        ["gunicorn", "--threads", "3"],
        ["--gunicorn-conf", ""],
    ],
)
def test_no_demo_for_what_another_server_has(served, capsys, tmp_path, words):
    """Settings of another server without an app are a mistake: the server of a site must not serve a demo."""
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = 3\n")
    assert cli.main(words) == cli.main(["--check", *words]) == 2 and served == []
    assert " names no app, and no files to serve; put the app first: aserve module:app" in capsys.readouterr().err


def test_command_lines_of_other_servers(served, capsys, tmp_path):
    """A single word more in front; aserve's own flags go before the word and win; all mistakes are told at once."""
    for words in (
        "--threads 5 uwsgi --http :0 --module hello:app --threads 3",
        "hello:app --threads 5 uwsgi --http :0",
    ):
        assert cli.main(words.split()) == 0
    assert [(app.__module__, config.threads) for app, config in served] == [("hello", 5)] * 2
    assert (
        cli.main(["--threads", "5", "gunicorn", "--check-config", "--threads=3", "hello:app"]) == 0 and len(served) == 2
    )
    told = capsys.readouterr().out
    assert "\nthreads: 5\n" in told and told.endswith("All is well; without --check this would be served.\n")
    assert cli.main(["uwsgi", "--htp", ":0", "--threads", "x"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and all(line.startswith("aserve: error: uWSGI's command line: ") for line in told)


def test_the_access_log_has_a_place_of_its_own(served, monkeypatch, tmp_path):
    """A name is meant from where the command was started, wherever the app goes; `-` stays standard output."""
    monkeypatch.chdir(tmp_path)
    for name in ("log", "-"):
        assert cli.main(["--access-log", name]) == 0
    assert [config.access_log for _, config in served] == [str(tmp_path / "log"), "-"]


def test_the_control_socket_has_a_place_of_its_own(served, monkeypatch, tmp_path):
    """The same; and the first word may be a question to a running server."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["--control", "socket"]) == 0
    assert [config.control for _, config in served] == [str(tmp_path / "socket")]
    assert cli.main(["status", "--control", "socket"]) == 2


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        ("/a=gone:app", "aserve: error: no module 'gone' in "),
        ("/=hello:app", "aserve: error: --mount / is the place of the APP, which is 'hello:app'; name one of them"),
    ],
)
def test_mounts_that_cannot_be(served, capsys, mount, text):
    """Such a mount is a single line and status 2, and nothing is served."""
    assert cli.main(["hello:app", "--mount", mount]) == 2 and served == []
    assert capsys.readouterr().err.startswith(text)


def test_the_platforms_port(served, monkeypatch, capsys):
    """PORT is a platform's port for the app, and the log says so; a bind wins over PORT."""
    monkeypatch.setenv("PORT", "5000")
    cli.main([])
    cli.main(["--bind", ":1"])
    assert [config.bind for _, config in served] == [("0.0.0.0:5000",), (":1",)]
    assert capsys.readouterr().err.count("no --bind, and PORT is 5000: listening on all IPv4 interfaces") == 1


def test_environment_counts_below_the_flags(served, monkeypatch):
    monkeypatch.setenv("ASERVE_APP", "hello")
    monkeypatch.setenv("ASERVE_THREADS", "4")
    monkeypatch.setenv("ASERVE_BACKLOG", "4")
    cli.main(["--backlog", "5"])
    ((app, config),) = served
    assert (app.__module__, config.threads, config.backlog) == ("hello", 4, 5)


def test_pyproject_of_the_folder_counts(served, tmp_path):
    """[tool.aserve] of the current folder's pyproject.toml counts, the app included."""
    (tmp_path / "pyproject.toml").write_text('[tool.aserve]\napp = "hello:app"\nthreads = 6\n')
    cli.main([])
    ((app, config),) = served
    assert (app.__module__, config.threads) == ("hello", 6)


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_config_file_named_replaces_pyproject(served, tmp_path, monkeypatch, how):
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nthreads = 6\n")
    (tmp_path / "site.toml").write_text("backlog = 7\n")
    if how == "variable":
        monkeypatch.setenv("ASERVE_CONFIG", "site.toml")
    cli.main(["--config", "site.toml"] if how == "flag" else [])
    assert served[0][1] == Config(backlog=7)


def test_app_in_toml_is_text(served, capsys, tmp_path):
    """The file's app is checked like everything else."""
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\napp = 3\n")
    assert cli.main([]) == 2
    assert "app in [tool.aserve] of pyproject.toml: 3 is not text" in capsys.readouterr().err


def test_lists_may_be_repeated(served):
    """A flag with a list may be given again instead of a comma."""
    argv = ["hello:app", "--trusted-proxies", "10.0.0.1", "--trusted-proxies", "unix,::1"]
    assert cli.main([*argv, "--forwarded-fields", "x-real-ip", "--forwarded-fields", "x-forwarded-proto"]) == 0
    config = served[0][1]
    assert config.trusted_proxies == ("10.0.0.1", "unix", "::1")
    assert config.forwarded_fields == ("x-real-ip", "x-forwarded-proto")


def test_settings_that_have_not_changed(monkeypatch, tmp_path):
    """Unchanged settings are not made anew: a reload has the same objects, in another plan; a change of any source makes new objects."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASERVE_BACKLOG", "7")
    args = {"app": "hello:app", "threads": "3"}
    first = plans.read_settings(args)
    again = plans.read_settings(args, first)
    assert again is not first and again == first and again.config is first.config
    assert "hello" not in repr(again.sources)
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nextra-threads = 9\n")
    second = plans.read_settings(args, again)
    assert (second.config.extra_threads, second.config.backlog, second.config.threads) == (9, 7, 3)
    monkeypatch.setenv("ASERVE_BACKLOG", "8")
    assert plans.read_settings(args, second).config.backlog == 8
    assert plans.read_settings({**args, "threads": "4"}, second).config.threads == 4


def test_files_of_settings_that_have_not_changed(monkeypatch, tmp_path):
    """Files are looked at again: a program may be gone since the start, and a certificate may be damaged."""
    monkeypatch.chdir(tmp_path)
    loaded = []
    monkeypatch.setattr(plans, "load_certificates", lambda config, without: loaded.append(config))
    (tmp_path / "program").touch(0o700)
    args = {"app": "hello:app", "workers": "1", "attach": ["./program"], "bind": ["https://:1"], "certificate": "a.pem"}
    first = plans.read_plan(args)
    assert plans.read_plan(args, first).config is first.config and loaded == [first.config] * 2
    (tmp_path / "program").unlink()
    with pytest.raises(ConfigError, match=r"--attach: cannot run '\./program'"):
        plans.read_plan(args, first)


def test_settings_of_a_folder_whose_link_has_moved(monkeypatch, tmp_path):
    """Relative paths are the new release's, though no source has another text."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "current").symlink_to("one")
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("PWD", str(tmp_path / "current"))
    args = {"app": "hello:app", "pid_file": "pid"}
    first = plans.read_settings(args)
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("two")
    monkeypatch.chdir(tmp_path / "current")
    second = plans.read_settings(args, first)
    assert first.sources.folder == second.sources.folder
    assert [plan.config.pid_file for plan in (first, second)] == [
        str(tmp_path / name / "pid") for name in ("one", "two")
    ]


def test_settings_of_another_server_are_always_read(tmp_path):
    """The file, or an imported file, may have changed."""
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = hello:app\nthreads = 3\n")
    args = {"uwsgi_ini": str(tmp_path / "a.ini")}
    first = plans.read_settings(args)
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = hello:app\nthreads = 4\n")
    assert plans.read_settings(args, first).config.threads == 4
