"""Print docs/uwsgi-names.md, from the table that errors are made from: `make docs`."""

from __future__ import annotations

from aserve.compat.uwsgi_api.names import ABSENT, DECORATORS, HERE, NAMES, SAME, SET, Name

HEAD = """\
# All names of the uwsgi module

What uWSGI 2.0.30 has, and what becomes of it in [the uwsgi module](uwsgi-api.md) of aserve. `make docs` writes this page from the table that the errors are made
from, and a test compares it with the real uWSGI.
"""
SECTIONS = {
    SAME: "## As there",
    HERE: "## Here, with a difference",
    SET: "## Set by the app",
    ABSENT: "## Absent\n\nThese raise an `AttributeError` that says the same.",
}


def table(names: dict[str, Name], how: str) -> str:
    """Return the rows of names that are alike: one row for those of one text."""
    rows: dict[Name, list[str]] = {}
    for name, row in names.items():
        if row.how == how:
            rows.setdefault(row, []).append(name)
    return "\n".join(f"| {', '.join(f'`{name}`' for name in found)} | {_text(row)} |" for row, found in rows.items())


def _text(row: Name) -> str:
    needs = f"with `{row.needs}`" if row.needs else ""
    return "; ".join(part for part in (needs, row.text) if part).replace("|", "\\|")


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for how, title in SECTIONS.items():
        parts += [f"{title}\n", "| name | |\n|---|---|\n" + table(NAMES, how) + "\n"]
    parts.append("## uwsgidecorators\n")
    for how in (SAME, HERE, ABSENT):
        parts += [f"{how.capitalize()}:\n", "| name | |\n|---|---|\n" + table(DECORATORS, how) + "\n"]
    counts = {how: sum(row.how == how for row in NAMES.values()) for how in (SAME, HERE, ABSENT)}
    parts.insert(1, f"{counts[SAME]} work as there, {counts[HERE]} with a difference, {counts[ABSENT]} are absent.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
