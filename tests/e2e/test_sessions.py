"""The commands of a page do as told: a shell runs them, in the page's order."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from harness.certificates import HAS_OPENSSL
from harness.combining import long
from harness.commands import OTHERS, PAGES, ROOT, TOOLS, Command, Saved, commands_of, steps_of
from harness.terminal import Place, Terminal

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.long_on_pypy,
    pytest.mark.skipif(not HAS_OPENSSL, reason="the openssl command is not installed"),
]


class Session(NamedTuple):
    """How a page's commands are typed."""

    skipped: dict[str, str] = {}  # the beginning of a command: the reason to leave it out
    before: dict[str, str] = {}  # the beginning of a command: text typed before it, by the page's prose


SYSTEMD = "comes after systemctl"
TERMINAL = "takes a terminal; test_top.py types it"
# The pages that are not typed just as they stand.
PORTS = "takes ports 443 and 80; tests/e2e/test_https_certificates.py starts it with others"
SESSIONS = {
    "README.md": Session({"aserve mysite.wsgi:application --https": PORTS}),
    "docs/command.md": Session(
        {"aserve --print-completion zsh": "takes zsh"},
        {
            "aserve init": "mkdir new && cp hello.py new/ && cd new",
            "aserve python": "cd ..",
            "aserve --print-completion fish": "mkdir -p ~/.config/fish/completions",  # fish made the folder
        },
    ),
    "docs/certificates.md": Session(
        {
            "aserve shop.wsgi:application --https": PORTS,
            "rm /var/lib/aserve/": "takes a certificate that an authority has given",
        }
    ),
    "docs/control.md": Session({"aserve top": TERMINAL}),
    "docs/development.md": Session({"python manage.py": "takes a Django project; test_runaserve.py types it"}),
    "docs/embedding.md": Session(
        {"python program.py": "test_examples.py runs it", "python -m uvicorn": "test_examples.py runs it"}
    ),
    "docs/frameworks.md": Session({"python manage.py": "takes a Django project; test_examples.py types it"}),
    "docs/letsencrypt.md": Session(
        {"curl": "takes a name that the internet knows", "aserve shop.wsgi:application --https": PORTS}
    ),
    "docs/start.md": Session({"curl http://127.0.0.1/ ": SYSTEMD}),
    # As in the unit that systemctl restarts.
    "docs/moving-from-gunicorn.md": Session(
        before={"aserve status": "aserve --control /run/mysite/control gunicorn -c gunicorn.conf.py mysite.wsgi"}
    ),
    "docs/moving-from-unit.md": Session({"curl --unix-socket": "asks Unit, which is in no release of Debian"}),
    "docs/moving-from-uwsgi.md": Session(before={"aserve status": "aserve app.ini --control /run/mysite/control"}),
    "docs/status-page.md": Session({"curl -sN": "shows what comes until Ctrl-C; test_status_page.py reads it"}),
    "docs/trouble.md": Session(before={"export": "aserve hello:app --control /run/site/control"}),
    "docs/upgrades.md": Session(
        before={
            "kill -HUP": "aserve mysite.wsgi:application --workers 1 --touch-reload /srv/mysite/reload",
            "cd": "mkdir -p /srv/mysite/releases/2026-11-27 && ln -s releases/old /srv/mysite/current",
            "aserve": "cd -",
        },
    ),
}
# Each is typed by `make test`; test_check_accepts_each_serving_command stands in for the rest.
QUICK = (
    "README.md",
    "docs/command.md",
    "docs/control.md",
    "docs/embedding.md",
    "docs/start.md",
    "docs/tls.md",
    "docs/upgrades.md",
)
TYPED = [name for page in PAGES if (name := str(page.relative_to(ROOT))) not in OTHERS]


@pytest.fixture
def place():
    """A folder with the files of the pages."""
    made = Place()
    yield made
    made.remove()


@pytest.fixture
def terminal(place):
    made = Terminal(place)
    yield made
    made.close()


def beginning(command: Command, texts: dict[str, str]) -> str | None:
    """Return the text chosen by a command's beginning."""
    return next((text for start, text in texts.items() if command.text.startswith(start)), None)


@pytest.mark.parametrize("page", [page if page in QUICK else long(page) for page in TYPED if commands_of(ROOT / page)])
def test_a_pages_commands_do_as_told(page, place, terminal):
    """Each command of the page ends with status 0, or serves until Ctrl-C."""
    session = SESSIONS.get(page, Session())
    for step in steps_of(ROOT / page):
        if isinstance(step, Saved):
            terminal.save(step)
        elif not TOOLS.keys() & {*step.tools} and beginning(step, session.skipped) is None:
            before = beginning(step, session.before)
            if before is not None:
                terminal.follow(Command(page, before))
            terminal.follow(step)
    terminal.stop()


def test_check_accepts_each_serving_command(place):
    """--check accepts each serving command, with its app, its files and its folders."""
    commands = [
        command
        for page in TYPED
        for command in commands_of(ROOT / page)
        if command.serves and "--config" not in command.words and "std.py" not in command.words
    ]
    assert len(commands) > 50
    lines = [["--check", *Command(command.page, place.local(command.text)).words[1:]] for command in commands]
    found = {str(command): output for command, (status, output) in zip(commands, place.check(lines)) if status}
    assert found == {}
