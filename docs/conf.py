"""How Sphinx makes a site of the pages: `make site`, into build/site.

Owns:     which pages are on the site; the menu, which is made of the lists in docs/index.md; which page a search for a word begins with.
Layout:   the source folder is the repository, so that a link means the same on the site and on GitHub. What a page
          links to, and is no page (a unit of systemd, the licence), is a download.
Not here: pages that are made from code (make_settings.py, make_conformance.py, make_moving.py); the pages' own tests
          (tests/test_docs.py).
"""

from __future__ import annotations

import pathlib
import re
import runpy
from collections.abc import Sequence
from typing import Any

project = "aserve"
author = "The aserve developers"
project_copyright = author
table = pathlib.Path(__file__).parent.parent / "aserve/settings/table.py"  # read, not imported: a site needs no build
release = re.findall(r'^VERSION = "(.+)"$', table.read_text("utf-8"), re.M)[0]
html_title = f"aserve {release}"

extensions = ["myst_parser"]
myst_heading_anchors = 4  # as GitHub makes them
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "examples/README.md",
    *("cparsers/README.md", "native/README.md", "tests/README.md"),
    *("benchmarks/README.md", "benchmarks/results/*.md", "benchmarks/report/README.md"),
]
exclude_patterns = [".*", "build", "dist", "*.egg-info", "aserve", "**/__pycache__"]

html_theme = "furo"
html_static_path = ["site_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js", "search.js"]
smartquotes = False  # a flag has two hyphens, in a title as well
highlight_language = "text"  # what names no language is output, or a picture
html_extra_path = ["site_root"]  # the site's first address leads to the index
html_show_sphinx = False
html_copy_source = False

# The words of `aserve docs`: of a page named here the search shows the first line first (site_static/search.js).
words = runpy.run_path(str(table.parent.parent / "command/searched.py"))["SEARCHED"]
SEARCHED = {f"docs/{name}": phrases for name, phrases in words.items()}

LINK = re.compile(r"^- \[([^]]+)\]\(([\w./-]+)\.md\)", re.M)
FILE_NAME = re.compile(r"\[[\w-]+\.md\](?=\([\w./-]+\.md(?:#[\w-]+)?\))")


def add_menu(text: str) -> str:
    """Return the index with a hidden toctree behind each of its lists: that is the site's menu."""
    first, *sections = re.split(r"^## ", text, flags=re.M)
    return first + "".join(f"## {section}\n{_toctree(section)}\n" for section in sections)


def _toctree(section: str) -> str:
    caption = section.partition("\n")[0]
    entries = "\n".join(f"{title} <{path}>" for title, path in LINK.findall(section))
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def show_titles(text: str) -> str:
    """Return a page whose links show the titles of pages where they show names of files: these are GitHub's."""
    return FILE_NAME.sub("[]", text)


def add_words(text: str, words: Sequence[str]) -> str:
    """Return a page with entries of the index below its title: the search shows it first for these words."""
    title, newline, rest = text.partition("\n")
    entries = "".join(f"```{{index}} ! {word}\n```\n\n" for word in words)
    return f"{title}{newline}\n{entries}{rest}"


def _on_source_read(app: Any, docname: str, source: list[str]) -> None:
    text = add_menu(source[0]) if docname == root_doc else show_titles(source[0])
    source[0] = add_words(text, SEARCHED.get(docname, ()))


def setup(app: Any) -> None:
    """Let Sphinx call us; tell it of languages that Pygments does not know."""
    from pygments.lexers.special import TextLexer

    app.connect("source-read", _on_source_read)
    for name in ("haproxy", "promql", "caddyfile"):
        app.add_lexer(name, TextLexer)
