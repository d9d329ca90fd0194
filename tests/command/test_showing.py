"""The command's texts in place of serving."""

import os
import platform
import re
import sys
import types

import pytest

from aserve.command import banner, cli, showing

pytestmark = pytest.mark.long_on_pypy


def test_check_of_certificates(served, authority, capsys):
    """--check loads certificates, warns of dates, and shows the bind without options."""
    expired = authority.issue("localhost", days=-1)
    assert cli.main(["--check", f"--bind=https://:1?certificate={expired.certificate}&key={expired.key}"]) == 0
    out, err = capsys.readouterr()
    assert "bind:    https://:1 (all interfaces)\n" in out
    assert "expired on" in err


def test_check_says_the_plan_and_serves_nothing(served, capsys):
    assert (
        cli.main(["--check", "hello:app", "--bind", ":1,[::1]:2,unix:/a,uwsgi://:3,fd:4,systemd:web", "--threads", "0"])
        == 0
    )
    assert served == []
    text = capsys.readouterr().out
    for part in (
        "hello:app (a function)",
        "http://:1 (all interfaces)",
        "http://[::1]:2",
        "unix:/a",
        "bind:    uwsgi://:3",
        "bind:    fd:4",
        "bind:    systemd:web",
        "0, the app runs on the event loop's thread",
    ):
        assert part in text


def test_check_of_what_starts_beside(served, capsys, tmp_path):
    """--check names the programs beside the workers, without secrets; and the largest number of workers."""
    beside = [
        "--attach",
        "sh -c secret",
        "--cron",
        "0 3 * * * ./tidy secret",
        "--spooler",
        str(tmp_path / "jobs"),
        "--uwsgi-mule",
        "-",
    ]
    assert cli.main(["--check", "hello:app", "--workers", "2", "--max-workers", "4", *beside]) == 0
    text = capsys.readouterr().out
    assert "workers: 2, up to 4 while all are busy\n" in text and "secret" not in text
    for line in ("attach:  sh ...", "cron:    0 3 * * * ./tidy ...", "mule:    -", f"spooler: {tmp_path}/jobs"):
        assert f"{line}\n" in text


def test_check_of_folders(served, capsys, tmp_path):
    """--check warns of a file in a missing folder, and of a spooler forbidden to this user: a start would not serve."""
    (tmp_path / "file").touch()
    places = [
        "--bind",
        f"unix:{tmp_path}/no/app.sock",
        "--master-fifo",
        f"{tmp_path}/no/fifo",
        "--bind",
        f"unix:{tmp_path}/good",
    ]
    assert cli.main(["--check", "hello:app", "--workers", "1", "--spooler", f"{tmp_path}/file/jobs", *places]) == 0
    told = capsys.readouterr().err
    for flag, name in (("--bind", "app.sock"), ("--master-fifo", "fifo")):
        assert f"{flag} {tmp_path}/no/{name}: its folder is not there: a start would end with an error" in told
    assert f"this user may not write the spooler '{tmp_path}/file/jobs'" in told and "good" not in told


def test_check_as_a_user_that_may_not_read_aserve(served, capsys, monkeypatch):
    """A single line says so, behind the warning with the folders; no traceback of aserve's."""

    def load(plan, is_check):
        raise ModuleNotFoundError("No module named 'importlib.abc'")

    monkeypatch.setattr(showing, "load", load)
    assert cli.main(["--check", "hello:app"]) == 2
    assert capsys.readouterr().err == (
        "aserve: error: this user cannot import aserve: No module named 'importlib.abc'; a warning before this says why\n"
    )


def test_check_names_the_type(served, capsys, tmp_path):
    """An object as app is described by the class."""
    (tmp_path / "hello.py").write_text("class Site:\n    def __call__(self, e, s): return []\napp = Site()\n")
    cli.main(["--check", "hello"])
    assert "hello (hello.Site)" in capsys.readouterr().out


def test_check_as_the_user(served, capsys, monkeypatch):
    """Run by root, --check imports the app as the user of --user, as a start does."""
    seen = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(showing, "become", lambda account: seen.append((account.uid, "hello" in sys.modules)))
    sys.modules.pop("hello", None)
    assert cli.main(["--check", "hello:app", "--user", "0"]) == 0
    assert seen == [(0, False)]


@pytest.mark.parametrize("has_both", [True, False])
def test_version_names_interpreter_loop_and_c(served, capsys, monkeypatch, tmp_path, has_both):
    """A single line: our version, the interpreter's, the loop's; and whether C serves plain requests, where C could."""
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
    """The version is in the name of an installer's record; without a record, the package is named alone."""
    (tmp_path / record).mkdir()
    monkeypatch.setattr(
        banner, "find_spec", lambda name: types.SimpleNamespace(origin=str(tmp_path / "uvloop/__init__.py"))
    )
    assert re.search(rf", uvloop{re.escape(version)}(, plain .*)?\Z", banner.version_line())


def test_version_is_that_of_the_interpreter():
    """The words equal the words of the module `platform`, slow to load."""
    assert f" on {platform.python_implementation()} {platform.python_version()}" in banner.version_line()


@pytest.mark.parametrize("word", ["gunicorn", "uwsgi"])
def test_help_for_a_line_of_another_server(served, capsys, word):
    """The help is about such lines, and the command serves nothing."""
    assert cli.main([word, "--help"]) == 0
    assert served == [] and f"aserve {word}" in capsys.readouterr().out


FILE = "[uwsgi]\nmodule = hello:app\nsocket = 0.0.0.0:0\nvhost = true\nroute = ^/ basicauth:R,u:s3cret\nenv = PASSWORD=s3cret\nlisten = 7\n"


@pytest.mark.parametrize(
    "words",
    [
        ["a.ini"],
        ["a.ini", "--route", "^/x last:", "--backlog", "9", "--env", "KEY=s3cret"],
        ["a.ini", "--static", "/s=/no/such/folder"],
        ["uwsgi", "--ini", "a.ini", "--http-socket", ":0"],
    ],
)
def test_check_warns_as_a_start_does(served, capsys, monkeypatch, tmp_path, words):
    """With the same arguments both log the same, and neither shows a possible secret."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    (tmp_path / "a.ini").write_text(FILE)
    assert cli.main(["--check", *words]) == 0 and served == []
    out, checked = capsys.readouterr()
    sys.modules.pop("uwsgi", None)
    assert cli.main(words) == 0 and len(served) == 1
    started = capsys.readouterr().err
    sys.modules.pop("uwsgi", None)

    assert warnings_in(started) and warnings_in(started) <= warnings_in(checked)
    assert "a.ini:4: vhost = true: it has no effect here" in checked and "s3cret" not in out + checked + started


def warnings_in(text):
    """Return the warnings of a log, without times."""
    return {line.partition("WARNING")[2] for line in text.splitlines() if "WARNING" in line}


def test_check_says_what_wins(served, capsys, monkeypatch, tmp_path):
    """A route of a flag comes after the file's, all further values give way: --check says so, and `aserve config` names each source."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    (tmp_path / "a.ini").write_text(FILE)
    words = ["a.ini", "--route", "^/x last:", "--backlog", "9"]
    assert cli.main(["--check", *words]) == 0
    sys.modules.pop("uwsgi", None)
    told = capsys.readouterr().err
    assert "a.ini:5: route = ...: --route comes after it" in told and "a.ini:7: listen = 7: --backlog wins" in told
    assert cli.main(["config", *words]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["backlog", "9", "from", "--backlog"] in rows
    (route,) = [row for row in rows if row[0] == "route"]
    assert " ".join(route).endswith("from a.ini:5 and --route") and "s3cret" not in str(rows)


def test_check_of_exposed_places(served, capsys):
    """A place open to words of every machine is a warning before anything is bound."""
    assert (
        cli.main(
            [
                "--check",
                "hello:app",
                "--bind",
                "uwsgi://0.0.0.0:1,uwsgi://127.0.0.1:2,scgi://[::1]:3,http://:4,uwsgi://unix:a",
            ]
        )
        == 0
    )
    assert "WARNING  uwsgi://0.0.0.0:1: every peer that connects is believed" in capsys.readouterr().err


def test_check_of_readers_of_metrics(served, capsys):
    """Metrics open to further machines are a warning of --check, as of a start."""
    assert cli.main(["--check", "hello:app", "--metrics", ":1", "--stats", "127.0.0.1:2", "--status-page", "all"]) == 0
    said = capsys.readouterr().err
    assert "WARNING  every client that reaches http://" in said and "can read the metrics and the status page;" in said
    assert "127.0.0.1:2" not in said
