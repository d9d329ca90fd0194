"""Write the tables of docs/moving-from-*.md, from those that the loaders and the messages about flags read: `make docs`."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

from aserve.command.pages import NAMED
from aserve.compat.moving.draft import BY_KEY, Row
from aserve.compat.moving.foreign_flags import SERVERS
from aserve.compat.moving.gunicorn_table import ROWS as GUNICORN
from aserve.compat.moving.uwsgi_table import ROWS as UWSGI

DOCS = pathlib.Path(__file__).parent
PAGES = {
    "moving-from-uwsgi-options.md": {"uWSGI": UWSGI},
    "moving-from-gunicorn.md": {"gunicorn": GUNICORN},
    "moving-from-granian.md": {name: SERVERS[name] for name in ("granian", "uvicorn")},
    "moving-from-waitress.md": {"waitress": SERVERS["waitress"]},
    "moving-from-mod_wsgi.md": {"mod_wsgi-express": SERVERS["mod_wsgi-express"]},
}


def build_page(text: str, tables: Mapping[str, Sequence[Row]]) -> str:
    """Return a page with its tables as they are now."""
    begin, end = text.index("<!-- options:begin"), text.index("<!-- options:end")
    begin = text.index("\n", begin) + 1
    made = (_flags(server, rows) if server in SERVERS else _tables(server, rows) for server, rows in tables.items())
    return text[:begin] + "".join(made) + text[end:]


def _flags(server: str, rows: Sequence[Row]) -> str:
    return "\n".join(
        ["", f"| {server} | aserve |", "|---|---|", *(f"| {_names(row)} | {_text(row)} |" for row in rows), "", ""]
    )


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
    return NAMED.sub(r"[\1.md](\1.md)", row.text).replace("|", "\\|")


if __name__ == "__main__":
    for name, tables in PAGES.items():
        (DOCS / name).write_text(build_page((DOCS / name).read_text(), tables))
