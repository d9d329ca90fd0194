"""The tables of a file of results, in Markdown.

Owns:     what each kind of file shows. Every figure is from the file.
Not here: the pages that have these tables (pages.py); the files' own form (record.py); tables of a run that is not kept (figures.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samples import NAMES as PARTS

# Key of a row of medians, its column, its form.
COLUMNS = (
    ("per_cpu_s", "req/cpu-s", ",.0f"),
    ("ratio", "x", ".2f"),
    ("rps", "rps", ",.0f"),
    ("slow_rps", "slow ones a second", ",.1f"),
    ("p50_ms", "p50 ms", ".2f"),
    ("p99_ms", "p99 ms", ".2f"),
    ("pss_start_mb", "PSS MB at first", ".1f"),
    ("pss_mb", "PSS MB", ".1f"),
    ("busy", "busy", ".0%"),
    ("switches", "switches", ".3f"),
    ("calls", "system calls", ".2f"),
)


def about(kept: dict[str, Any]) -> str:
    """Return when and where a file was measured."""
    machine = kept["machine"]
    kind = "virtual " * machine["is_virtual"] + "cores"
    words = [
        kept["date"], f"commit {kept['commit']}", f"{machine['cores']} {kind}", machine["cpu"],
        f"kernel {machine['kernel']}", machine["system"],
    ]  # fmt: skip
    return "; ".join(words) + "."


def parts(kept: dict[str, Any]) -> Iterable[str]:
    """Return the tables of one file, by what it has."""
    if "sets" in kept:
        return _sets(kept)
    if "probes" in kept:
        return probes_tables(kept)
    if "events" in kept:
        return [events_table(kept)]
    if "rows" in kept:
        return [_preload(kept)]
    if "cluster" in kept:
        return cluster_tables(kept)
    if "parse" in kept:
        return [parse_table(kept)]
    if "profile" in kept:
        return [profile_table(kept)]
    if "shares" in kept:
        return [shares_table(kept)]
    return [_storms(kept) if "storms" in kept else _long_run(kept)]


def _sets(kept: dict[str, Any]) -> Iterable[str]:
    for name, each in kept["sets"].items():
        base = each["base"]
        whom = f"{base[1:]} on the same protocol" if base.startswith(":") else base
        yield f"### {name}\n"
        yield f"{each['title']}; medians of {each['rounds']} rounds of {each['seconds']:g} s; x: ratio{' of rps' * (each.get('figure') == 'rps')} to {whom}.\n"
        if each.get("source"):
            yield f"Repeats: {each['source']}.\n"
        columns = [
            column
            for column in COLUMNS
            if any(row.get(column[0]) is not None for rows in each["medians"].values() for row in rows.values())
        ]
        counts = {count: None for rows in each["medians"].values() for count in rows}  # in their order
        yield table(
            ("server", "connections", *(title for _, title, _ in columns), "errors"),
            [
                (
                    name,
                    count,
                    *(cell(rows[count].get(key), form) for key, _, form in columns),
                    ", ".join(f"{kind} {number}" for kind, number in rows[count]["errors"].items()),
                )
                for count in counts
                for name, rows in each["medians"].items()
                if count in rows
            ],
        )
        if kept["bench"] == "suite-c":
            yield from (client_thread_report(name, rows) for name, rows in each["medians"].items())
        if calls := calls_by_name(each):
            yield (
                "System calls of a request:\n\n" + "\n".join(f"- {name}: {text}" for name, text in calls.items()) + "\n"
            )
        remarks = [f"{server} was left out: {why}" for server, why in each["left_out"].items()] + each["warnings"]
        if remarks:
            yield "\n".join(f"- {remark}" for remark in remarks) + "\n"


def client_thread_report(server: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return a server's figures in the form that CherryPy's own benchmark prints: a line for each number of clients, and their average."""
    lines = [
        (
            row.get("n"),
            sum(row["errors"].values()),
            row["rps"],
            1000 / row["rps"] if row["rps"] else None,
            row.get("kb_per_s"),
        )
        for row in rows.values()
    ]
    averages = [
        sum(values) / len(values) if (values := [value for value in column if value is not None]) else None
        for column in zip(*lines)
    ]
    forms = (",.0f", ",.0f", ",.0f", ".3f", ",.1f")
    return f"{server}, as CherryPy's benchmark prints it:\n\n" + table(
        ("threads", "Completed", "Failed", "req/sec", "msec/req", "KB/sec"),
        [
            (name, *(cell(value, form) for value, form in zip(line, forms)))
            for name, line in zip([*rows, "Average"], [*lines, averages])
        ],
    )


def calls_by_name(each: dict[str, Any]) -> dict[str, str]:
    """Return the system calls of a request by server, the most frequent first, where they were counted."""
    found = {
        name: row["calls_by_name"]
        for one in each["each_round"]
        for name, rows in one.items()
        for row in rows.values()
        if row.get("calls_by_name")
    }
    return {name: ", ".join(f"{call} {count:.2f}" for call, count in calls.items()) for name, calls in found.items()}


def _long_run(kept: dict[str, Any]) -> str:
    """A soak, or a million requests."""
    requests = kept["counts"] if "counts" in kept else {"good": kept["good"], "bad": kept["bad"]}
    memory, files = kept["rss_mib"], kept.get("fds") or [each["fds"] for each in kept["rounds"]]
    first, last = (files["before"], files["after"]) if isinstance(files, dict) else (files[0], files[-1])
    return table(
        ("server", "seconds", "requests", "MiB warm", "MiB at the end", "may grow by", "descriptors", "faults"),
        [
            (
                kept["server"], f"{kept['seconds']:g}", ", ".join(f"{kind} {count:,}" for kind, count in requests.items()),
                memory["warm"], memory["end"], memory["bound"], f"{first}, then {last}", len(kept["faults"]),
            )
        ],
    )  # fmt: skip


def _storms(kept: dict[str, Any]) -> str:
    """Workers replaced, stopped and killed under load."""
    rows = []
    for each in kept["storms"]:
        answered = each["requests"].pop("answered")
        others = ", ".join(f"{what} {count:,}" for what, count in each["requests"].items())
        rows.append((each["storm"], each["over"], f"{each['seconds']:g}", each["rounds"], f"{answered:,}", others))
    head = ("storm", "over", "seconds", "rounds", "answered", "not answered")
    return f"{kept['server']}; `make storm SECONDS={kept['seconds']:g}`.\n\n" + table(head, rows)


# Key of an event's row, its column.
EVENT_COLUMNS = (
    ("good", "answered"), ("5xx", "5xx"), ("other", "other status"), ("reset", "reset"), ("closed", "closed"),
    ("refused", "refused"), ("timeout", "no answer in 20 s"), ("worst_ms", "longest wait ms"), ("gap_ms", "longest gap ms"),
    ("stayed", "connections that stayed"), ("after", "then serves"), ("note", ""),
)  # fmt: skip


def events_table(kept: dict[str, Any]) -> str:
    """Return what became of the requests while something happened to servers."""
    clients = kept["clients"]
    text = (
        f"{clients['kept']} clients that keep their connections, {clients['fresh']} that do not, {clients['pause_ms']} ms "
        f"between response and request; an app whose import takes {kept['import_seconds']:g} s.\n\n"
    )
    names = dict.fromkeys(row["event"] for row in kept["events"])
    text += "".join(f"- {name}: {kept['descriptions'][name]}\n" for name in names) + "\n"
    rows = [(row["event"], row["server"], *_event_cells(row)) for row in kept["events"]]
    return text + table(("event", "server", *(title for _, title in EVENT_COLUMNS)), rows)


def event_line(row: dict[str, Any]) -> str:
    """Return one row as a line, for the terminal."""
    counts = [f"{title} {cell}" for (_, title), cell in zip(EVENT_COLUMNS, _event_cells(row)) if cell not in ("", "0")]
    return f"{row['event']}, {row['server']}: {', '.join(counts)}"


def _event_cells(row: dict[str, Any]) -> Iterable[str]:
    for key, _ in EVENT_COLUMNS:
        value = row.get(key, "")
        if key == "stayed" and value != "":
            value = f"{value} of {row['kept']}"
        yield f"{value:,}" if isinstance(value, int) else value


FLOODS = {
    "rapid reset": "Requests that are reset at once", "pings": "Pings", "settings": "Settings", "empty data": "DATA frames without an octet",
    "continuations": "A field section without an end",
}  # fmt: skip
_FLOOD = (
    ("frames", "frames taken", ",.0f"),
    ("ended_s", "ended by the server after s", ".2f"),
    ("cpu_s", "CPU s", ".2f"),
    ("more_mb", "MB more", ".1f"),
)
# By probe: what it does; key of a row, its column, its form.
PROBES = {
    "start": ("From the command to the first answer of an empty app.", (("seconds", "s", ".2f"), ("pss_mb", "PSS MB", ".1f"))),
    "idle": (
        "Kept connections that are silent, and one client that is not.",
        (("connections", "connections", ",.0f"), ("more_mb", "MB more", ".1f"), ("p50_ms", "p50 ms", ".3f"), ("p99_ms", "p99 ms", ".3f")),
    ),
    "slow": ("100 clients that ask for 5.2 MB and read nothing.", (("more_mb", "MB more", ".1f"),)),
    "leak": (
        "Memory over loads one after the other, once warm: the slope of PSS over the requests served.",
        (("requests", "requests", ",.0f"), ("pss_mb", "PSS MB at the end", ".1f"), ("growth", "octets a request", ".2f")),
    ),
    "spread": (
        "Two workers on two CPUs: CPU-bound work beside one worker; the busier worker's share of the requests.",
        (
            ("speed_up", "x one worker", ".2f"), ("share_fresh", "fresh connections", ".0%"),
            ("share_kept", "kept connections", ".0%"), ("share_reloaded", "fresh, after a reload", ".0%"),
        ),
    ),
    # Of bench_http2.py.
    "side by side": ("Ten requests on one connection, each of which sleeps for 100 ms.", (("all_ms", "all answered after ms", ",.0f"),)),
    "unread response": (
        "A response of 5.2 MB that its client does not read, and 50 requests beside it on the same connection, one after the other.",
        (("answered", "answered", ".0f"), ("p50_ms", "p50 ms", ".2f"), ("most_ms", "most ms", ".1f"), ("more_mb", "MB more", ".1f")),
    ),
    **{name: (f"{text}, for two seconds, from one client that reads nothing.", _FLOOD) for name, text in FLOODS.items()},
    "h2spec": (
        "Tests of the protocol (h2spec 2.6, the suites generic, http2 and hpack).",
        tuple((name, name, ".0f") for name in ("tests", "passed", "skipped", "failed")),
    ),
}  # fmt: skip


def probes_tables(kept: dict[str, Any]) -> Iterable[str]:
    """Return what wrk cannot tell of servers, a table for each probe."""
    for probe, (text, columns) in PROBES.items():
        rows = [row for row in kept["probes"] if row["probe"] == probe]
        if rows:
            cells = [
                (row["server"], *(cell(row.get(key), form) for key, _, form in columns), row["note"]) for row in rows
            ]
            yield f"### {probe}\n\n{text}\n\n" + table(("server", *(title for _, title, _ in columns), ""), cells)


PRELOAD_COLUMNS = (
    ("pss_mb", "PSS MB", ".1f"), ("uss_mb", "USS MB", ".1f"), ("successor_seconds", "a successor answers after s", ".2f"),
)  # fmt: skip


def preload_table(rows: list[dict[str, Any]]) -> str:
    """Return what workers take of memory, and how soon a new one answers, by how they are started."""
    return table(
        ("server", *(title for _, title, _ in PRELOAD_COLUMNS), ""),
        [(row["server"], *(cell(row.get(key), form) for key, _, form in PRELOAD_COLUMNS), row["note"]) for row in rows],
    )


def _preload(kept: dict[str, Any]) -> str:
    rounds = max(map(len, kept["rounds"].values()))
    text = f"{kept['workers']} workers of a Django project, their supervisor or master included; medians of {rounds} rounds.\n\n"
    return text + preload_table(kept["rows"])


# What happened to a cluster: what is said of it.
SCENARIOS = {
    "killed": "The processes of one of three hosts are killed, and started again after 7 s.",
    "vanished": "The link of one of three hosts is down for 10 s: nobody says that it is gone.",
    "bad way": "The way to one of three hosts takes 50 ms more in each direction, and loses 5 % of the frames, for 10 s.",
    "parted briefly": "Balancer and one of three hosts do not find each other for 3 s.",
    "parted": "Balancer and one of three hosts do not find each other for 10 s.",
    "rolling deploy": "Each of three hosts in turn is ended and started with new code, while uploads are under way and clients read slowly.",
    "slow host": "The app of one of three hosts takes five times as long as the others'.",
    "scale-up": "One host serves; two more are started.",
}
CLUSTER_COLUMNS = (
    ("requests", "requests"), ("answered", "answered"), ("failed", "failed"), ("lost", "lost"), ("late", "late"), ("doubled", "doubled"),
    ("again", "sent again"), ("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"), ("worst_ms", "longest ms"),
)  # fmt: skip


def cluster_tables(kept: dict[str, Any]) -> Iterable[str]:
    """Return what became of requests while something happened to hosts behind a balancer, a table for each."""
    yield (
        f"{kept['server']}; `make cluster ARGS=--save`: requests at a steady rate, half of them POSTs. Failed: a balancer has answered in place of a "
        "host; lost: nobody has; late: answered after more than a second; doubled: a POST that an app has begun twice; sent again: by the "
        "balancer, to another host; then: which share of the requests each host answered at the end. Times count from when a request was due: hosts, "
        "balancer and clients share a machine, with whatever else it does.\n"
    )
    for scenario in dict.fromkeys(row["scenario"] for row in kept["cluster"]):
        yield f"### {scenario}\n\n{SCENARIOS[scenario]}\n"
        rows = [row for row in kept["cluster"] if row["scenario"] == scenario]
        yield table(
            ("server", "behind", *(title for _, title in CLUSTER_COLUMNS), "then, %", ""),
            [
                (
                    row["server"], row["balancer"], *(cell(row[key], ",.0f") for key, _ in CLUSTER_COLUMNS),
                    " ".join(map(str, row["shares"])), row["note"],
                )
                for row in rows
            ],
        )  # fmt: skip


# By key of a row: what stands above its column.
PARSERS = {"ours": "ours", "ours_named": "ours, with its names", "httptools": "httptools", "h11": "h11"}


def parse_table(kept: dict[str, Any]) -> str:
    """Return how long each head takes each parser; what the interpreter has not is a dash."""
    python = kept["aserve_python"]
    rows = [(row["head"], row["octets"], *(cell(row.get(key), ",.0f") for key in PARSERS)) for row in kept["parse"]]
    text = f"Nanoseconds a request head, the best of several runs; {python['implementation']} {python['version']}.\n\n"
    return text + table(("head", "octets", *PARSERS.values()), rows)


def profile_table(kept: dict[str, Any]) -> str:
    """Return what each function takes of a request."""
    python = kept["aserve_python"]
    rows = [
        (f"`{row['function']}`", f"{row['calls']:.2f}", f"{row['us']:.2f}", f"{row['share']:.1%}")
        for row in kept["profile"]
    ]
    text = (
        f"{kept['app']} under cProfile, with --threads 0, {python['implementation']} {python['version']}: {kept['requests']:,} requests, "
        f"{kept['us']:.1f} us each with what cProfile itself takes.\n\n"
    )
    return text + table(("function", "calls a request", "its own us a request", "share"), rows)


def shares_table(kept: dict[str, Any]) -> str:
    """Return where the CPU time of a request goes, ours beside a peer's."""
    rows = [
        (
            row["set"], row["server"], row["connections"], *(f"{row[part]:.2f}" for part in ("us", *PARTS)),
            ", ".join(f"`{name}` {share:.0%}" for name, share in row["hottest"].items()),
        )
        for row in kept["shares"]
    ]  # fmt: skip
    python = kept["aserve_python"]
    text = (
        f"Microseconds of CPU a request, by whose code runs (perf's samples); aserve on {python['implementation']} {python['version']}. "
        "`Python` has the C library, too; `own C` a server's extension or program, and uvloop. Last, the functions that are met most.\n\n"
    )
    return text + table(("set", "server", "connections", "in all", *PARTS, "most"), rows)


def table(heads: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
