"""The commands on pages for people: each line of their blocks of sh, and its runner.

A shell types them, in a page's order, in a folder made for it (tests/e2e/test_sessions.py), but for programs of TOOLS, with the reason.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
OTHERS = ("CONTRIBUTING.md", "tests/README.md", "benchmarks/README.md", "examples/README.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OTHERS)]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.M | re.S)
FILE = re.compile(r"# ([\w./@-]+\.\w+)\n")  # the first line of a block that a reader saves under this name
# They ask a server, or write something: they serve nothing.
SUBCOMMANDS = (
    "balancers",
    "config",
    "docs",
    "init",
    "recycle",
    "reload",
    "stacks",
    "status",
    "top",
    "translate",
    "workers",
)
SHOWING = {"--check", "--check-config", "--help", "--print-completion", "--version"}

# The programs of each Unix.
SHELL = (
    "cat", "cd", "chmod", "cp", "curl", "echo", "export", "find", "for", "grep", "kill", "ln", "ls", "mkdir", "mv", "openssl", "ps", "python", "rm", "touch"
)  # fmt: skip
SYSTEMD = (
    "takes systemd as process 1; tests/e2e/test_deploy.py and test_examples.py have systemd-analyze read the units"
)
ROOT_ONLY = "takes root, and changes the machine"
NETWORK = "takes the internet; what it installs is in the environment of the tests"
MAKE = "builds, or tests, for minutes; tests/test_docs.py looks the target up"
KEYWORDS = ("do", "done")
# Program: the reason why no session runs it.
TOOLS = {
    ".": "the environment of the tests is active",
    **dict.fromkeys(("journalctl", "systemctl"), SYSTEMD),
    **dict.fromkeys(("apt", "install", "useradd", "usermod"), ROOT_ONLY),
    **dict.fromkeys(("pip", "venv/bin/pip", "/srv/shop/venv/bin/pip"), NETWORK),
    **dict.fromkeys(("python3", "pypy3"), "makes a virtual environment, for seconds"),
    "make": MAKE,
    "/etc/letsencrypt/renewal-hooks/deploy/shop": "run by tests/e2e/test_letsencrypt.py",
    "certbot": "takes a name that the internet knows",
    "cibuildwheel": "takes docker; `make release-check` builds wheels",
    "kubectl": "takes a cluster; tests/e2e/test_kubernetes.py reads the manifests",
    "ssh": "takes a second machine",
    "nginx": "takes root; tests/e2e/test_nginx.py runs the configurations",
    "socat": "tests/e2e/test_control.py asks the same by a socket",
    "uwsgitop": "takes a terminal; tests/e2e/test_stats.py runs it",
    **dict.fromkeys(("ddtrace-run", "newrelic-admin", "opentelemetry-instrument"), "`make agents` runs them"),
    **dict.fromkeys(("mkwsgiinstance", "runwsgi", "pserve", "flask"), "run by tests/e2e/test_examples.py and its like"),
    ".venv/bin/python": "a test, or a file of tests",
    ".venv-pypy/bin/python": "a test, or a file of tests",
    ".venv-bench/bin/python": "a measurement of minutes; tests/test_benchmarks.py imports them",
}  # fmt: skip


class Command(NamedTuple):
    """A command on a page."""

    page: str  # its path in the repository
    text: str  # unchanged, with its continuation lines and here-document

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"

    @property
    def bare(self) -> str:
        """The text without its last comment."""
        return re.sub(r"[ \t]+#[ \t][^\n]*\Z", "", self.text)

    @property
    def words(self) -> list[str]:
        """The words of its first program, without the variables set before them."""
        return self._programs()[0]

    @property
    def tools(self) -> list[str]:
        return [words[0] for words in self._programs()]

    def _programs(self) -> list[list[str]]:
        lexer = shlex.shlex(self.bare.replace("\\\n", " "), posix=True, punctuation_chars="<>|&;")
        lexer.whitespace_split, lexer.commenters = True, ""
        found: list[list[str]] = [[]]
        is_file = False
        for word in lexer:
            if word and {*word} <= {*lexer.punctuation_chars}:
                is_file = word[0] in "<>"
                found.append([])
                if word.startswith("<<"):
                    break
            elif not is_file and (found[-1] or not (word in KEYWORDS or re.match(r"\w+=", word))):
                found[-1].append(word)
        return [words for words in found if words]

    @property
    def serves(self) -> bool:
        """Tell whether the command is aserve's, and serves until a signal."""
        words = self.words
        return (
            words[0] == "aserve" and len(words) > 1 and words[1] not in SUBCOMMANDS and not SHOWING.intersection(words)
        )


class Saved(NamedTuple):
    """A block that a reader saves as the named file."""

    page: str
    path: str
    text: str


def steps_of(page: pathlib.Path) -> Iterator[Command | Saved]:
    """Yield a reader's acts on a page, in order."""
    name = str(page.relative_to(ROOT))
    for _, language, block in BLOCK.findall(page.read_text()):
        text = textwrap.dedent(block)
        path = FILE.match(text)
        if language == "sh":
            yield from (Command(name, line) for line in split(text))
        elif path is not None:
            yield Saved(name, path[1], text)


def commands_of(page: pathlib.Path) -> list[Command]:
    return [step for step in steps_of(page) if isinstance(step, Command)]


def split(block: str) -> Iterator[str]:
    """Yield the commands of a block: a line, with its continuation lines and its here-document."""
    lines = iter(block.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        while line.endswith("\\"):
            line += f"\n{next(lines)}"
        end = re.search(r"<<'?(\w+)'?", line)
        while end and not line.endswith(f"\n{end[1]}"):
            line += f"\n{next(lines)}"
        yield line
