"""The report and the summaries say what the files of results hold, and where a peer is ahead. Nothing is measured here."""

from __future__ import annotations

import json
import re

import pytest
from harness.benchmarks import BENCHMARKS, modules
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

charts, leads, make_report, pages, tables = modules("charts", "leads", "make_report", "pages", "tables")
README = BENCHMARKS.parent / "README.md"
MACHINE = {"cores": 2, "is_virtual": True, "cpu": "one", "kernel": "6", "system": "Debian"}
FRAME = "<svg>drawn</svg>"


def one_set(rates, **changes):
    """Return a set as a file has it: rates are {server: {connections: figure of each round}}."""
    rounds = max(len(figures) for each in rates.values() for figures in each.values())
    rows = [
        {
            name: {count: {"per_cpu_s": figures[number]} for count, figures in each.items()}
            for name, each in rates.items()
        }
        for number in range(rounds)
    ]
    medians = {
        name: {
            count: {
                "per_cpu_s": sorted(figures)[len(figures) // 2],
                "rps": 5.0,
                "busy": 0.5,
                "pss_mb": 20.0,
                "errors": {"read": 2},
            }
            for count, figures in each.items()
        }
        for name, each in rates.items()
    }
    return {"title": "hello, keep-alive", "medians": medians, "each_round": rows, "base": "bjoern", "rounds": rounds, "seconds": 1.0,
            "left_out": {"fastwsgi": "it is not installed"}, "warnings": [], "servers": {}, **changes}  # fmt: skip


def one_file(bench="serve", **changes):
    """Return a file of results."""
    return {"bench": bench, "date": "2026-11-22", "commit": "abc", "machine": MACHINE, "targets": [], **changes}


# What is said


def test_the_first_paragraph_says_who_is_ahead():
    """Each of ours is compared with the best peer, by the median of ratios within the rounds; the floor is no peer."""
    rates = {
        "floor": {"1": [9, 9, 9]},
        "aserve": {"1": [10, 100, 10]},
        "bjoern": {"1": [12, 110, 30]},
        "waitress": {"1": [1, 1, 1]},
    }
    files = {"serve-cpython": one_file(sets={"bare head": one_set(rates)})}
    text = charts.headline(files)
    assert text.startswith("In 1 of 1 comparisons")
    assert "bjoern 1.20 x aserve (bare head, 1 connection) on CPython" in text
    files["serve-cpython"]["sets"]["bare head"] = one_set({**rates, "aserve": {"1": [50, 200, 50]}})
    assert charts.headline(files).startswith("In 0 of 1 comparisons")
    assert charts.headline(files).endswith("a peer is ahead of aserve.")


@pytest.mark.parametrize(
    ("peer", "ours"),
    [
        ("bjoern", "aserve"),
        ("uwsgi-t8", "aserve-t8"),
        ("gunicorn-sync-w2", "aserve-w2"),
        ("scgi:uwsgi", "scgi:aserve"),
        ("rpc:uwsgi-8", "rpc:aserve-8"),
        ("uwsgi:uwsgi-threads-8", "uwsgi:aserve"),
        ("fcgi:uwsgi", ""),
    ],
)
def test_a_peer_is_compared_with_ours_of_its_kind(peer, ours):
    """The same protocol, and as many threads or workers where we have that."""
    names = ["aserve", "aserve-t8", "aserve-w2", "scgi:aserve", "rpc:aserve-1", "rpc:aserve-8", "uwsgi:aserve", peer]
    assert leads.ours_for(peer, names) == ours


def test_a_set_of_few_connections_is_bars_and_of_many_is_lines():
    """Rising connections make four charts: requests, CPU, memory, errors."""
    few = one_set({"aserve": {"1": [10], "100": [20]}, "bjoern": {"1": [20], "100": [10]}})
    [bars] = charts.charts({"suite-a-cpython": one_file("suite-a", sets={"x": few})})
    assert (bars.kind, bars.suite, bars.labels) == ("bars", "A", ["aserve", "bjoern"])
    assert bars.series == {"1 connection": [10, 20], "100 connections": [20, 10]}
    assert "aserve is partly ahead: bjoern has 2.00 x at 1 and 0.50 x at 100" in bars.sentence
    many = one_set({name: {count: [1] for count in ("1", "10", "100", "1000")} for name in ("aserve", "bjoern")})
    lines = charts.charts({"suite-d-cpython": one_file("suite-d", sets={"rising": many})})
    assert [(chart.kind, chart.title.partition(": ")[2].partition(";")[0]) for chart in lines] == [
        ("lines", "requests"), ("lines", "CPU"), ("lines", "memory"), ("lines", "errors"),
    ]  # fmt: skip
    assert "aserve 8, bjoern 8" in lines[-1].sentence


def test_what_was_not_measured_is_no_figure():
    """A server without a row at some number of connections has a gap there, and is compared with nobody."""
    each = one_set({"aserve": {"1": [10]}, "bjoern": {"1": [5], "100": [5]}})
    [chart] = charts.charts({"serve-pypy": one_file(sets={"x": each})})
    assert chart.series["100 connections"] == [None, 5]
    assert [lead.count for lead in leads.leads("serve-pypy", {"sets": {"x": each}})] == ["1"]


def test_cherrypys_rows_are_in_the_form_of_their_source():
    """A line for each number of clients, and their average, beside the table that every set has; in suite C alone."""
    each = one_set({"aserve": {"10": [9], "20": [9]}, "cheroot": {"10": [9]}})
    each["medians"]["aserve"] = {
        "10": {"n": 3000, "rps": 2000.0, "kb_per_s": 300.0, "errors": {}},
        "20": {"n": 2998, "rps": 4000.0, "kb_per_s": 500.0, "errors": {"read": 2}},
    }
    text = "\n".join(tables.parts(one_file("suite-c", sets={"C hello": each})))
    report = text.partition("aserve, as CherryPy's benchmark prints it:")[2].split("\n\n")[1].splitlines()
    assert report[0] == "| threads | Completed | Failed | req/sec | msec/req | KB/sec |"
    assert report[2:5] == [
        "| 10 | 3,000 | 0 | 2,000 | 0.500 | 300.0 |",
        "| 20 | 2,998 | 2 | 4,000 | 0.250 | 500.0 |",
        "| Average | 2,999 | 1 | 3,000 | 0.375 | 400.0 |",
    ]
    assert "CherryPy's benchmark" not in "\n".join(tables.parts(one_file("suite-b", sets={"B": each})))


def test_the_system_calls_of_a_request_are_listed():
    """By name, where they were counted; a set in which nobody counted has no such list."""
    each = one_set({"aserve": {"100": [9, 9]}, "waitress": {"100": [9, 9]}})
    assert "System calls of a request" not in "\n".join(tables.parts(one_file("suite-a", sets={"A": each})))
    each["each_round"][0]["aserve"]["100"]["calls_by_name"] = {"recvfrom": 1.0, "sendto": 1.0, "epoll_wait": 0.016}
    text = "\n".join(tables.parts(one_file("suite-a", sets={"A": each})))
    assert "- aserve: recvfrom 1.00, sendto 1.00, epoll_wait 0.02\n" in text and "- waitress" not in text


def cluster_file():
    """Return a file of results of two runs with a cluster, one of them shorter."""
    row = {
        "scenario": "killed", "server": "aserve", "note": "", "requests": 100, "failed": 1, "lost": 2, "late": 4,
        "answered_each": [40, 37, 2], "failed_each": [0, 3, 0], "p99_ms_each": [20, None, 20], "hosts_each": [3, 2, 2],
        "marks": {"1.0": "killed"},
    }  # fmt: skip
    shorter = {name: value[:2] for name, value in row.items() if name.endswith("_each")}
    rows = [{**row, "balancer": "HAProxy"}, {**row, **shorter, "balancer": "nginx"}]
    return {"cluster-cpython": one_file("cluster", cluster=rows)}


def test_what_happened_to_a_cluster_is_panels():
    """One chart for each scenario; requests, failures, times and hosts one below another, a line for each balancer; the second that was cut is left out."""
    [chart] = charts.charts(cluster_file())
    assert (chart.slug, chart.suite, chart.labels) == ("cluster-cpython-killed", "F", ["0", "1"])
    assert list(chart.panels) == ["requests", "failed, lost", "p99, ms", "hosts"]
    assert chart.panels["failed, lost"] == {"aserve, HAProxy": [0, 3], "aserve, nginx": [0, None]}
    assert "aserve, nginx: 3 of 100 failed or lost, 4 late" in chart.sentence and "1.0 s killed" in chart.sentence


def test_parsers_are_compared_head_by_head():
    """Each head is a group of bars; a parser that the interpreter has not is left out, and told by a dash."""
    rows = [
        {"head": name, "octets": 40, "ours": 200, "ours_named": 400, "h11": time}
        for name, time in (("a", 4000), ("b", 9000))
    ]
    kept = one_file("parse", parse=rows, aserve_python={"implementation": "PyPy", "version": "3.9.16"})
    [chart] = charts.charts({"parse-pypy": kept})
    assert (chart.suite, chart.labels, chart.unit) == ("F", ["a", "b"], "ns a head")
    assert chart.series == {"ours": [200, 200], "ours, with its names": [400, 400], "h11": [4000, 9000]}
    assert "h11 takes 10 to 22.5 x as long as ours with its names." in chart.sentence
    assert "| a | 40 | 200 | 400 | - | 4,000 |" in tables.parse_table(kept)
    assert "9,000" in make_report.page({"parse-pypy": kept}, lambda chart: FRAME)


# The page


def test_the_page_has_the_figures_and_needs_no_other_file():
    """Charts, sentences, every table, who was left out and why; no link to a style, a script or a picture elsewhere."""
    each = one_set({"aserve": {"1": [1234]}, "bjoern": {"1": [2345]}}, source="a row <of> 2013")
    files = {"suite-a-cpython": one_file("suite-a", sets={"x": each})}
    text = make_report.page(files, lambda chart: FRAME)
    assert text.count(FRAME) == 1
    for part in (
        "1,234",
        "Left out: fastwsgi. Repeats: a row &lt;of&gt; 2013.</figcaption>",
        "2,345",
        "fastwsgi was left out: it is not installed",
        "a row &lt;of&gt; 2013",
        "Where others are ahead",
    ):
        assert part in text
    assert "Not measured yet" in text  # the other suites
    assert not re.search(r"<(link|script|img|iframe)\b|src=|url\(", text)
    for tag in ("table", "figure", "details", "div"):
        assert text.count(f"<{tag}") == text.count(f"</{tag}>")


def test_an_interpreter_that_is_missing_is_told():
    """Suite A wants PyPy 3.11: the page says that it was not there, and says nothing once it is."""
    each = one_set({"aserve": {"1": [1234]}, "waitress": {"1": [2345]}})
    kept = one_file("suite-a", sets={"x": each})
    told = "PyPy 3.11 is not installed"
    assert told not in make_report.page({"suite-a-cpython": kept}, lambda chart: FRAME)
    assert told in make_report.page({"suite-a-pypy": kept}, lambda chart: FRAME)
    text = make_report.page({"suite-a-pypy": kept, "suite-a-pypy3.11": kept}, lambda chart: FRAME)
    assert told not in text
    assert "(x, 1 connection) on PyPy 3.11" in charts.headline({"suite-a-pypy3.11": kept})


def test_tables_become_html():
    """Figures are set to the right; what is bold stays bold."""
    text = make_report.from_markdown(
        "### A & B\n\n| a | b | c |\n| --- | --- | --- |\n| x | 1,234 | **y**; z |\n\nend\n"
    )
    assert "<h3>A &amp; B</h3>" in text
    assert "<td class=number>1,234</td>" in text
    assert "<td><strong>y</strong>; z</td>" in text
    assert "<p>end</p>" in text


# What is committed


def test_the_report_is_that_of_the_files():
    """report/ is what `make bench-pictures` makes of results/, but for the drawing itself."""
    files = pages.read()
    wanted = make_report.page(files, lambda chart: FRAME)
    committed = (make_report.REPORT / "report.html").read_text()
    assert re.sub(r"<svg.*?</svg>", FRAME, committed, flags=re.DOTALL) == wanted
    assert (make_report.REPORT / "README.md").read_text() == make_report.gallery(files)
    pictures = {path.stem for path in make_report.REPORT.glob("*.svg")}
    assert pictures == {chart.slug for chart in charts.charts(files)}


def test_every_chart_has_its_picture_on_the_page():
    """The same drawing: with a background of its own in the file, without one on the page."""
    committed = (make_report.REPORT / "report.html").read_text()
    for path in make_report.REPORT.glob("*.svg"):
        text = path.read_text().rstrip("\n")
        bare = re.sub(r"</style><style>\.aserve-page.*?<rect[^>]*/>", "</style>", text, count=1, flags=re.DOTALL)
        assert bare in committed, path.name
        assert "prefers-color-scheme:dark" in text


def test_results_show_which_server_is_ahead_and_no_targets(tmp_path):
    """Each of our rows has its best peer at each number of connections; where the peer is ahead, the ratio is bold. Targets have a page of their own."""
    rates = {
        "floor": {"1": [99, 99, 99], "10": [99, 99, 99]},
        "aserve": {"1": [10, 20, 30], "10": [10, 10, 10]},
        "bjoern": {"1": [5, 10, 15], "10": [20, 20, 20]},
        "waitress": {"1": [6, 12, 18], "10": [1, 1, 1]},
    }
    row = {"target": 1, "set": "bare head", "connections": 1, "server": "aserve", "base": "bjoern", "at_least": 3, "figure": 2, "met": False, "notes": []}  # fmt: skip
    files = {
        "serve-cpython": one_file(sets={"bare head": one_set(rates)}, targets=[row]),
        "suite-b-cpython": one_file("suite-b", sets={"B": one_set({"aserve": {"1": [1]}})}),
    }
    for stem, kept in files.items():
        (tmp_path / f"{stem}.json").write_text(json.dumps(kept))
    text = pages.results_page(tmp_path)
    ahead = re.findall(r"^\| \[.*", text, re.M)
    assert ahead == [
        "| [bare head](#serve-cpython): hello, keep-alive | 2026-11-22 | 1 / 10 | aserve | waitress / bjoern | 1.67 / **0.50** |"
    ]
    assert "**no**" not in text and "at least" not in text
    targets = pages.targets_page(tmp_path)
    assert "0 of 1 were met" in targets and "## suite-b-cpython" not in targets
    assert "| 1 | bare head | 1 | aserve | bjoern | 3.00 | 2.00 | **no** |" in targets


def test_files_without_comparisons_have_no_first_section(tmp_path):
    """A folder in which no peer was measured says nothing about who is ahead."""
    (tmp_path / "serve-cpython.json").write_text(json.dumps(one_file(sets={"x": one_set({"aserve": {"1": [1]}})})))
    assert "Which server is ahead" not in pages.results_page(tmp_path) and "## serve-cpython" in pages.results_page(
        tmp_path
    )


def test_the_summary_in_the_readme_is_that_of_the_files():
    """No figure of the table, or of the sentences below it, differs from the results; each server that people know has all figures."""
    text = README.read_text()
    assert pages.with_summary(text) == text
    medians = json.loads((pages.RESULTS / f"{pages.STEM}.json").read_text())["sets"][pages.SET_NAME]["medians"]
    assert {known.name for known in pages.KNOWN} == {*medians}
    lines = pages.summary().splitlines()
    for known in pages.KNOWN:
        [line] = [line for line in lines if line.startswith(f"| {known.title} |")]
        assert f"| {medians[known.name][pages.COUNT]['rps']:,.0f} |" in line and " - " not in line


def test_the_summary_says_where_others_are_ahead():
    """Only what is so: a set in which no peer is ahead any more is not named."""
    text = " ".join(pages.summary().partition("**Where others are ahead**")[2].split())
    kept = pages.read()["serve-cpython"]
    [lead] = [lead for lead in leads.leads("serve-cpython", kept) if lead.set_name == "blob"]
    assert (f"bodies of 5.2 MB (uWSGI, {lead.ratio:.2f} times as many)" in text) == (lead.ratio > 1)


def test_a_wrong_figure_in_the_readme_is_found():
    """A figure that was changed by hand, or has grown old, is not what the files make."""
    text = README.read_text()
    figure = re.search(r"\| \*\*aserve\*\* \| \d+ \| ([\d,]+)", text)[1]
    assert pages.with_summary(text.replace(figure, "999,999")) == text


def test_memory_in_the_readme_is_that_of_the_files():
    """The hello app's, and what a million requests added."""
    hello = json.loads((pages.RESULTS / "serve-cpython.json").read_text())["sets"]["bare head"]["medians"]["aserve"][
        "100"
    ]
    run = json.loads((pages.RESULTS / "million-cpython.json").read_text())
    million = run["rss_mib"]
    text = README.read_text()
    assert f"it takes {hello['pss_mb']:.0f} MiB on CPython" in text
    assert f"{million['end'] - million['warm']:.2f} MiB" in text and f"#million-cpython) ({run['date']})" in text


def test_charts_are_drawn_alike_each_time():
    """A run that measured the same changes no octet; text and lines have the page's colours."""
    pytest.importorskip("matplotlib")
    [draw] = modules("draw")
    each = one_set({"aserve": {"1": [10], "100": [20]}, "bjoern": {"1": [20], "100": [10]}})
    drawn = charts.charts({"suite-a-cpython": one_file("suite-a", sets={"x": each}), **cluster_file()})
    assert [chart.kind for chart in drawn] == ["bars", "panels"]
    for chart in drawn:
        svg = draw.draw(chart)
        assert svg == draw.draw(chart)
        assert "currentColor" in svg and draw.TEXT not in svg and draw.GRID not in svg
        assert draw.standalone(svg).count("<style>") == svg.count("<style>") + 1


def test_a_server_that_does_not_serve_so_many_has_no_ratio():
    """What answered nothing at some number of connections is neither ahead nor behind there, and its errors are shown."""
    each = one_set({"aserve": {"1": [10], "1000": [0]}, "bjoern": {"1": [5], "1000": [5]}})
    assert leads.ratio_of(each, "bjoern", "aserve", "1000") is None
    assert leads.ratio_of(each, "bjoern", "aserve", "1") == 0.5
