"""How Sphinx makes a site of the pages: `make site`, into build/site.

Owns:     which pages are on the site, and the menu, which is made of the lists in docs/index.md.
Layout:   the source folder is the repository, so that a link means the same on the site and on GitHub. What a page
          links to, and is no page (a unit of systemd, the licence), is a download.
Not here: pages that are made from code (make_settings.py, make_conformance.py, make_moving.py); the pages' own tests
          (tests/test_docs.py).
"""

from __future__ import annotations

import re
from typing import Any

project = "aserve"
author = "The aserve developers"
project_copyright = author
html_title = "aserve"

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
highlight_language = "text"  # what names no language is output, or a picture
html_extra_path = ["site_root"]  # the site's first address leads to the index
html_show_sphinx = False
html_copy_source = False

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


def _on_source_read(app: Any, docname: str, source: list[str]) -> None:
    source[0] = add_menu(source[0]) if docname == root_doc else show_titles(source[0])


def setup(app: Any) -> None:
    """Let Sphinx call us; tell it of languages that Pygments does not know."""
    from pygments.lexers.special import TextLexer

    app.connect("source-read", _on_source_read)
    for name in ("haproxy", "promql", "caddyfile"):
        app.add_lexer(name, TextLexer)
