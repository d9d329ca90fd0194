"""The command: exit statuses, one-line errors, and the server's arguments."""

import errno
import logging
import os
import pathlib
import re
import subprocess
import sys

import pytest
from harness.process import run_command

from aserve.command import banner, cli, outcome, serving, start
from aserve.compat.gunicorn import serving as gunicorn_serving
from aserve.compat.gunicorn.python import STAND_INS
from aserve.core.errors import AserveError, BindError
from aserve.demo import app as demo_app
from aserve.features import SETTINGS, Config

pytestmark = pytest.mark.long_on_pypy
APP = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return []\n"


def run(*argv, cwd=None, **environ):
    """Run the installed command in a separate process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ASERVE_")}
    return run_command(*argv, env={**env, **environ}, cwd=cwd)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO], ids=["a lack", "another fault"])
def test_what_the_surroundings_lack(monkeypatch, capsys, number):
    """A lack is a single line, and not a mistake in the typed words; all further faults are told whole."""

    def fail(args, is_check):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(start, "read_plan", fail)
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            cli.main(["a:b"])
        return
    assert cli.main(["a:b"]) == 1
    assert capsys.readouterr().err.startswith("aserve: error: too many open files: `ulimit -n` is ")


# Serving


def test_no_app_is_the_demo(served):
    """`aserve` alone serves the demo with the defaults."""
    assert cli.main([]) == 0
    assert served == [(demo_app, Config())]


def test_app_and_flags(served):
    """Flags before and after APP reach the server as a Config."""
    assert cli.main(["--threads", "3", "hello:app", "--bind=:1", "--bind", "unix:/a"]) == 0
    ((app, config),) = served
    assert app.__module__ == "hello"
    assert config == Config(threads=3, bind=[":1", "unix:/a"])


def test_serving_knows_no_textual():
    """Only the screen's users pay for the import."""
    code = "import sys, aserve.command.cli; sys.exit(any(name.split('.')[0] in ('textual', 'rich') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-Ic", code], check=False).returncode == 0


def test_what_keeps_the_process_is_told_last(served, monkeypatch):
    """When the server has stopped, or the app could not be imported, holders of the process are looked for, and bounded."""
    monkeypatch.setattr(outcome.exits, "bound_exit", served.append)
    cli.main([])
    assert served[1:] == [0]
    status = cli.main(["no_such_module_at_all:app"])
    assert served[2:] == [status] != [0]


def test_argv_is_the_default(served, monkeypatch):
    """Without arguments main reads the process's own."""
    monkeypatch.setattr(sys, "argv", ["aserve", "--threads", "5"])
    cli.main()
    assert served[0][1].threads == 5


@pytest.mark.parametrize("flags", [(), ("--check",)])
def test_a_user_who_is_not_there(served, capsys, flags):
    assert cli.main(["hello:app", "--user", "no-such-user", *flags]) == 2 and served == []
    assert capsys.readouterr().err.startswith("aserve: error: --user 'no-such-user': there is no such user")


def test_flags_of_certificates_reach_the_server(served, authority, capsys):
    files = [f"--{name}={path}" for name, path in authority.issue("localhost")._asdict().items()]
    other = authority.issue("other.org")
    sni = [f"--sni={name}={other.certificate}:{other.key}" for name in ("other.org", "*.other.org")]
    assert cli.main(["hello:app", "--bind=https://:1", *files, *sni]) == 0
    [(_, config)] = served
    assert config.bind == ("https://:1",) and len(config.sni) == 2


# Messages


@pytest.mark.parametrize("flags", [[], ["--check"]])
def test_certificates_that_cannot_be_used(served, tmp_path, capsys, flags):
    (tmp_path / "hello.py").write_text("raise RuntimeError")
    assert cli.main(["hello:app", "--bind=https://:1", "--certificate=none.pem", *flags]) == 2
    missing = tmp_path / "none.pem"
    assert capsys.readouterr().err == (
        f"aserve: error: cannot read the certificate {missing}: No such file or directory\n"
    )
    assert not served


def test_help_shows_every_flag(served, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for setting in SETTINGS:
        assert f"{setting.flag} {setting.kind.metavar}".rstrip() in text
        assert f"(default: {setting.kind.show(setting.default)})" in text


@pytest.mark.checkout
def test_every_flag_that_is_named_exists():
    """No message, comment or page of ours sends the user to an unknown flag."""
    flags = {
        "--config",
        "--check",
        "--version",
        "--help",
        "--json",
        "--uwsgi-ini",
        "--gunicorn-conf",
        "--explain",
        "--print-completion",
        "--paste",
        "--host",
        "--port",
        *("--app", "--debug", "--no-reload", "--noreload", "--no-input", "--strict"),  # of flask, manage.py and mypy
        *(setting.flag for setting in SETTINGS),
    }
    root = pathlib.Path(__file__).parents[2]
    for path in [
        *(root / "aserve").rglob("*.py"),
        root / "README.md",
        root / "SECURITY.md",
        *(root / "docs").glob("*.md"),
    ]:
        if path.name.startswith("moving-from-") or path.name in (
            "gunicorn_table.py",
            "lines.py",
            "containers.md",
            "release.md",
        ):
            continue  # of further programs
        ours = "\n".join(
            line
            for line in path.read_text().splitlines()
            if not {"uWSGI", "systemctl"} & {*re.findall(r"\w+", line)}
            and not line.lstrip("# ").startswith(("curl ", "certbot "))
        )
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", ours))
        if path.name == "demo.py":
            named = {name for name in named if f"aserve {name}" in path.read_text()}  # not the CSS
        assert named <= flags, path


# Mistakes


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--thread", "3"], "unknown flag --thread; did you mean --threads?"),
        (["--thread=3"], "unknown flag --thread; did you mean --threads?"),
        (["--xyzzy"], "unknown flag --xyzzy; see aserve --help"),
        (["--threads"], "flag --threads has no value; give --threads N"),
        (["a", "b"], "unexpected argument 'b': one APP, then flags; see aserve --help"),
        (["--threads", "x"], "--threads: 'x' is not a whole number; accepted: "),
        (["--bind", "x"], "--bind: 'x' has no port; "),
        (["--config", "none.toml"], "cannot read the settings file none.toml: No such file"),
        (["nowhere:app"], "no module 'nowhere' in "),
        (["hello:nothing"], "no 'nothing' in hello ("),
        (["--shared", "redis://host"], "--shared needs --shared-prefix where no APP is named"),
    ],
)
def test_mistakes_are_one_line_and_status_2(served, capsys, argv, text):
    """A mistake is a single line on standard error and exit status 2."""
    assert cli.main(argv) == 2
    assert served == []
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"aserve: error: {text}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("fault", [BindError("port 80 is taken"), AserveError("it is so")])
def test_errors_of_the_server(served, capsys, monkeypatch, fault):
    """A failure of the server is a single line, too."""

    def run_server(app, config, listeners, beside):
        raise fault

    monkeypatch.setattr(serving, "run_server", run_server)
    assert cli.main(["hello"]) == 2
    assert capsys.readouterr().err == f"aserve: error: {fault}\n"


# Logging


def test_logging_begins_at_the_level_asked(served, capsys):
    """Time, level and message on standard error, from --log-level on."""
    cli.main(["--log-level", "warning", "hello"])
    logging.getLogger("aserve.server").info("not shown")
    logging.getLogger("aserve.server").warning("shown")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING  shown\n", capsys.readouterr().err)


def test_logging_survives_the_apps(served, capsys, tmp_path):
    """An app whose set-up disables all known loggers does not silence the server."""
    logging.getLogger("aserve.connections.connection")
    (tmp_path / "hello.py").write_text(
        f"{APP}\nfrom logging.config import dictConfig\n"
        "dictConfig({'version': 1, 'disable_existing_loggers': True})\n"
    )
    cli.main(["hello"])
    logging.getLogger("aserve.connections.connection").error("shown")
    assert capsys.readouterr().err.count("shown") == 1


# The command itself, in a separate process


def test_process_check_finds_an_app_of_the_folder(tmp_path):
    """The command finds an app in the current folder, though Python would not."""
    (tmp_path / "hello.py").write_text(APP)
    done = run("--check", "hello:app", cwd=tmp_path)
    assert done.returncode == 0 and "hello:app" in done.stdout
    assert all("the app runs as root" in line for line in done.stderr.splitlines())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_process_check_as_the_user(tmp_path):
    """--check finds a file unreadable to the user of --user, as a start does."""
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "hidden.py").write_text(APP)
    words = ("--check", "hidden:app", "--python-path", f"{tmp_path}/closed")
    assert run(*words, cwd=tmp_path).returncode == 0
    done = run(*words, "--user", "nobody", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and "hidden" in done.stderr


def test_process_mistake_is_one_line_and_status_2():
    """A mistake ends with status 2, a single line and no traceback."""
    done = run(ASERVE_THREADS="x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("aserve: error: ASERVE_THREADS: 'x' is not a whole number")
    assert done.stderr.count("\n") == 1


def test_process_version_names_interpreter_and_version():
    """The version is said by the real command."""
    done = run("--version")
    assert done.returncode == 0 and done.stdout.startswith(f"aserve {banner.VERSION} on ")


def test_a_program_is_run_with_its_words(served, tmp_path, monkeypatch):
    """`aserve python` runs the program with the following words; the word may also be a flag's value."""
    monkeypatch.setattr(gunicorn_serving, "_begun", None)
    monkeypatch.setattr(sys, "argv", [])
    for name in STAND_INS:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "std.py").write_text("import pathlib, sys\npathlib.Path('seen').write_text(str(sys.argv))\n")
    assert cli.main(["--threads", "3", "python", "std.py", "--threads", "4"]) == 0
    assert (tmp_path / "seen").read_text() == "['std.py', '--threads', '4']" and served == []
    assert gunicorn_serving._begun.flags == {"threads": "3"}
    assert cli.main(["hello:app", "--server-name", "python"]) == 0 and served[0][1].server_name == "python"
