"""report/: one page with all charts and tables, each chart as a picture, and a list of them.   make bench-pictures

Use:      python benchmarks/make_report.py        (needs matplotlib: the extra `bench`)
Owns:     the page, the list of pictures, what installs and what not. Every figure is from a file in results/.
Not here: which charts there are (charts.py), how they look (draw.py), tables for the terminal's reader (tables.py).
"""

from __future__ import annotations

import html
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import charts
import pages
import tables
from charts import SUITES, Chart, Kept
from servers import NEXT_PYPY

REPORT = pathlib.Path(__file__).parent / "report"
STYLE = """\
:root{color-scheme:light dark;--page:#fff;--text:#1c1f24;--dim:#5b6470;--line:#d5d9df}
@media(prefers-color-scheme:dark){:root{--page:#15181d;--text:#e4e7ec;--dim:#9aa4b1;--line:#3a404a}}
body{background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1.5rem}
figure{margin:2rem 0}figure svg{width:100%;height:auto}figcaption,.dim{color:var(--dim);font-size:.9rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}td.number{text-align:right}
details{margin:1rem 0}summary{cursor:pointer}
"""
ANCHORS = " · ".join(f'<a href="#{letter}">{letter}</a>' for letter in SUITES)


def page(files: Mapping[str, Kept], draw: Callable[[Chart], str]) -> str:
    """Return the report as one page that needs no other file."""
    drawn = charts.charts(files)
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>aserve: speed and its proof</title><style>\n{STYLE}</style></head><body>",
        "<h1>aserve: speed and its proof</h1>",
        f"<p><strong>Where others are ahead.</strong> {html.escape(charts.headline(files))}</p>",
        "<p>Requests per CPU second of the server's whole process tree are the measure: they hold still when the machine does not. "
        "Ratios are of one run. What may not be concluded stands in benchmarks/README.md.</p>",
        f"<p>Suites: {ANCHORS}</p>",
    ]
    for letter, about in SUITES.items():
        own = {stem: kept for stem, kept in files.items() if charts.suite_of(kept) == letter}
        parts.append(f'<h2 id="{letter}">{letter}. {html.escape(about)}</h2>')
        if not own:
            parts.append("<p>Not measured yet: <code>make bench-report</code>.</p>")
        if "suite-a-pypy" in own and f"suite-a-{NEXT_PYPY}" not in own:
            parts.append("<p>PyPy 3.11 is not installed where this was measured: it has no rows here.</p>")
        parts += [figure(chart, draw) for chart in drawn if chart.suite == letter]
        for stem, kept in own.items():
            parts.append(details(stem, kept))
    parts.append("</body></html>\n")
    return "\n".join(parts)


def figure(chart: Chart, draw: Callable[[Chart], str]) -> str:
    """Return a chart with its title and its sentence."""
    return (
        f'<figure id="{chart.slug}"><h3>{html.escape(chart.title)}</h3>\n{draw(chart)}\n'
        f"<figcaption>{html.escape(chart.sentence)}</figcaption></figure>"
    )


def details(stem: str, kept: Kept) -> str:
    """Return all of a file's tables, folded, with what they were measured on."""
    commands = "".join(
        f"<li><code>{html.escape(name)}</code>{html.escape(' ' + (server.get('version') or ''))}: <code>{html.escape(server['command'])}</code></li>"
        for name, server in servers_of(kept).items()
    )
    return (
        f'<details><summary>{html.escape(stem)}: all figures</summary><p class="dim">{html.escape(tables.about(kept))}</p>'
        + from_markdown("\n".join(tables.parts(kept)))
        + (f"<p>The servers:</p><ul>{commands}</ul>" if commands else "")
        + "</details>"
    )


def servers_of(kept: Kept) -> dict[str, Any]:
    """Return the servers of a file by their names, with their commands."""
    found = dict(kept["servers"]) if isinstance(kept.get("servers"), dict) else {}
    for each in kept.get("sets", {}).values():
        found.update(each["servers"])
    return {name: server for name, server in found.items() if isinstance(server, dict)}


def from_markdown(text: str) -> str:
    """Return what tables.py writes as HTML: headings, paragraphs, lists and tables."""
    return "\n".join(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    while lines:
        line = lines.pop(0)
        if line.startswith("|"):
            rows = [line]
            while lines and lines[0].startswith("|"):
                rows.append(lines.pop(0))
            yield _table([[cell.strip() for cell in row.strip("|\n").split(" | ")] for row in rows])
        elif line.startswith("#"):
            yield f"<h3>{html.escape(line.lstrip('# '))}</h3>"
        elif line.startswith("- "):
            yield f"<p>{_inline(line[2:])}</p>"
        elif line:
            yield f"<p>{_inline(line)}</p>"


def _table(rows: list[list[str]]) -> str:
    head = "".join(f"<th>{_inline(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>\n" for row in rows[2:])
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'


def _cell(text: str) -> str:
    kind = "number" if re.match(r"-?[\d.,]+%?$|-$", text) else ""
    return f"<td class={kind}>{_inline(text)}</td>" if kind else f"<td>{_inline(text)}</td>"


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escaped)


def gallery(files: Mapping[str, Kept]) -> str:
    """Return the list of pictures, each with its sentence, for readers of the repository."""
    lines = [
        "# Speed and its proof, in pictures",
        "",
        "Made by `make bench-pictures` from ../results. All figures: report.html, beside this.",
        "",
        charts.headline(files),
    ]
    suite = ""
    for chart in charts.charts(files):
        if chart.suite != suite:
            suite = chart.suite
            lines += ["", f"## {suite}. {SUITES[suite]}"]
        lines += ["", f"![{chart.title}]({chart.slug}.svg)", "", chart.sentence]
    return "\n".join(lines) + "\n"


def write(folder: pathlib.Path = REPORT) -> None:
    """Make the report anew; what no file has any more is removed."""
    import draw  # matplotlib, which only this needs: tests make the page without it

    files = pages.read()
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    pictures = {chart.slug: draw.draw(chart) for chart in charts.charts(files)}
    for slug, svg in pictures.items():
        (folder / f"{slug}.svg").write_text(draw.standalone(svg))
    (folder / "report.html").write_text(page(files, lambda chart: pictures[chart.slug]))
    (folder / "README.md").write_text(gallery(files))


if __name__ == "__main__":
    write()
    print(f"written: {REPORT}", file=sys.stderr)
