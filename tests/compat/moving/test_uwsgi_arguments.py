"""uWSGI's command line: words in, options out."""

import shlex

import pytest

from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.compat.moving.uwsgi_arguments import read_arguments
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--http :80 --module app --master", "http=:80 module=app master="),
        ("--http=:80 --set k=v", "http=:80 set=k=v"),
        ("-Mp2 -s :80 -w app", "master= processes=2 socket=:80 module=app"),
        ("-C660 -C -H /venv", "chmod-socket=660 chmod-socket= virtualenv=/venv"),
        ("--need-app --need-app=1 --mule --mule=a.py", "need-app= need-app=1 mule= mule=a.py"),
        ("--ini a.ini --ini b.ini:x", "ini=a.ini ini=b.ini:x"),
        ("a.ini -p 4 b.json", "processes=4 config=a.ini config=b.json"),
        ("-M -- a.ini", "master= config=a.ini"),
        ("--processe 3 --cheaper-in 2", "processes=3 cheaper-in=2"),
        ("[old-title] -M", "master="),
        ("--emperor-tyrant --add-cache-item a", "emperor-tyrant= add-cache-item=a"),
    ],
)
def test_words_are_read_as_by_uwsgi(line, options):
    """uWSGI's rules: letters together, values behind or in the word, files last, clear beginnings of names."""
    found = read_arguments(shlex.split(line))
    assert " ".join(f"{given.key}={given.value}" for given in found.options) == options and not found.mistakes


def test_all_mistakes_at_once():
    """Mistakes of words, values and addresses come together; a word behind an unknown option may be its value."""
    line = "--http :abc --processes x --foo 3 --vacum=1 app.py -Z --master=1 --check --harakiri"
    with pytest.raises(ConfigError) as raised:
        load_uwsgi("", {}, shlex.split(line))
    said = [text.partition("uWSGI's command line: ")[2] for text in str(raised.value).split("\n")]
    assert said[:-1] == [
        "--foo: uWSGI has no such option",
        "--vacum: uWSGI has no such option; is --vacuum meant?",
        "'app.py' is no file of uWSGI's (.ini, .xml, .yaml, .json); an app follows --module",
        "-Z: uWSGI has no such option",
        "--master takes no value there",
        "--check: uWSGI has no such option; it is aserve's, which goes before the word uwsgi",
        "--harakiri lacks its value",
        "processes = x: 'x' is not a whole number",
    ]
    assert said[-1].startswith("http = :abc: '0.0.0.0:abc': port 'abc' is not a number")


def test_sources_in_their_order(tmp_path, monkeypatch):
    """Variables first, then the words; a file named by an option counts in the option's place, a file without an option last."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = 7\nmodule = app\n[x]\nthreads = 6\n")
    (tmp_path / "b.yaml.ini").write_text("[uwsgi]\nlisten = 9\n")
    for line, threads in (
        ("", 3),
        ("--threads 5", 5),
        ("--threads 5 --ini a.ini", 7),
        ("--ini a.ini --threads 5", 5),
        ("a.ini --threads 5", 7),
        ("a.ini:x b.yaml.ini", 6),
        ("--set n=8 --threads %(n)", 8),
        ("--threads $(UWSGI_THREADS)", 3),
    ):
        draft = load_uwsgi("", {"UWSGI_THREADS": "3"}, shlex.split(line))
        assert draft.settings["threads"] == threads
    assert draft.name == "uWSGI's command line" and draft.app is None
    assert load_uwsgi("", {}, ["a.ini"]).facts["options"]["module"] == b"app"
