"""What the pictures of the report show: series, units, and the sentence under each, from the files in results/.

Owns:     which chart is made of which file; the sentence about it; the first paragraph of the report.
Rules:    every figure is a file's. Nothing here draws, so tests give it figures of their own.
Not here: in which comparisons a peer is ahead (leads.py), drawing (draw.py), the page (make_report.py), the files' form (record.py).
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import tables
from leads import NO_PEERS, Kept, Lead, connections_of, figure_of, leads

SUITES = {
    "A": "uWSGI's PyPy plugin benchmarks (2013), and RPC",
    "B": "gunicorn with 1 to 6 workers",
    "C": "CherryPy's WSGI server, 10 to 50 clients",
    "D": "Pyruvate beside others, 1 to 1,000 connections; large responses",
    "E": "SCGI against uwsgi behind a web server",
    "F": "What no source has: unlike heads, waiting apps, idle, slow and bad clients, reloads, memory",
}
# By the command that measured; suite-a and the like say it themselves.
SUITE_OF = {"rpc": "A", "sidecar": "E", "profile": "C", "shares": "C"}
PROFILED = 15  # functions in the picture; the table has all
FIGURES = {"per_cpu_s": "requests per CPU second", "rps": "requests a second"}  # what servers of a set are compared by
RISING = 4  # numbers of connections, from which lines say more than bars
COLUMNS = {
    "rps": ("requests", "requests per second"),
    "busy": ("CPU", "share of one CPU"),
    "pss_mb": ("memory", "PSS, MB"),
    "errors": ("errors", "errors in all rounds"),
}


class Chart(NamedTuple):
    """One picture: bars by label, or lines over numbers; a value that was not measured is None."""

    slug: str  # its file's name
    suite: str
    title: str
    kind: str  # bars, lines, panels
    unit: str
    labels: list[str]
    series: dict[str, list[float | None]]
    sentence: str
    axis: str = ""  # what the labels are
    panels: Mapping[str, dict[str, list[float | None]]] = types.MappingProxyType(
        {}
    )  # series by their units, one picture below another


def suite_of(kept: Kept) -> str:
    """Return the suite that a file belongs to."""
    bench = str(kept["bench"])
    return bench[-1].upper() if bench.startswith("suite-") else SUITE_OF.get(bench, "F")


def charts(files: Mapping[str, Kept]) -> list[Chart]:
    """Return the charts of all files, by suite; files: by their names without the ending."""
    found = [chart for stem, kept in files.items() for chart in _charts(stem, kept)]
    found += _million({stem: kept for stem, kept in files.items() if stem.startswith("million-")})
    return sorted(found, key=lambda chart: chart.suite)


def _charts(stem: str, kept: Kept) -> Iterator[Chart]:
    suite = suite_of(kept)
    if "sets" in kept:
        for name, each in kept["sets"].items():
            slug = re.sub(r"[^a-z0-9]+", "-", f"{stem} {name}".lower()).strip("-")
            counts = connections_of(each)
            repeats = f" Repeats: {each['source']}." if each.get("source") else ""
            if len(counts) >= RISING:
                found = [_rising(f"{slug}-{key.partition('_')[0]}", suite, name, each, key) for key in COLUMNS]
            else:
                found = [_throughput(slug, suite, name, each)]
            if each["left_out"]:
                repeats = f" Left out: {', '.join(each['left_out'])}.{repeats}"
            yield from (chart._replace(sentence=chart.sentence + repeats) for chart in found)
        if stem == "serve-cpython" and "bare head" in kept["sets"]:
            yield _memory(f"{stem}-memory", suite, kept["sets"]["bare head"])
    elif "events" in kept:
        yield from _events(stem, suite, kept)
    elif "probes" in kept:
        yield from _probes(stem, suite, kept)
    elif "rows" in kept:
        yield _preload(stem, suite, kept)
    elif "cluster" in kept:
        yield from _cluster(stem, suite, kept)
    elif "profile" in kept:
        yield _profile(stem, suite, kept)
    elif "parse" in kept:
        yield _parsers(stem, suite, kept)


def value_of(each: Kept, server: str, count: str, key: str) -> float | None:
    """Return a median of a set; None: not measured. `errors`: all kinds."""
    row = each["medians"][server].get(count)
    if row is None:
        return None
    value = row.get(key)
    return float(sum(value.values())) if key == "errors" and value is not None else value


def _throughput(slug: str, suite: str, name: str, each: Kept) -> Chart:
    counts, names = connections_of(each), list(each["medians"])
    series = {
        f"{_number(count)} connection{'s' * (count != '1')}": [
            value_of(each, server, count, figure_of(each)) for server in names
        ]
        for count in counts
    }
    return Chart(
        slug, suite, _sentence_case(f"{name}: {each['title']}"), "bars", FIGURES[figure_of(each)], names, series,
        _comparison_of(each),
    )  # fmt: skip


def _rising(slug: str, suite: str, name: str, each: Kept, key: str) -> Chart:
    counts, (what, unit) = connections_of(each), COLUMNS[key]
    series = {server: [value_of(each, server, count, key) for count in counts] for server in each["medians"]}
    last = {server: values[-1] for server, values in series.items() if values[-1] is not None}
    if key == "errors":
        failing = [
            f"{server} {total:,.0f}"
            for server, values in series.items()
            if (total := sum(value or 0 for value in values))
        ]
        sentence = f"Errors over all numbers of connections: {', '.join(failing) or 'none'}."
    else:
        best = sorted(last, key=lambda server: -last[server] if key == "rps" else last[server])
        order = ", ".join(f"{server} {_figure(last[server])}" for server in best)
        sentence = f"At {_number(counts[-1])} connections, {'most' if key == 'rps' else 'least'} first: {order}."
    return Chart(
        slug,
        suite,
        f"{_sentence_case(name)}: {what}; {each['title']}",
        "lines",
        unit,
        counts,
        series,
        sentence,
        "connections",
    )


def _memory(slug: str, suite: str, each: Kept) -> Chart:
    count = connections_of(each)[-1]
    names = [server for server in each["medians"] if server not in NO_PEERS]
    values = [value_of(each, server, count, "pss_mb") for server in names]
    listed = ", ".join(
        f"{name} {value:.1f} MB" for name, value in sorted(zip(names, values), key=lambda item: item[1] or 0) if value
    )
    return Chart(
        slug, suite, f"Memory of the hello app after {_number(count)} connections", "bars", "PSS, MB", names, {"PSS": values},
        f"Least first: {listed}.",
    )  # fmt: skip


def _events(stem: str, suite: str, kept: Kept) -> Iterator[Chart]:
    names = list(dict.fromkeys(row["server"] for row in kept["events"]))
    events = list(dict.fromkeys(row["event"] for row in kept["events"]))
    rows = {(row["event"], row["server"]): row for row in kept["events"]}

    def values(server: str, keys: Iterable[str]) -> list[float | None]:
        found = (rows.get((event, server), {}) for event in events)
        return [sum(row[key] for key in keys) if "good" in row else None for row in found]

    failures = {name: values(name, ("5xx", "other", "reset", "closed", "refused", "timeout")) for name in names}
    totals = ", ".join(f"{name} {sum(value or 0 for value in each):,.0f}" for name, each in failures.items())
    about = "; ".join(f"{event}: {kept['descriptions'][event]}" for event in events)
    yield Chart(
        f"{stem}-failures", suite, "Requests that failed while something happened to a server with two workers", "bars",
        "requests that failed", events, failures, f"Over all events: {totals}. No bar where a server has no such event. {about}.",
    )  # fmt: skip
    waits = {name: values(name, ("worst_ms",)) for name in names}
    worst = ", ".join(f"{name} {max(value or 0 for value in each):,.0f} ms" for name, each in waits.items())
    yield Chart(
        f"{stem}-waits", suite, "The longest that a client waited for an answer meanwhile", "bars", "ms", events, waits,
        f"The longest of all: {worst}.",
    )  # fmt: skip


# Probes whose figures say little beside each other as bars.
TABLES_ALONE = {*tables.FLOODS, "h2spec"}


def _probes(stem: str, suite: str, kept: Kept) -> Iterator[Chart]:
    for probe, (about, columns) in tables.PROBES.items():
        if probe in TABLES_ALONE:
            continue
        rows = [row for row in kept["probes"] if row["probe"] == probe]
        for key, title, _ in columns:
            values = [row.get(key) for row in rows]
            if key in ("connections", "requests", "p50_ms") or not any(value is not None for value in values):
                continue
            names = [row["server"] for row in rows]
            listed = ", ".join(f"{name} {_figure(value)}" for name, value in zip(names, values) if value is not None)
            yield Chart(
                f"{stem}-{probe.replace(' ', '-')}-{key.replace('_', '-')}",
                suite,
                about.rstrip("."),
                "bars",
                title,
                names,
                {title: values},
                f"{_sentence_case(title)}: {listed}.",
            )


def _preload(stem: str, suite: str, kept: Kept) -> Chart:
    names = [row["server"] for row in kept["rows"]]
    series = {
        title: [row.get(key) for row in kept["rows"]] for key, title, _ in tables.PRELOAD_COLUMNS if key.endswith("_mb")
    }
    listed = ", ".join(f"{row['server']} {row['pss_mb']:.1f}" for row in kept["rows"] if row.get("pss_mb"))
    return Chart(
        stem, suite, f"Memory of {kept['workers']} workers of a Django project", "bars", "MB", names, series,
        f"PSS in MB of the whole tree: {listed}.",
    )  # fmt: skip


PANELS = {"answered_each": "requests", "failed_each": "failed, lost", "p99_ms_each": "p99, ms", "hosts_each": "hosts"}


def _cluster(stem: str, suite: str, kept: Kept) -> Iterator[Chart]:
    """What became of the requests of each second while something happened to hosts, a line for each balancer."""
    for scenario in dict.fromkeys(row["scenario"] for row in kept["cluster"]):
        rows = {
            ", ".join(filter(None, (row["server"], row["balancer"], row["note"]))): row
            for row in kept["cluster"]
            if row["scenario"] == scenario
        }
        # The last second is none: the load ended within it.
        length = max(len(row["answered_each"]) for row in rows.values()) - 1
        panels = {
            unit: {name: _padded(row[key][:-1], length) for name, row in rows.items()} for key, unit in PANELS.items()
        }
        counts = "; ".join(
            f"{name}: {row['failed'] + row['lost']} of {row['requests']:,} failed or lost, {row['late']} late"
            for name, row in rows.items()
        )
        marks = "; ".join(
            dict.fromkeys(", ".join(f"{when} s {what}" for when, what in row["marks"].items()) for row in rows.values())
        )
        yield Chart(
            f"{stem}-{scenario.replace(' ', '-')}", suite, tables.SCENARIOS[scenario].rstrip("."), "panels", "",
            [str(second) for second in range(length)], {}, f"{counts}. What happened when: {marks}.", "second", panels,
        )  # fmt: skip


def _padded(values: list[float | None], length: int) -> list[float | None]:
    return values + [None] * (length - len(values))


def _parsers(stem: str, suite: str, kept: Kept) -> Chart:
    rows, python = kept["parse"], kept["aserve_python"]
    series = {
        title: [row.get(key) for row in rows]
        for key, title in tables.PARSERS.items()
        if any(key in row for row in rows)
    }
    times = []
    for key in ("httptools", "h11"):
        ratios = [row[key] / row["ours_named"] for row in rows if key in row]
        if ratios:
            times.append(
                f"{key} takes {_figure(min(ratios))} to {_figure(max(ratios))} x as long as ours with its names"
            )
    return Chart(
        stem, suite, f"Parsing a request head, {python['implementation']} {python['version']}", "bars", "ns a head",
        [row["head"] for row in rows], series, f"Less is better: {_and(times) or 'nothing to compare with is installed'}.",
    )  # fmt: skip


def _profile(stem: str, suite: str, kept: Kept) -> Chart:
    rows = kept["profile"][:PROFILED]
    shares: list[float | None] = [round(row["share"] * 100, 2) for row in rows]
    most = ", ".join(f"{row['function']} {row['share']:.1%}" for row in rows[:3])
    return Chart(
        stem, suite, f"One request of {kept['app']}, function by function", "bars", "share of the time under cProfile, %",
        [row["function"] for row in rows], {"share": shares},
        f"Most of its own time first: {most}. cProfile makes small functions look larger than they are. Repeats: CherryPy's profile "
        "of one request, which blamed header translation, logging and attribute access.",
    )  # fmt: skip


def _million(files: Mapping[str, Kept]) -> Iterator[Chart]:
    """How memory went over a million requests, one line for each interpreter."""
    if not files:
        return
    series: dict[str, list[float | None]] = {
        str(kept["server"]): [each["rss_mib"] for each in kept["rounds"]] for kept in files.values()
    }
    length = max(map(len, series.values()))
    ends = ", ".join(
        f"{kept['server']} {kept['rss_mib']['warm']:.2f}, then {kept['rss_mib']['end']:.2f}" for kept in files.values()
    )
    padded = {name: _padded(values, length) for name, values in series.items()}
    yield Chart(
        "million", "F", "Memory of aserve over a million requests of every kind", "lines", "RSS, MiB",
        [str(number + 1) for number in range(length)], padded, f"MiB once warm, and at the end: {ends}.", "round",
    )  # fmt: skip


# Comparisons with the best peer


def headline(files: Mapping[str, Kept]) -> str:
    """Return the first paragraph of the report: in how many comparisons a peer is ahead, and by how much."""
    found = [lead for stem, kept in files.items() for lead in leads(stem, kept)]
    behind = [lead for lead in found if lead.ratio > 1]
    text = f"In {len(behind)} of {len(found)} comparisons by requests per CPU second, each with the best peer of its set, a peer is ahead of aserve"
    worst: dict[tuple[str, str], Lead] = {}
    for lead in sorted(behind, key=lambda lead: -lead.ratio):
        worst.setdefault((lead.stem, lead.set_name), lead)
    if not worst:
        return text + "."
    return f"{text}. The furthest of each set: {'; '.join(f'{lead.text} on {_interpreter(lead.stem)}' for lead in worst.values())}."


def _interpreter(stem: str) -> str:
    name = stem.rpartition("-")[2]
    return name.replace("pypy", "PyPy ").rstrip() if name.startswith("pypy") else "CPython"


def _comparison_of(each: Kept) -> str:
    """Return a sentence on a set: what ours did at the largest number of connections, and the best peer at each."""
    found = list(leads("", {"sets": {"": each}}))
    if not found:
        names = ", ".join(
            f"{name} {_figure(value)}"
            for name in each["medians"]
            if (value := value_of(each, name, connections_of(each)[-1], figure_of(each)))
        )
        return f"{_sentence_case(FIGURES[figure_of(each)])}: {names}."
    parts = []
    for ours in dict.fromkeys(lead.ours for lead in found):
        own = [lead for lead in found if lead.ours == ours]
        peers = dict.fromkeys(lead.peer for lead in own)
        beside = ", ".join(
            f"{peer} has {_and([f'{lead.ratio:.2f} x at {_number(lead.count)}' for lead in own if lead.peer == peer])}"
            for peer in peers
        )
        is_behind = [lead for lead in own if lead.ratio > 1]
        verdict = "is ahead" if not is_behind else "is behind" if len(is_behind) == len(own) else "is partly ahead"
        parts.append(f"{ours} {verdict}: {beside}")
    return f"Beside the best peer at each number of connections, {'; '.join(parts)}."


def _and(items: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(count: str) -> str:
    return f"{int(count):,}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
