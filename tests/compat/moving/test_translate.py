"""`aserve translate` prints a file of ours, with the same settings."""

import pathlib
import shutil
import sys

import pytest
from harness.interpreter import NEEDS_LINUX

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.compat.moving.translate import as_toml, run_translate
from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.features import Config
from aserve.settings import ConfigError, read_toml
from aserve.settings.variables import expand

pytestmark = pytest.mark.long_on_pypy

HERE = pathlib.Path(__file__).parent
ENVIRON = {"SHOP_PORT": "0", "SHOP_MODULE": "wsgi", "SHOP_PROCESSES": "2", "SHOP_UID": "root", "SHOP_GID": "root"}
FILES = sorted([*(HERE / "uwsgi").glob("*.[ixyj]*"), *(HERE / "gunicorn").glob("*.py")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_round_trip_keeps_settings_and_app(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "version.txt").write_text("1\n")
    shutil.copy(HERE / "uwsgi" / "base_of_includes.ini", tmp_path)
    name = f"{path}:development" if path.stem == "sections" else str(path)
    draft = load_gunicorn(name, ENVIRON)[0] if path.suffix == ".py" else load_uwsgi(name, ENVIRON)
    assert run_translate(["translate", name], ENVIRON) == 0
    (tmp_path / "printed.toml").write_text(capsys.readouterr().out)
    printed = expand(read_toml("printed.toml"), ENVIRON, "printed.toml")
    assert printed.get("app") == draft.app
    assert Config.from_sources({}, {}, printed) == Config.from_sources({}, {}, draft.settings)


@NEEDS_LINUX
def test_what_is_printed(tmp_path, monkeypatch, capsys):
    """Each line tells its source; rows without effect are below, with advice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = a:b\nenv = A=1\nenv = B=2\nmaster\ndisable-logging\nidle = 1\n")
    run_translate(["translate", "a.ini"], {})
    assert (
        capsys.readouterr().out
        == """\
# From a.ini, by aserve translate. Start it with: aserve --config THIS_FILE

# a.ini:2: module = a:b
app = "a:b"
# a.ini:3: env = ...
# a.ini:4: env = ...
env = ["A=1", "B=2"]
# a.ini:5: master
workers = 1
# uWSGI's default; raise it where the app bears that
threads = 1
# the app may import uwsgi
uwsgi-module = "on"
# uWSGI's name
# sys.argv of the app: without this line it is aserve's, which most apps do not look at
argv = ["uwsgi"]
# X-Forwarded-* reach the app as they come, and X-Forwarded-Proto is the scheme
environ-as = "uwsgi"

# What differs, or has no effect:
#   a.ini:7: idle = 1: it has no effect here: workers start at once, and stay
"""
    )


def test_hooks_are_told_as_missing(tmp_path, monkeypatch, capsys):
    """A TOML file cannot have hooks, and a comment says so; with the app's own means where possible, and where a file names no app."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf.py").write_text(
        "preload_app = True\ndef post_fork(server, worker): worker.log.info('x')\nwhen_ready = post_fork\n"
    )
    run_translate(["translate", "conf.py"], {})
    out = capsys.readouterr().out
    assert "preload = true\n" in out or sys.platform != "linux"
    assert out.splitlines()[0].endswith("Start it with: aserve --config THIS_FILE module:app")
    assert out.endswith(
        "\n# Hooks are called with --gunicorn-conf, or `aserve gunicorn`, only: when_ready, post_fork\n"
        "#   post_fork: in the app, a function with @aserve.post_fork; see `aserve docs preload`\n"
    )


@NEEDS_LINUX
@pytest.mark.parametrize(
    ("name", "text", "is_noted"),
    [
        ("conf.py", "import os\nworkers = 2 * os.cpu_count() + 1\n", True),
        ("a.ini", "[uwsgi]\nhttp = :80\nprocesses = %k\n", True),
        (
            "a.ini",
            "[uwsgi]\nif-env = W\nprocesses = $(W)\nendif =\nif-not-env = W\nprocesses = %(%k * 2)\nendif =\n",
            True,
        ),
        ("conf.py", "workers = 5\n", False),
    ],
)
def test_the_number_of_cpus(tmp_path, monkeypatch, capsys, name, text, is_noted):
    """Values that follow the CPUs have the number of the translating machine: a note tells their TOML form."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    run_translate(["translate", name], {})
    assert ('"auto" is one for each CPU' in capsys.readouterr().out) is is_noted


def test_what_only_a_file_of_uwsgi_does(tmp_path, monkeypatch, capsys):
    """Hooks and imports are named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = a:b\nhook-asap = print:a\nimport = c\nhook-asap = print:b\n")
    run_translate(["translate", "a.ini"], {})
    assert capsys.readouterr().out.endswith("\n# Done with --uwsgi-ini, or `aserve uwsgi`, only: hook-asap, import\n")


def test_odd_texts_cannot_end_a_comment(tmp_path):
    draft = Draft("a\nb")
    draft.put("env", ['A="\\\x7f\n\u2028é'], Given("env", "x\ny", "f:1"))
    text = as_toml(draft)
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    assert read_toml(str(tmp_path / "a.toml")) == {"env": ['A="\\\x7f\n\u2028é']} and text.startswith("# From a\\nb,")


def test_what_is_no_such_file(tmp_path, monkeypatch):
    """A name tells the server; no name, or two names, is an error."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"notes: its name says neither uWSGI.*: aserve translate gunicorn -c notes$"):
        run_translate(["translate", "notes"], {})
    with pytest.raises(ConfigError, match="the following arguments are required: FILE; see aserve translate --help"):
        run_translate(["translate"], {})


def test_command_lines_are_translated(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_translate(["translate", "uwsgi", "--http", ":80", "-p", "3", "-w", "a:b"], {}) == 0
    told = capsys.readouterr().out
    assert '\napp = "a:b"\n' in told and "\n# uWSGI's command line: processes = 3\nworkers = 3\n" in told
    assert run_translate(["translate", "gunicorn", "-w", "3", "a:b"], {}) == 0
    assert "\n# gunicorn's command line: workers = 3\nworkers = 3\n" in capsys.readouterr().out


def test_a_guard_that_is_not_in_the_file(monkeypatch, tmp_path, capsys):
    """The guard is named first, and on standard error; the status is 1, so that `&&` ends there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = a:b\nroute = ^/ lua:s3cret\nroute = ^/x break:403\n")
    assert run_translate(["translate", "a.ini"], {}) == 1
    out, err = capsys.readouterr()
    told = "a.ini:3: route = ...: aserve cannot obey it, and it may keep requests from the app: "
    assert out.split("\n")[2:4] == [
        "# It keeps requests from the app there, and is NOT in this file:",
        out.split("\n")[3],
    ]
    assert f"#   {told}" in out and err.startswith(f"aserve translate: {told}") and out.count(told) == 1
    assert 'route = ["^/x break:403"]' in out and "s3cret" not in out + err
