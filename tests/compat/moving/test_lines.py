"""Other servers' command lines among aserve's own words."""

import os
import signal

import pytest

from aserve.command.flags import parse_args
from aserve.compat.moving.lines import asked_for_help, asks_for_version, is_check, sends_signal, split_line
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("words", "ours", "line"),
    [
        ("uwsgi --http :80 -M", "", {"uwsgi_line": ["--http", ":80", "-M"]}),
        ("--check gunicorn -w 2 a:b", "--check", {"gunicorn_line": ["-w", "2", "a:b"]}),
        ("--user uwsgi a:b", "--user uwsgi a:b", {}),
        ("--user uwsgi gunicorn a:b", "--user uwsgi", {"gunicorn_line": ["a:b"]}),
        ("uwsgi --module gunicorn", "", {"uwsgi_line": ["--module", "gunicorn"]}),
        ("uwsgi:app", "uwsgi:app", {}),
        ("-w 2 python std.py --check -w 3", "-w 2", {"python_line": ["std.py", "--check", "-w", "3"]}),
    ],
)
def test_where_they_begin(words, ours, line):
    """With the word uwsgi, gunicorn or python, unless it is the value of a flag."""

    def check(argv):
        if argv[-1:] == ["--user"]:
            raise ConfigError("expected one argument")

    assert split_line(words.split(), check) == (ours.split(), line)


def test_among_the_flags():
    """The words are kept unchanged; gunicorn's --check-config is aserve's --check."""
    assert parse_args(["-w", "3", "uwsgi", "--http", ":80"]) == {"workers": "3", "uwsgi_line": ["--http", ":80"]}
    assert parse_args(["gunicorn", "--check-config", "a"])["check"] is True
    assert is_check({"gunicorn_line": ["--check-config"]}) and is_check({"gunicorn_line": ["--check"]})
    assert not is_check({"gunicorn_line": ["--chdir"]}) and not is_check({"uwsgi_line": ["--check-config"]})


@pytest.mark.parametrize("word", ["uwsgi", "gunicorn"])
def test_help_and_version(word):
    """Both are aserve's; the text fits a terminal."""
    text = asked_for_help({f"{word}_line": ["-w", "2", "--help"]})
    assert text.startswith(f"usage: aserve [flags of aserve] {word} [") and f"aserve docs moving-from-{word}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert asked_for_help({f"{word}_line": []}) == "" == asked_for_help({})
    assert asks_for_version({f"{word}_line": ["--version"]}) and not asks_for_version({f"{word}_line": ["-w"]})


def test_signals_to_the_process_of_a_pid_file(tmp_path, monkeypatch):
    """As uWSGI's --reload and --stop; no signal goes to a group of processes."""
    sent = []
    monkeypatch.setattr(os, "kill", lambda *signal: sent.append(signal))
    path = tmp_path / "pid"
    path.write_text("4711\n")
    assert sends_signal({"uwsgi_line": ["--reload", str(path)]}) and sends_signal({"uwsgi_line": [f"--stop={path}"]})
    assert sent == [(4711, signal.SIGHUP), (4711, signal.SIGINT)]
    assert not sends_signal({"uwsgi_line": ["--module", "app"]}) and not sends_signal({})
    for text, why in (("0", "there is no process 0"), ("-1", "there is no process -1"), ("x", "invalid literal")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=why):
            sends_signal({"uwsgi_line": ["--stop", str(path)]})
    with pytest.raises(ConfigError, match=r"--stop : No such file"):
        sends_signal({"uwsgi_line": ["--stop"]})
    assert len(sent) == 2
