"""The command `aserve docs`: the pages of the documentation, which a wheel brings along.

Owns:     show_pages: the list, a page, or the pages that have some words; NAMED, how a message or a help text names a page.
Thread:   the main thread.
Not here: the pages (docs/), their copies in a wheel (setup.py), the site (docs/conf.py).
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from ..settings import ConfigError
from .searched import SEARCHED

# Each message and help text names a page by the command that prints it; make_settings.py and make_moving.py make links of these names.
NAMED = re.compile(r"`?aserve docs ([a-z][\w-]*)`?")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = (os.path.join(_PACKAGE, "docs"), os.path.join(os.path.dirname(_PACKAGE), "docs"))  # of a wheel, of a checkout
INDEX = "index"
_ENTRY = re.compile(r"^- \[[^]]+\]\(([\w-]+)\.md\): (.*)")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
MAX_FOUND = 12
MAX_LINE = 100


def show_pages(argv: Sequence[str]) -> str:
    """
    Return what `aserve docs` prints; `argv`: what follows the word docs.

    Raises:
        ConfigError: no page has these words.
    """
    parser = argparse.ArgumentParser(
        prog="aserve docs", description="Print a page of the documentation; without a name, the names of all pages."
    )
    parser.add_argument("words", metavar="NAME", nargs="*", help="a page, or words that are looked for in all pages")
    words = [word.lower() for word in parser.parse_args(argv).words]
    folder = next((folder for folder in FOLDERS if os.path.isfile(os.path.join(folder, f"{INDEX}.md"))), None)
    if folder is None:
        raise ConfigError("this installation of aserve has no pages: a wheel and a checkout bring them")
    if not words:
        return _list(_read(folder, INDEX))
    names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".md"))
    name = words[0][:-3] if words[0].endswith(".md") else words[0]
    if len(words) == 1 and name in names:
        return _read(folder, name)
    return _search({name: _read(folder, name) for name in names}, words)


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def _list(index: str) -> str:
    lines = []
    for line in index.splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            lines.append(f"  {entry[1]:27}{_plain(entry[2])}")
        elif line.startswith("## "):
            lines += ["", line[3:]]
    return "\n".join(
        [*lines[1:], "", "aserve docs NAME prints a page, aserve docs WORD... looks for words in all pages.", ""]
    )


def _search(pages: dict[str, str], words: Sequence[str]) -> str:
    weights = {name: _weight(name, text, words) for name, text in pages.items()}
    found = sorted((-weight, name) for name, weight in weights.items() if weight)
    if not found:
        raise ConfigError(f"no page has {' or '.join(map(repr, words))}; `aserve docs` lists the pages")
    return "".join(f"{name}\n    {_line_of(pages[name], words)}\n" for _, name in found[:MAX_FOUND])


def _weight(name: str, text: str, words: Sequence[str]) -> float:
    """Return how much a page is about the words: phrases of SEARCHED count most, then its name, its headings, and how often the text has each word."""
    text = text.lower()
    headings = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    phrases = [phrase.split() for phrase in SEARCHED.get(name, ())]
    weight = sum(100.0 * len(phrase) for phrase in phrases if {*phrase} <= {*words})
    for word in words:
        if count := _count(word, text):
            weight += 10 + 20 * (word in name) + 10 * (_count(word, headings) > 0) + min(1000 * count / len(text), 9)
    return weight


def _count(word: str, text: str) -> int:
    """Return how many words of the text begin so: "sse" is not in "processes"."""
    return len(re.findall(rf"(?<!\w){re.escape(word)}", text))


def _line_of(text: str, words: Sequence[str]) -> str:
    """Return the first line that has most of the words."""
    line = max(text.splitlines(), key=lambda line: sum(_count(word, line.lower()) > 0 for word in words))
    line = _plain(line).strip("#-| ")
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..."


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", text)
