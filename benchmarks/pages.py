"""results/README.md, results/targets.md and the summary in the project's README, from the files in results/.   python benchmarks/pages.py

Owns:     which page says what: results are for all readers, targets (our own bounds) for developers. Every figure is from a file.
Not here: the tables of a file (tables.py), what is compared with what (leads.py), the pictures (make_report.py).
"""

from __future__ import annotations

import json
import pathlib
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from leads import Lead, leads, ratio_of
from tables import about, cell, parts, table

RESULTS = pathlib.Path(__file__).parent / "results"
PAGE = RESULTS / "README.md"
TARGETS = RESULTS / "targets.md"
README = RESULTS.parent.parent / "README.md"
BEGIN, END = "<!-- Made by `make bench-tables`: -->", "<!-- until here. -->"
WIDTH = 150  # of the summary in the README
FIRST = ("serve", "sidecar")  # of the kinds of file, in the first table: what most readers look for

HEAD = """\
# Results

Made by `make bench-tables` from the JSON files of this folder; `hostile.md` is by hand. First, which server is ahead in each comparison; then one section
for each file, with all figures. What the columns mean, and what may not be concluded, is in
[the page on benchmarks](../README.md). There are [pictures](../report/README.md), too.
"""
SHORT = """\
## Which server is ahead

In each set, aserve beside the best of the other servers, by requests per CPU second; where the CPU is shared by design (`neighbours-cpython`), by
requests a second. *Times as many*: the figure of aserve, divided by the other server's; the median of all rounds. Below 1, and bold: the other server is ahead. With several numbers
of connections the cells have one value for each. `hello` answers with a few octets, `echo` with the body that came, `blob` and `blobfile` with
5.2 MB from memory and from a file; `testapp` is Werkzeug's. An earlier date is one of earlier code.
"""
TARGETS_HEAD = """\
# Targets

For developers of aserve; made by `make bench-tables` from the JSON files of this folder. A target is a bound that we have set ourselves, often well
beyond what other servers reach: one that is not met says where to work next. Which server is ahead stands in [the results](README.md). The numbers of
targets are explained in [the page on benchmarks](../README.md#results). A file holds the bounds of the day when it was measured.
"""


def read(folder: pathlib.Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the files of results by their names."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def write() -> None:
    """Make the pages anew, and the summary in the project's README."""
    PAGE.write_text(results_page())
    TARGETS.write_text(targets_page())
    README.write_text(with_summary(README.read_text()))


# results/README.md


def results_page(folder: pathlib.Path = RESULTS) -> str:
    """Return the page of a folder of results."""
    files = read(folder)
    found = [HEAD, *comparisons(files)]
    for stem, kept in files.items():
        found.append(f"## {stem}\n\n{about(kept)}\n")
        found += parts(kept)
    return "\n".join(found)


def comparisons(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the first section: a row for each set, and for each of our rows in it that another server is compared with."""
    rows = []
    for stem in sorted(files, key=_rank):
        by_row: dict[tuple[str, str], list[Lead]] = {}
        for lead in leads(stem, files[stem]):
            by_row.setdefault((lead.set_name, lead.ours), []).append(lead)
        rows += [_row(files[stem], own) for own in by_row.values()]
    heads = ("what", "measured", "connections", "ours", "the best other", "times as many")
    return [SHORT, table(heads, rows)] if rows else []


def _rank(stem: str) -> tuple[int, str]:
    kind = stem.partition("-")[0]
    return (FIRST.index(kind) if kind in FIRST else len(FIRST), stem)


def _row(kept: Mapping[str, Any], own: list[Lead]) -> tuple[str, ...]:
    each = kept["sets"][own[0].set_name]
    ratios = [ratio_of(each, lead.ours, lead.peer, lead.count) or 0.0 for lead in own]
    peers = [lead.peer for lead in own]
    return (
        f"[{own[0].set_name}](#{own[0].stem}): {each['title']}",
        kept["date"],
        " / ".join(f"{int(lead.count):,}" for lead in own),
        own[0].ours,
        " / ".join(peers if len({*peers}) > 1 else peers[:1]),
        " / ".join(f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}" for ratio in ratios),
    )


# results/targets.md


def targets_page(folder: pathlib.Path = RESULTS) -> str:
    """Return the page of the targets that a folder's files hold."""
    files = {stem: kept for stem, kept in read(folder).items() if kept.get("targets")}
    rows = [row for kept in files.values() for row in kept["targets"]]
    found = [TARGETS_HEAD, f"{sum(row['met'] for row in rows)} of {len(rows)} were met when they were measured.\n"]
    for stem, kept in files.items():
        found += [f"## {stem}\n\n{about(kept)}\n", targets_table(kept["targets"])]
    return "\n".join(found)


def targets_table(judged: list[dict[str, Any]]) -> str:
    """Return targets with their figures."""
    return table(
        ("target", "set", "connections", "server", "base", "at least", "reached", "met"),
        [
            (
                each["target"], each["set"], each["connections"], each["server"], of_what(each),
                _bound(each), cell(each["figure"], ".2f"),
                "; ".join([met(each), *each["notes"]]),
            )
            for each in judged
        ],
    )  # fmt: skip


def met(each: dict[str, Any]) -> str:
    """Return a target's verdict; what was not measured has none."""
    return "yes" if each["met"] else "**no**" if each["figure"] is not None else "not measured"


def of_what(each: dict[str, Any]) -> str:
    """Return what a target's figure is a ratio to, or what it is."""
    return f"{each['base']}, {each['column']}" if each.get("column") else str(each["base"])


def _bound(each: dict[str, Any]) -> str:
    most = each.get("at_most")
    return f"at most {most:.2f}" if most is not None else cell(each["at_least"], ".2f")


# The summary in README.md


class Known(NamedTuple):
    """A row of the summary: the name in the files, and what a reader calls it."""

    name: str
    title: str
    threads: str


# All of one run, and of the same work: of the sets that have been measured, the one with the servers that most people know.
STEM, SET_NAME, COUNT = "neighbours-cpython", "neighbour hello", "100"
KNOWN = (
    Known("aserve", "**aserve**", "32"),
    Known("granian", "granian", "its default"),
    Known("uwsgi-t8", "uWSGI", "8"),
    Known("waitress", "waitress", "8"),
    Known("gunicorn", "gunicorn, gthread", "8"),
    Known("mod_wsgi", "mod_wsgi-express", "8"),
    Known("bjoern", "bjoern", "1, in C"),
)
# With as many threads each, in an app that does real work.
EQUAL = {"uwsgi-t8": "uWSGI", "waitress-t8": "waitress", "gunicorn-t8": "gunicorn"}


def with_summary(text: str, folder: pathlib.Path = RESULTS) -> str:
    """Return a text with the summary of a folder between its marks."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n\n{summary(folder).strip()} {text[end:]}"


def summary(folder: pathlib.Path = RESULTS) -> str:
    """Return the table of the servers that people know, what else aserve is ahead of, and where another is ahead."""
    files = read(folder)
    each = files[STEM]["sets"][SET_NAME]
    rows = [
        (
            known.title, known.threads, *(cell(each["medians"][known.name][COUNT][key], form) for key, form in SUMMARY.values()),
            "" if known.name == "aserve" else cell(ratio_of(each, "aserve", known.name, COUNT), ".2f"),
        )
        for known in KNOWN
    ]  # fmt: skip
    text = aligned(table(("server", "threads", *SUMMARY, "times as many"), rows), 2)
    secure = (_filled(_what_secure(files["serve-cpython"])), secure_table(files["serve-cpython"]))
    return "\n".join((_filled(_what(files[STEM])), text, *secure, _filled(_beside(files)), _filled(_behind(files))))


# By set: what a reader calls it, and the number of connections.
SECURE = {
    "TLS kept": ("TLS, HTTP/1.1", "100"),
    "HTTP/2 x 1": ("HTTP/2, a request at a time on each connection", "10"),
    "HTTP/2 x 10": ("HTTP/2, 10 at once on each", "10"),
    "HTTP/2 x 100": ("HTTP/2, 100 at once on each", "10"),
}


def secure_table(kept: Mapping[str, Any]) -> str:
    """Return the table of TLS and HTTP/2: requests per CPU second, and how many times as many as each peer."""
    rows = []
    for name, (title, count) in SECURE.items():
        each = kept["sets"][name]
        rates = [cell(each["medians"][server][count]["per_cpu_s"], ",.0f") for server in ("aserve-tls", *SECURE_PEERS)]
        ratios = [cell(ratio_of(each, "aserve-tls", peer, count), ".2f") for peer in SECURE_PEERS]
        rows.append((title, count, *rates, *ratios))
    heads = (
        "over",
        "connections",
        "**aserve**",
        *SECURE_PEERS.values(),
        *(f"x {title}" for title in SECURE_PEERS.values()),
    )
    return aligned(table(heads, rows), 1)


def _what_secure(kept: Mapping[str, Any]) -> str:
    return f"The same app over TLS, requests per CPU second, the machine otherwise quiet; nginx runs no app and answers with a constant; {kept['date']}:"


SECURE_PEERS = {"granian-tls": "granian", "nginx-tls": "nginx"}


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


# By title of a column of the summary: its key in a file, its form.
SUMMARY = {
    "requests per CPU second": ("per_cpu_s", ",.0f"),
    "requests a second": ("rps", ",.0f"),
    "p99, ms": ("p99_ms", ".1f"),
    "memory (PSS), MB": ("pss_mb", ".0f"),
}


def aligned(text: str, left: int) -> str:
    """Return a table whose columns of figures are set to the right; `left`: those that are not, which come first."""
    heads, rule, *rows = text.split("\n")
    columns = rule.count("---")
    return "\n".join((heads, "|" + "---|" * left + "--:|" * (columns - left), *rows))


def _what(kept: Mapping[str, Any]) -> str:
    python = kept["sets"][SET_NAME]["aserve_python"]
    return (
        f"A hello app on {python['implementation']} {python['version']}, {COUNT} kept connections; {kept['machine']['cores']} virtual cores, each with "
        f"another process that is busy; {kept['date']}:"
    )


def _beside(files: Mapping[str, Mapping[str, Any]]) -> str:
    kept = files["suite-a-cpython"]
    each = kept["sets"]["A test app, 8 threads"]
    equal = [
        f"{cell(ratio_of(each, 'aserve-t8', name, '10'), '.2f')} times as many as {title}"
        for name, title in EQUAL.items()
    ]
    return (
        "*Times as many*: the requests a second of aserve, divided by those of this server. Each server has the threads that its "
        f"documentation starts it with. With eight threads each, and an app that does real work (Werkzeug's test app, by CPU second, {kept['date']}), aserve serves "
        f"{', '.join(equal[:-1])} and {equal[-1]}."
    )


# Sets in which another server is ahead, as far as it still is: what it does more of.
BEHIND = (
    ("serve-cpython", "TLS handshakes", "full TLS handshakes"),
    ("serve-cpython", "TLS kept", "requests on kept TLS connections"),
    ("serve-cpython", "blob", "bodies of 5.2 MB"),
    ("suite-e-cpython", "E behind Apache", "requests behind Apache"),
    ("suite-a-pypy", "A test app", "requests of an app of Werkzeug's on PyPy"),
)
TITLES = {"uwsgi": "uWSGI"}


def _behind(files: Mapping[str, Mapping[str, Any]]) -> str:
    found = []
    for stem, set_name, what in BEHIND:
        lead = max(
            (lead for lead in leads(stem, files[stem]) if lead.set_name == set_name), key=lambda lead: lead.ratio
        )
        peer = lead.peer.rpartition(":")[2].partition("-")[0]
        if lead.ratio > 1:
            found.append(f"{what} ({TITLES.get(peer, peer)}, {lead.ratio:.2f} times as many)")
    memory = {known: files[STEM]["sets"][SET_NAME]["medians"][known.name][COUNT]["pss_mb"] for known in KNOWN}
    smaller = [known.title for known, used in memory.items() if used < memory[KNOWN[0]]]
    return (
        f"**Where others are ahead**, by CPU second: {', '.join(found)}. Less memory: {', '.join(smaller)}. "
        "[All comparisons](benchmarks/results/README.md#which-server-is-ahead), [how they are made](benchmarks/README.md)."
    )


if __name__ == "__main__":
    write()
