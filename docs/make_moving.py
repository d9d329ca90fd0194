"""Write the tables of docs/moving-from-uwsgi-options.md and moving-from-gunicorn.md, from those that the loaders read: `make docs`."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from aserve.compat.moving.draft import BY_KEY, Row
from aserve.compat.moving.gunicorn_table import ROWS as GUNICORN
from aserve.compat.moving.uwsgi_table import ROWS as UWSGI

DOCS = pathlib.Path(__file__).parent
PAGES = {"moving-from-uwsgi-options.md": ("uWSGI", UWSGI), "moving-from-gunicorn.md": ("gunicorn", GUNICORN)}
LINK = re.compile(r"(?<![\w/(\[])([a-z0-9-]+\.md)")


def build_page(text: str, server: str, rows: Sequence[Row]) -> str:
    """Return a page with its table as it is now."""
    begin, end = text.index("<!-- options:begin"), text.index("<!-- options:end")
    begin = text.index("\n", begin) + 1
    return text[:begin] + _tables(server, rows) + text[end:]


def _tables(server: str, rows: Sequence[Row]) -> str:
    taken = [row for row in rows if row.take is not None]
    always = [row for row in rows if row.take is None and not row.is_told]
    without = [row for row in rows if row.is_told]
    return "\n".join([
        "", f"| {server} | aserve |", "|---|---|", *(f"| {_names(row)} | {_ours(row)} |" for row in taken), "",
        "Nothing needs to be done for these, and nothing is said:", "",
        f"| {server} | because |", "|---|---|", *(f"| {_names(row)} | {_text(row)} |" for row in always), "",
        "These have no effect, and a line in the log says so:", "",
        f"| {server} | instead |", "|---|---|", *(f"| {_names(row)} | {_text(row)} |" for row in without), "", "",
    ])  # fmt: skip


def _names(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row.names)


def _ours(row: Row) -> str:
    names = ", ".join(f"`{BY_KEY[key].flag}`" if key in BY_KEY else "the argument" for key in row.to)
    return "; ".join(part for part in (names, _text(row)) if part)


def _text(row: Row) -> str:
    return LINK.sub(r"[\1](\1)", row.text).replace("|", "\\|")


if __name__ == "__main__":
    for name, (server, rows) in PAGES.items():
        (DOCS / name).write_text(build_page((DOCS / name).read_text(), server, rows))
