"""gunicorn's command line and GUNICORN_CMD_ARGS."""

import shlex

import pytest

from aserve.compat.moving.draft import Draft
from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.compat.moving.gunicorn_flags import read_line, read_variable
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        (
            "-b :80 -w 4 -k gthread app:app",
            {"bind": [":80"], "workers": "4", "wsgi_app": "app:app", "worker_class": "gthread"},
        ),
        ("app --bind=:80 --bind :81 --preload", {"bind": [":80", ":81"], "wsgi_app": "app", "preload_app": True}),
        ("-w4 --worker-conn 5 --no-sendfile", {"workers": "4", "worker_connections": "5", "sendfile": False}),
        ("--paste a.ini", {"paste": "a.ini"}),
        ("--paster a.ini --paste-global a=b", {"paste": "a.ini", "raw_paste_global_conf": "a=b"}),
        ("--check-config -c g.py a", {"config": "g.py", "wsgi_app": "a"}),
        (
            "--enable-stdio-inheritance --enable-backlog-metric a",
            {"enable_stdio_inheritance": True, "enable_backlog_metric": True, "wsgi_app": "a"},
        ),
        ("--uwsgi-allow-from 10.0.0.1 --asgi-loop auto", {"uwsgi_allow_ips": "10.0.0.1", "asgi_loop": "auto"}),
        ("--proxy-protocol --access-logfile - a", {"proxy_protocol": "auto", "accesslog": "-", "wsgi_app": "a"}),
    ],
)
def test_words_are_read_as_by_gunicorn(line, settings):
    draft = Draft("")
    found = read_line(shlex.split(line), draft)
    assert {given.key: given.value for given in found} == settings and not draft.mistakes


def test_all_mistakes_at_once(tmp_path, monkeypatch):
    """Mistakes of words and values are told together."""
    monkeypatch.chdir(tmp_path)
    line = (
        "-w x --foo --workerr=3 -Z --worker 3 app:app more --control-socke x --metrics --graceful-timeout y --threads"
    )
    with pytest.raises(ConfigError) as raised:
        load_gunicorn("", {}, shlex.split(line))
    said = str(raised.value).split("\n")
    assert [text.partition("gunicorn's command line: ")[2].partition(" or ")[0] for text in said] == [
        "--foo: gunicorn has no such flag",
        "--workerr: gunicorn has no such flag; is --workers meant?",
        "-Z: gunicorn has no such flag",
        "--worker: it may be --workers",
        "--control-socke: it may be --control-socket",
        "--metrics: gunicorn has no such flag; it is aserve's, which goes before the word gunicorn",
        "--threads lacks its value",
        "app:app: one app was expected, and flags",
        "more: one app was expected, and flags",
        "x: one app was expected, and flags",
        "workers = x: 'x' is not a number",
        "graceful_timeout = y: 'y' is not a number",
    ]


def test_sources_in_their_order(tmp_path, monkeypatch):
    """The file, GUNICORN_CMD_ARGS, the command line; ./gunicorn.conf.py is read if no other file is named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").write_text("workers = 2\nbacklog = 20\nwsgi_app = 'filed'\n")
    (tmp_path / "other.py").write_text("workers = 3\n")
    variable = {"GUNICORN_CMD_ARGS": "--workers 4 -c other.py"}
    for line, environ, workers, app in (
        ("", {}, 2, "filed:application"),
        ("a:b", {}, 2, "a:b"),
        ("-w 5 a", {}, 5, "a:application"),
        ("-c other.py a", {}, 3, "a:application"),
        ("a", variable, 4, "a:application"),
        ("-w 6 -c gunicorn.conf.py", variable, 6, "filed:application"),
    ):
        draft, _ = load_gunicorn("", environ, shlex.split(line))
        assert (draft.settings["workers"], draft.app) == (workers, app)
    assert load_gunicorn("", {})[0].settings["workers"] == 1


def test_the_variable_takes_unknown_flags_as_notes():
    draft = Draft("")
    assert [(given.key, given.value) for given in read_variable("-w 3 --foo=1", draft)] == [("workers", "3")]
    assert [str(note) for note in draft.notes] == [
        "GUNICORN_CMD_ARGS: --foo: aserve does not know it, and it has no effect"
    ]
    for text in ("'", "-w"):
        with pytest.raises(ConfigError, match=r"^GUNICORN_CMD_ARGS: "):
            read_variable(text, draft)


@pytest.mark.parametrize(
    ("text", "mode"), [("007", "770"), ("0o27", "750"), ("18", "755"), ("0x3f", "700"), ("0", None)]
)
def test_umask_is_for_sockets_alone(text, mode):
    """gunicorn's form: a leading zero is octal. The umask is for sockets; the process keeps its own."""
    settings = load_gunicorn("", {}, ["--umask", text, "-b", "unix:a.sock", "a"])[0].settings
    assert settings.get("unix-mode") == mode and "umask" not in settings
