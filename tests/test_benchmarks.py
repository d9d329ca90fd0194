"""The published benchmarks: ratios, targets, and pages true to the files of results. Nothing is measured here.

`bench_serve.py --self-test` and `--quick` check servers and clients.
"""

import json
import pathlib
import re

import pytest
from harness.benchmarks import BENCHMARKS, modules
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE, pytest.mark.long_on_pypy]

README = BENCHMARKS.parent / "README.md"
MACHINE = {"cores": 2, "is_virtual": True, "cpu": "one", "kernel": "6", "system": "Debian"}
FRAME = "<svg>drawn</svg>"

bench_mixed, charts, figures, leads, make_report, pages, procs, record, reports, servers, tables, targets = modules(
    "bench_mixed", "charts", "figures", "leads", "make_report", "pages", "procs", "record", "reports", "servers", "tables", "targets",
)  # fmt: skip


def facts(implementation="CPython", build="Debian's", is_optimised=True):
    """Return the facts of an environment with everything installed."""
    packages = dict.fromkeys(servers.PACKAGES, "1.0")
    return {"implementation": implementation, "version": "3.11", "build": build, "is_optimised": is_optimised,
            "packages": packages}  # fmt: skip


def pair(aserve=None, peer=None):
    python = pathlib.Path("python")
    return servers.Pair(python, python, aserve or facts(), peer or facts())


def row(per_cpu_s, **changes):
    """Return the figures of one server in one round."""
    return {"n": 100, "per_cpu_s": per_cpu_s, "rps": per_cpu_s / 2, "p50_ms": 1.0, "p99_ms": 2.0, "pss_mb": 20.0,
            "busy": 0.5, "switches": 0.1, "others": 0.0, "errors": {}, **changes}  # fmt: skip


def result(set_name, each_round, left_out=None, connections=(10,), environments=None, **changes):
    """Return the result of a set: each round is {server: figure or row} at every number of connections."""
    plan = targets.build_plan(set_name, environments or pair(), {"rounds": len(each_round), **changes})
    plan = plan._replace(connections=connections)
    rows = [
        {name: {count: row(what) if isinstance(what, (int, float)) else what for count in connections}
         for name, what in figures_of.items()}
        for figures_of in each_round
    ]  # fmt: skip
    return figures.Result(plan, rows, left_out or {})


# Figures


def test_a_ratio_is_taken_within_each_round():
    """A machine slower between rounds moves no ratio: 0.5, 0.5, 0.8, and not 100 / 200 of medians."""
    measured = result(
        "close", [{"aserve": 100, "bjoern": 200}, {"aserve": 10, "bjoern": 20}, {"aserve": 160, "bjoern": 200}]
    )
    assert measured.ratio("aserve", "bjoern", 10) == 0.5
    assert measured.ratio("bjoern", "aserve", 10) == 2.0
    assert measured.median("aserve", 10, "per_cpu_s") == 100
    assert measured.median("aserve", 10, "rps") == 50


def test_a_round_without_one_of_both_gives_no_ratio():
    """Rounds with one of both do not count; without a full round there is no ratio."""
    measured = result("close", [{"aserve": 100, "bjoern": 200}, {"aserve": 900}, {"bjoern": 1}])
    assert measured.ratio("aserve", "bjoern", 10) == 0.5
    assert measured.ratio("aserve", "uwsgi-http", 10) is None
    assert measured.ratio("aserve", "bjoern", 100) is None
    assert measured.median("uwsgi-http", 10, "rps") is None


def test_a_round_in_which_the_base_answered_nothing_gives_no_ratio():
    """A peer without answers at so many connections is left out of the ratio, and has no infinite one."""
    measured = result("close", [{"aserve": 100, "bjoern": 0}, {"aserve": 100, "bjoern": 200}])
    assert measured.ratio("aserve", "bjoern", 10) == 0.5
    assert measured.ratio("bjoern", "aserve", 10) == 1.0


def test_errors_of_all_rounds_are_added():
    """An error in any round is told, by kind."""
    bad = [row(1, errors={"status": 2}), row(1), row(1, errors={"status": 3, "read": 1})]
    measured = result("close", [{"aserve": each} for each in bad])
    assert measured.errors("aserve", 10) == {"status": 5, "read": 1}
    assert measured.errors("bjoern", 10) == {}


# Targets


def judged(number, results):
    """Return the judgement on a target as {(server, base, connections): row}."""
    rows = targets.judge(results, {number})
    return {(each["server"], each["base"], each["connections"]): each for each in rows}


@pytest.mark.parametrize(
    ("ours", "met"),
    [(200, True), (199, False), (row(300, errors={"status": 1}), False)],
)
def test_a_target_is_met_by_its_ratio_without_errors(ours, met):
    """At least as good as uWSGI, and every request answered."""
    measured = result("sidecar hello", [{"scgi:aserve": ours, "scgi:uwsgi": 200}] * 3)
    verdict = judged(4, {"sidecar hello": measured})["scgi:aserve", "scgi:uwsgi", 10]
    assert verdict["met"] is met
    assert verdict["at_least"] == 1.0
    assert bool(verdict["notes"]) is (not isinstance(ours, int))


def test_a_file_of_results_names_no_folder():
    """The name of another server is kept, but not the folder."""
    other = servers.parse_server("old=/some/where/bin/aserve --bind 127.0.0.1:{port} --log /tmp/log apps:{app}")
    plan = figures.Plan(pair(), [other, *servers.choose(pair(), ["aserve"])])
    kept = bench_mixed.without_folders(figures.Result(plan, [], {})).plan.servers
    assert [server.command for server in kept] == [
        "aserve --bind 127.0.0.1:{port} --log log apps:{app}", servers.ASERVE,
    ]  # fmt: skip


# Reports and files

WRK = """\
Running 2s test @ http://127.0.0.1:8000/
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   180.00us  120.00us   9.00ms   99.00%
    Req/Sec    50.00k     1.00k   52.00k    70.00%
  Latency Distribution
     50%  170.00us
     75%  200.00us
     90%    0.30ms
     99%    1.20ms
  2000 requests in 2.00s, 15.00MB read
{errors}Requests/sec:   1000.00
Transfer/sec:      7.50MB
"""


def test_figures_of_wrk_are_read_from_its_report():
    """Figures are in milliseconds and requests; without errors there are none."""
    assert reports.parse_wrk(WRK.format(errors="")) == {
        "n": 2000, "rps": 1000.0, "p50_ms": pytest.approx(0.17), "p99_ms": pytest.approx(1.2), "errors": {},
    }  # fmt: skip


def test_answers_with_another_status_are_not_counted_as_served():
    """wrk counts such answers among the requests; here each is an error only."""
    text = "  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 500\n"
    figures_of = reports.parse_wrk(WRK.format(errors=text))
    assert (figures_of["n"], figures_of["rps"]) == (1500, 750.0)
    assert figures_of["errors"] == {"read": 3, "timeout": 1, "status": 500}


def test_figures_of_h2load_are_read_from_its_report():
    """Answers with status 2xx count; whatever failed, erred or came too late is an error."""
    text = (
        "finished in 500.00ms, 2000.00 req/s, 1.00MB/s\n"
        "requests: 1010 total, 1010 started, 1000 done, 1000 succeeded, 7 failed, 3 errored, 0 timeout\n"
        "status codes: 1000 2xx, 0 3xx, 0 4xx, 0 5xx\n"
    )
    figures_of = reports.parse_h2load(text)
    assert (figures_of["n"], figures_of["rps"]) == (1000, 2000.0)
    assert figures_of["errors"] == {"failed": 7, "errored": 3}


@pytest.mark.parametrize("parse", [reports.parse_wrk, reports.parse_close_load, reports.parse_h2load])
def test_what_is_no_report_is_an_error(parse):
    """A client without a run is not a server without requests."""
    with pytest.raises(procs.BenchmarkError, match="unable to connect"):
        parse("unable to connect to 127.0.0.1:8000 Connection refused\n")


def test_the_tables_are_those_of_the_files():
    """results/README.md and targets.md are as made by `make bench-tables` of the present files."""
    assert pages.PAGE.read_text() == pages.results_page()
    assert pages.TARGETS.read_text() == pages.targets_page()
    for path in pages.RESULTS.glob("*.json"):
        text = path.read_text()
        assert text == record.format_json(json.loads(text)) + "\n", path


def test_results_that_are_kept_can_be_read():
    """Each file in results/ is of the form written by this code, and of a run long enough."""
    for path in (BENCHMARKS / "results").glob("*.json"):
        kept = json.loads(path.read_text())
        assert kept["format"] == record.FORMAT, path
        assert path.name.startswith(kept["bench"] + "-"), path
        if kept["bench"] == "million":
            assert kept["requests"] >= 1_000_000 and kept["faults"] == [], path
        elif kept["bench"].startswith("soak"):
            assert kept["seconds"] >= 120 and kept["faults"] == [], path
        elif kept["bench"] == "storm":
            assert kept["seconds"] >= 60 and all(each["requests"].get("answered") for each in kept["storms"]), path
        elif kept["bench"] == "preload":
            assert all(kept["rounds"].values()), path
        elif kept["bench"] == "cluster":
            assert {each["scenario"] for each in kept["cluster"]} == set(tables.SCENARIOS), path
        elif kept["bench"] == "reload":
            assert all(each.get("good") or each["note"] == "not available" for each in kept["events"]), path
        elif kept["bench"] in ("parse", "probes", "profile", "shares"):
            assert kept[kept["bench"]], path
        elif kept["bench"] == "http2":
            assert {each["server"] for each in kept["probes"]} == {"aserve", "gunicorn", "granian", "hypercorn"}, path
        else:  # some of the report say to be of one round
            assert all(each["seconds"] >= 0.8 for each in kept["sets"].values()), path


# The report, and the summary in the README


def one_set(rates, **changes):
    """Return a set as in a file: rates are {server: {connections: figure of each round}}."""
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
    return {"bench": bench, "date": "2026-11-22", "commit": "abc", "machine": MACHINE, "targets": [], **changes}


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


def test_the_report_is_that_of_the_files():
    """report/ is as made by `make bench-pictures` of results/, but for the drawing itself."""
    files = pages.read()
    wanted = make_report.page(files, lambda chart: FRAME)
    committed = (make_report.REPORT / "report.html").read_text()
    assert re.sub(r"<svg.*?</svg>", FRAME, committed, flags=re.DOTALL) == wanted
    assert (make_report.REPORT / "README.md").read_text() == make_report.gallery(files)
    pictures = {path.stem for path in make_report.REPORT.glob("*.svg")}
    assert pictures == {chart.slug for chart in charts.charts(files)}


def test_every_chart_has_its_picture_on_the_page():
    """The same drawing: with a background in the file, without one on the page."""
    committed = (make_report.REPORT / "report.html").read_text()
    for path in make_report.REPORT.glob("*.svg"):
        text = path.read_text().rstrip("\n")
        bare = re.sub(r"</style><style>\.aserve-page.*?<rect[^>]*/>", "</style>", text, count=1, flags=re.DOTALL)
        assert bare in committed, path.name
        assert "prefers-color-scheme:dark" in text


def test_the_summary_in_the_readme_is_that_of_the_files():
    """No figure of the table, or of the sentences below, differs from the results; each well-known server has all figures."""
    text = README.read_text()
    assert pages.with_summary(text) == text
    medians = json.loads((pages.RESULTS / f"{pages.STEM}.json").read_text())["sets"][pages.SET_NAME]["medians"]
    assert {known.name for known in pages.KNOWN} == {*medians}
    lines = pages.summary().splitlines()
    for known in pages.KNOWN:
        [line] = [line for line in lines if line.startswith(f"| {known.title} |")]
        assert f"| {medians[known.name][pages.COUNT]['rps']:,.0f} |" in line and " - " not in line


def test_the_summary_says_where_others_are_ahead():
    """A set with no peer ahead any more is not named."""
    text = " ".join(pages.summary().partition("**Where others are ahead**")[2].split())
    kept = pages.read()["serve-cpython"]
    [lead] = [lead for lead in leads.leads("serve-cpython", kept) if lead.set_name == "blob"]
    assert (f"bodies of 5.2 MB (uWSGI, {lead.ratio:.2f} times as many)" in text) == (lead.ratio > 1)


def test_a_wrong_figure_in_the_readme_is_found():
    """A figure changed by hand, or grown old, differs from the files."""
    text = README.read_text()
    figure = re.search(r"\| \*\*aserve\*\* \| \d+ \| ([\d,]+)", text)[1]
    assert pages.with_summary(text.replace(figure, "999,999")) == text


def test_memory_in_the_readme_is_that_of_the_files():
    """The memory of the hello app, and the growth in a million requests."""
    hello = json.loads((pages.RESULTS / "serve-cpython.json").read_text())["sets"]["bare head"]["medians"]["aserve"][
        "100"
    ]
    run = json.loads((pages.RESULTS / "million-cpython.json").read_text())
    million = run["rss_mib"]
    text = README.read_text()
    assert f"aserve takes {hello['pss_mb']:.0f} MiB on CPython" in text
    assert f"{million['end'] - million['warm']:.2f} MiB" in text and f"#million-cpython) ({run['date']})" in text
