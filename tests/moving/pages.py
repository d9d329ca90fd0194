"""The records on docs/moving-from-uwsgi.md and moving-from-gunicorn.md: a list for a move; `make moving` writes the list.

A row is a line of aserve's log, or a difference without harm, and names a case. A page has few rows; otherwise
docs/moving-table.md has the rows, so that a reader's next step does not stand behind many rows.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

try:
    from .classes import HARMLESS, SAME, Classed, worst
except ImportError:  # as a program
    from classes import HARMLESS, SAME, Classed, worst  # type: ignore[no-redef]

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = {"uwsgi": DOCS / "moving-from-uwsgi.md", "gunicorn": DOCS / "moving-from-gunicorn.md"}
NAMES = {"uwsgi": "uWSGI", "gunicorn": "gunicorn"}
BEGIN, END = "<!-- cases:begin, made by `make moving` -->\n", "<!-- cases:end -->"
MOST_ROWS = 10  # of a page. Guess: half a screen
PLACE = re.compile(r"^(aserve: error: )?(case\.\w+(:\d+)?|uWSGI's command line|gunicorn's command line): ")


class Compared(NamedTuple):
    """A case after runs on another server and on aserve."""

    name: str
    server: str  # the case's own
    about: str
    found: Sequence[Classed]  # the differences
    said: Sequence[str]  # lines of aserve's log


def write_pages(cases: Sequence[Compared]) -> None:
    """Write the cases' rows into the pages."""
    for server, page in PAGES.items():
        page.write_text(build_page(page.read_text(), server, cases))


def build_page(text: str, server: str, cases: Iterable[Compared]) -> str:
    """Return the text of a page with the cases' present rows."""
    before, begin, rest = text.partition(BEGIN)
    own = [case for case in cases if case.server == server]
    return before + begin + _look_at(NAMES[server], own) + END + rest.partition(END)[2]


def _look_at(server: str, cases: Sequence[Compared]) -> str:
    kinds = [worst(case.found) for case in cases]
    same, harmless = kinds.count(SAME), kinds.count(HARMLESS)
    rest = len(cases) - same - harmless
    of_rest = f"Of {rest} the log names the difference. " if rest else ""
    counts = f"Of {len(cases)} [cases](moving-table.md) {same} are the same on {server} and on aserve, and {harmless} differ without harm. {of_rest}"
    if _is_long(cases):
        return (
            f"\n{counts}[The page of cases](moving-table.md#{server.lower()}) has each line, and each difference.\n\n"
        )
    return f"""
{counts}These lines it has for them:
{_rows(cases)}"""


def build_long_rows(cases: Iterable[Compared]) -> str:
    """Return sections with rows too many for the pages."""
    return "".join(
        f"\n## {NAMES[server]}\n{_rows(own)}"
        for server in PAGES
        for own in [[case for case in cases if case.server == server]]
        if _is_long(own)
    )


def _is_long(cases: Iterable[Compared]) -> bool:
    return len(_told(cases)) > MOST_ROWS


def _rows(cases: Sequence[Compared]) -> str:
    told, without_harm = _told(cases), _without_harm(cases)
    return f"""
| `aserve --check` names | and says | as in |
|---|---|---|
{"".join(f"| {', '.join(f'`{name}`' for name in names)} | {text} | {_as_in(found)} |{chr(10)}" for text, names, found in told)}
These differ without harm, and no line says it:

{"".join(f"- {why} ({_as_in(found)}){chr(10)}" for why, found in without_harm.items())}
"""


def _told(cases: Iterable[Compared]) -> list[tuple[str, list[str], list[str]]]:
    """Return each text that the log has, the settings that it is about, and the cases; the number in a text is that of the first case."""
    found: dict[str, tuple[str, dict[str, None], dict[str, None]]] = {}
    for case in cases:
        for line in filter(PLACE.match, case.said):
            setting, _, text = PLACE.sub("", line).partition(": ")
            _, names, of = found.setdefault(re.sub(r"\d+", "N", text), (text.replace("|", "\\|"), {}, {}))
            of[case.name] = None
            names.update(dict.fromkeys(setting.partition(" = ")[0].split(", ")))
    return [(text, [*names], [*of]) for text, names, of in found.values()]


def _without_harm(cases: Iterable[Compared]) -> Mapping[str, list[str]]:
    """Return the cases of each reason why a difference does no harm."""
    found: dict[str, dict[str, None]] = {}
    for case in cases:
        for one in case.found:
            if one.kind == HARMLESS:
                found.setdefault(one.why, {})[case.name] = None
    return {why: [*of] for why, of in found.items()}


def _as_in(names: Sequence[str]) -> str:
    return f"`{names[0]}`" + (f" and {len(names) - 1} more" if names[1:] else "")
