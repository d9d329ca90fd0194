"""The command: exit statuses, one-line errors, and what reaches the server."""

from __future__ import annotations

import errno
import logging
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

from aserve.command import banner, cli
from aserve.core.errors import AserveError, BindError
from aserve.demo import app as demo_app
from aserve.features import SETTINGS, Config

pytestmark = pytest.mark.long_on_pypy
APP = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return []\n"


def run_command(*argv, cwd=None, **environ):
    """Run the installed command in a process of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ASERVE_")}
    return subprocess.run(
        [sys.executable, "-Im", "aserve", *argv],
        env={**env, **environ},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO], ids=["a lack", "another fault"])
def test_what_the_surroundings_lack(monkeypatch, capsys, number):
    """It is one line, and not a mistake in what was typed; other faults are told whole."""

    def fail(args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cli, "read_plan", fail)
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            cli.main(["a:b"])
        return
    assert cli.main(["a:b"]) == 1
    assert capsys.readouterr().err.startswith("aserve: error: too many open files: `ulimit -n` is ")


# What is served


def test_no_app_is_the_demo(served):
    """`aserve` alone serves the demo with the defaults."""
    assert cli.main([]) == 0
    assert served == [(demo_app, Config())]


@pytest.mark.parametrize(("on_path", "command"), [("/bin/aserve", "aserve"), (None, "/venv/bin/aserve")])
def test_the_demo_says_how_to_serve_another(served, capsys, monkeypatch, on_path, command):
    """Without an app, a line says what to type; with its path where a venv is not active."""
    monkeypatch.setattr("shutil.which", lambda name: on_path)
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    cli.main([])
    assert f"for yours: {command} module:app\n" in capsys.readouterr().err


def test_app_and_flags(served):
    """Flags before and after APP reach the server as a Config."""
    assert cli.main(["--threads", "3", "hello:app", "--bind=:1", "--bind", "unix:a"]) == 0
    ((app, config),) = served
    assert app.__module__ == "hello"
    assert config == Config(threads=3, bind=[":1", "unix:a"])


def test_translating(served, capsys, tmp_path):
    """`aserve translate` prints, and serves nothing."""
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = 3\n")
    assert cli.main(["translate", "a.ini"]) == 0
    assert "\nthreads = 3\n" in capsys.readouterr().out
    assert served == []


def test_top(monkeypatch, capsys):
    """It has a screen where textual is; where it is not, it says what to install."""
    shown = []
    monkeypatch.setitem(sys.modules, "aserve.command.top_screen", types.SimpleNamespace(run_top=shown.append))
    monkeypatch.setattr(cli, "find_spec", lambda name: name == "textual")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, types.SimpleNamespace(isatty=lambda: True))
    assert cli.main(["top", "--control", "/run/control"]) == 0 and shown == ["/run/control"]
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert cli.main(["top", "--control", "/run/control"]) == 2 and len(shown) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "textual" in told and "pip install 'aserve-wsgi[top]'" in told


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_top_without_a_terminal(monkeypatch, capsys, stream):
    """There is nowhere to draw: one line says what prints the same."""
    monkeypatch.setattr(cli, "find_spec", lambda name: name == "textual")
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, types.SimpleNamespace(isatty=lambda name=name: name != stream))
    assert cli.main(["top", "--control", "/run/control"]) == 2
    told = capsys.readouterr().err
    assert told == "aserve: error: aserve top needs a terminal; `aserve status` prints the same once\n"


def test_serving_knows_no_textual():
    """Only who looks pays for the screen."""
    code = "import sys, aserve.command.cli; sys.exit(any(name.split('.')[0] in ('textual', 'rich') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-Ic", code], check=False).returncode == 0


def test_exit_status_is_the_servers(served, monkeypatch):
    """The command ends as the server says."""
    monkeypatch.setattr(cli, "run_server", lambda app, config, *_: 7)
    assert cli.main([]) == 7


def test_what_keeps_the_process_is_told_last(served, monkeypatch):
    """When the server has stopped, or the app could not be imported, what keeps the process is looked for, and bounded."""
    monkeypatch.setattr(cli.exits, "bound_exit", served.append)
    cli.main([])
    assert served[1:] == [0]
    status = cli.main(["no_such_module_at_all:app"])
    assert served[2:] == [status] != [0]


def test_argv_is_the_default(served, monkeypatch):
    """Without arguments main reads the process's own."""
    monkeypatch.setattr(sys, "argv", ["aserve", "--threads", "5"])
    cli.main()
    assert served[0][1].threads == 5


def test_a_warning_for_root(served, monkeypatch, capsys):
    """Who runs an app as root is told what to do, unless that is asked for."""
    monkeypatch.setattr(cli, "is_root", lambda: True)
    cli.main([])
    cli.main(["--user", str(os.geteuid()), "--group", str(os.getegid()), "--bind", "127.0.0.1:0"])
    assert capsys.readouterr().err.count("running as root, and so does the app") == 1


def test_binding_before_the_app(served, monkeypatch, tmp_path, capsys):
    """With settings of the process it is bound and the pid file there when the app is imported; a failure leaves nothing."""
    (tmp_path / "looking.py").write_text(
        "import os\nassert sorted(os.listdir()) == ['a.pid', 'hello.py', 'looking.py', 's']\n1/0"
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert cli.main(["looking:app", "--bind", "unix:s", "--pid-file", "a.pid"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["hello.py", "looking.py"] and served == []


@pytest.mark.parametrize("flags", [(), ("--check",)])
def test_a_user_who_is_not_there(served, capsys, flags):
    """That is one line and status 2, also for --check."""
    assert cli.main(["hello:app", "--user", "no-such-user", *flags]) == 2 and served == []
    assert capsys.readouterr().err.startswith("aserve: error: user 'no-such-user': there is no such user")


def test_certificates(served, authority, capsys):
    """Flags of TLS reach the server; of the repeatable one all."""
    files = [f"--{name}={path}" for name, path in authority.issue("localhost")._asdict().items()]
    other = authority.issue("other.org")
    sni = [f"--sni={name}={other.certificate}:{other.key}" for name in ("other.org", "*.other.org")]
    assert cli.main(["hello:app", "--bind=https://:1", *files, *sni]) == 0
    [(_, config)] = served
    assert config.bind == ("https://:1",) and len(config.sni) == 2


# What is said


def test_check_of_certificates(served, authority, capsys):
    """--check loads certificates, warns of dates, and shows the bind without its options."""
    expired = authority.issue("localhost", days=-1)
    assert cli.main(["--check", f"--bind=https://:1?certificate={expired.certificate}&key={expired.key}"]) == 0
    out, err = capsys.readouterr()
    assert "bind:    https://:1\n" in out
    assert "expired on" in err


@pytest.mark.parametrize("flags", [[], ["--check"]])
def test_certificates_that_cannot_be_used(served, tmp_path, capsys, flags):
    """One line, exit status 2, before the app is imported."""
    (tmp_path / "hello.py").write_text("raise RuntimeError")
    assert cli.main(["hello:app", "--bind=https://:1", "--certificate=none.pem", *flags]) == 2
    missing = tmp_path / "none.pem"
    assert capsys.readouterr().err == (
        f"aserve: error: cannot read the certificate {missing}: No such file or directory\n"
    )
    assert not served


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
def test_version(served, capsys, monkeypatch, has_both):
    """One line: our version, the interpreter's, the loop's; and whether C serves plain requests, where that is a question."""
    monkeypatch.setattr(banner, "find_spec", lambda name: has_both or None)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.99")
    assert cli.main(["--version"]) == 0
    text = capsys.readouterr().out
    assert re.fullmatch(rf"aserve {re.escape(banner.VERSION)} on (CPython|PyPy) 3\.\S+.*\n", text)
    native = f", plain requests in {'C' if has_both else 'Python'}" if sys.implementation.name == "cpython" else ""
    assert text.endswith(f"{', uvloop 0.99' if has_both else ', asyncio'}{native}\n")


def test_help(served, capsys):
    """--help shows every flag, with its default."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for setting in SETTINGS:
        assert f"{setting.flag} {setting.kind.metavar}".rstrip() in text
        assert f"(default: {setting.kind.show(setting.default)})" in text


@pytest.mark.checkout
def test_every_flag_that_is_named_exists():
    """No message, comment or page of ours sends the user to a flag that is not there."""
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
        if path.name.startswith("moving-from-") or path.name in ("gunicorn_table.py", "release.md"):
            continue  # of other programs'
        ours = "\n".join(
            line
            for line in path.read_text().splitlines()
            if "uWSGI" not in line and not line.startswith(("curl ", "systemctl "))
        )
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours))
        if path.name == "demo.py":
            named = {name for name in named if f"aserve {name}" in path.read_text()}  # not its CSS
        assert named <= flags, path


# Mistakes


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--thread", "3"], "unknown flag --thread; did you mean --threads?"),
        (["--thread=3"], "unknown flag --thread; did you mean --threads?"),
        (["--xyzzy"], "unknown flag --xyzzy; see aserve --help"),
        (["--threads"], "argument --threads: expected one argument; see aserve --help"),
        (["a", "b"], "unexpected argument 'b': one APP, then flags; see aserve --help"),
        (["--threads", "x"], "--threads: 'x' is not a whole number; accepted: "),
        (["--bind", "x"], "--bind: 'x' has no port; "),
        (["--config", "none.toml"], "cannot read the settings file none.toml: No such file"),
        (["nowhere:app"], "no module 'nowhere' in "),
        (["hello:nothing"], "no 'nothing' in hello ("),
        (["--shared", "redis://host"], "shared needs shared-prefix where no APP is named"),
    ],
)
def test_mistakes(served, capsys, argv, text):
    """A mistake is one line on standard error and exit status 2."""
    assert cli.main(argv) == 2
    assert served == []
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"aserve: error: {text}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("fault", [BindError("port 80 is taken"), AserveError("it is so")])
def test_errors_of_the_server(served, capsys, monkeypatch, fault):
    """What the server cannot do is one line, too."""

    def run_server(app, config, listeners, beside):
        raise fault

    monkeypatch.setattr(cli, "run_server", run_server)
    assert cli.main(["hello"]) == 2
    assert capsys.readouterr().err == f"aserve: error: {fault}\n"


# Logging


def test_logging(served, capsys):
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


# The command itself, in a process of its own


def test_process_check(tmp_path):
    """The command finds an app in the current folder, though Python would not."""
    (tmp_path / "hello.py").write_text(APP)
    done = run_command("--check", "hello:app", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hello:app" in done.stdout


def test_process_mistake():
    """A mistake ends with status 2, one line and no traceback."""
    done = run_command(ASERVE_THREADS="x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("aserve: error: ASERVE_THREADS: 'x' is not a whole number")
    assert done.stderr.count("\n") == 1


def test_process_version():
    """The version is said by the real command."""
    done = run_command("--version")
    assert done.returncode == 0 and done.stdout.startswith(f"aserve {banner.VERSION} on ")
