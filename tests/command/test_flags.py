"""The flags beside the settings; their effect is tested with the command, in test_cli.py."""

import pytest

from aserve.command.flags import build_parser, parse_args
from aserve.features import SETTINGS
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def test_what_was_given():
    """By the names of the settings, without defaults."""
    assert parse_args(["a:b", "-b", ":1", "-b", ":2", "-w", "3", "--check"]) == {
        "app": "a:b",
        "bind": [":1", ":2"],
        "workers": "3",
        "check": True,
    }
    assert parse_args(["--route", "/a", "rpc:b", "c:d"]) == {"route": ["/a rpc:b"], "app": "c:d"}


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--thread", "unknown flag --thread; did you mean --threads"),
        ("--graceful-timeout=3", "unknown flag --graceful-timeout; gunicorn has it; for aserve write --drain-timeout"),
        (
            "--emperor=/a",
            "unknown flag --emperor; uWSGI has it; leave it out: have systemd start an aserve for each app",
        ),
        ("--hook-asap=exec:b", "unknown flag --hook-asap; uWSGI has it, and its own command line is served as it is"),
        ("--xyzzy=1", "unknown flag --xyzzy; see aserve --help"),
        ("b:c", "unexpected argument 'b:c': one APP, then flags"),
        (
            "--timeout=3",
            "with one thread --request-timeout ends a request that takes longer; with several threads --hang-t",
        ),
        ("--threads", "flag --threads has no value; give --threads N$"),
        ("-c", "flag -c has no value; give -c FILE$"),
        ("-p", "unknown flag -p; for Flask give --port PORT; gunicorn has it; for aserve write --pid-file$"),
        ("--reload=true", "flag --reload takes no value; write --reload, or leave it out$"),
        ("--print-completion", "flag --print-completion has no value; give --print-completion NAME$"),
    ],
)
def test_mistakes_are_answered_with_the_remedy(argument, said):
    with pytest.raises(ConfigError, match=said):
        parse_args(["a:b", argument])


@pytest.mark.parametrize("word", ["run", "serve", "start"])
def test_a_subcommand_that_serves(word):
    """Further servers have such a subcommand; the error says how the app is served here."""
    with pytest.raises(ConfigError, match=f"there is no subcommand '{word}', .*; write: aserve a:b$"):
        parse_args([word, "a:b", "-w", "2"])


def test_all_unknown_flags_at_once():
    """Each unknown flag has a line with the right word; the words in between may be values."""
    with pytest.raises(ConfigError) as caught:
        parse_args(["--listen=*:80", "--ident", "x", "--unix-socket-perms", "600", "--call", "a:b", "--threads", "4"])
    said = [line.partition("; ") for line in str(caught.value).splitlines()]
    assert [(flag, what[:12]) for flag, _, what in said] == [
        ("unknown flag --listen", "for waitress"),
        ("unknown flag --ident", "give --serve"),
        ("unknown flag --unix-socket-perms", "give --unix-"),
        ("unknown flag --call", "call it in t"),
    ]


def test_help_fits_the_terminal(monkeypatch):
    switches = [
        "--access-log",
        "--setenv",
        "A",
        "B",
        "--workers",
        "--trusted-proxy-headers=x-forwarded-for x-forwarded-proto",
        "-k",
        "a",
    ]
    with pytest.raises(ConfigError) as caught:
        parse_args(["a:b", *switches])
    assert [line.partition(",")[0] for line in str(caught.value).splitlines()] == [
        "unknown flag --setenv; give --env NAME=VALUE",
        "unknown flag --trusted-proxy-headers; give --forwarded-fields",
        "unknown flag -k; gunicorn has it; for aserve write --threads: sync and gthread are threads; gevent and eventlet: as many threads as worker_connections",
        "flag --access-log has no value; give --access-log -",
        "flag --workers has no value; give --workers N|auto",
    ]


@pytest.mark.parametrize(
    "line",
    ["waitress-serve a:b", "mod_wsgi-express start-server a.wsgi", "granian a:b", "uvicorn", "granian --workers"],
)
def test_the_command_of_a_server_whose_line_is_not_read(line):
    """The error asks for a command without the word, and names the page."""
    word = line.partition(" ")[0]
    with pytest.raises(
        ConfigError, match=f"aserve takes the place of {word}: leave its command out; see aserve docs moving-"
    ):
        parse_args(line.split())
    assert parse_args(["--user", word, "a:b"]) == {"user": word, "app": "a:b"}


def test_help(monkeypatch):
    """The help fits the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, build_parser().format_help().splitlines())) <= 80


@pytest.mark.parametrize("flag", [*(setting.flag for setting in SETTINGS)])
def test_a_letter_too_many(flag):
    """A word with a letter too many is near enough for a suggestion."""
    with pytest.raises(ConfigError, match=f"did you mean {flag}\\?"):
        parse_args([flag + "x"])


def test_what_is_near_to_nothing():
    """No flag of another meaning is suggested."""
    for flag in ("--pretty", "--xyzzy"):
        with pytest.raises(ConfigError, match=f"unknown flag {flag}; see aserve --help"):
            parse_args([flag])


def test_host_and_port():
    """Host and port are a bind, with the PORT of the environment."""
    assert parse_args(["a:b", "--host", "0.0.0.0"], {"PORT": "9"}) == {"app": "a:b", "bind": ["0.0.0.0:9"]}
    assert parse_args(["--port=5000"]) == {"bind": ["127.0.0.1:5000"]}
