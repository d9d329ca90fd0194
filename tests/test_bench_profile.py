"""What is made of a profile of one request, and of memory over many. Nothing is measured here."""

from __future__ import annotations

import pytest
from harness.benchmarks import modules
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

bench_probes, bench_profile, charts, make_report, servers, tables = modules(
    "bench_probes", "bench_profile", "charts", "make_report", "servers", "tables"
)
MACHINE = {"cores": 2, "is_virtual": True, "cpu": "one", "kernel": "6", "system": "Debian"}
OURS = f"{servers.ROOT}/aserve/wsgi/gateway.py"


def calls(**changes):
    """Return what pstats reads: 1,000 requests; place: calls, own seconds, all seconds."""
    return {
        ("/some/benchmarks/apps.py", 45, "hello"): (1000, 1000, 0.01, 0.01, {}),
        (OURS, 7, "respond"): (1000, 1000, 0.05, 0.1, {}),
        ("~", 0, "<built-in method aserve._cparsers.lane_poll>"): (100, 100, 0.04, 0.04, {}),
        ("/home/me/.venv/lib/python3/site-packages/uvloop/loop.py", 9, "run"): (1, 1, 9.0, 9.0, {}),
        ("/usr/lib/python3.11/re.py", 3, "compile"): (10, 10, 0.5, 0.5, {}),
        **changes,
    }


def test_a_profile_is_that_of_a_request():
    """By the number of the app's calls; what requests do not call is no part of it: the start, and the loop, which waits."""
    found = bench_profile.summary(calls())
    assert (found["requests"], found["us"]) == (1000, 100.0)
    assert found["profile"] == [
        {"function": "aserve/wsgi/gateway.py: respond", "calls": 1.0, "us": 50.0, "share": 0.5},
        {"function": "built-in method aserve._cparsers.lane_poll", "calls": 0.1, "us": 40.0, "share": 0.4},
        {"function": "apps.py: hello", "calls": 1.0, "us": 10.0, "share": 0.1},
    ]


def test_without_a_request_there_is_no_profile():
    """The app was not called: that is no figure."""
    with pytest.raises(bench_profile.BenchmarkError, match="no request"):
        bench_profile.summary({("~", 0, "<x>"): (1, 1, 1.0, 1.0, {})})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (OURS, "aserve/wsgi/gateway.py: f"),
        ("/home/me/aserve/.venv/lib/python3.11/site-packages/aserve/lane.py", "aserve/lane.py: f"),
        ("/home/me/aserve/lib/python3.11/re/__init__.py", "__init__.py: f"),
    ],
)
def test_a_function_is_named_without_folders_of_the_machine(path, name):
    """Where the code is installed is nobody's business."""
    assert bench_profile.name_of((path, 1, "f")) == name


def test_the_profile_is_a_picture_and_a_table():
    """In the suite of the source that it repeats; the largest share first."""
    kept = {"bench": "profile", "date": "2026-11-23", "commit": "abc", "machine": MACHINE, "targets": [],
            "aserve_python": {"implementation": "CPython", "version": "3.11.2"}, **bench_profile.summary(calls())}  # fmt: skip
    [chart] = charts.charts({"profile-cpython": kept})
    assert (chart.suite, chart.labels[0], chart.series) == (
        "C",
        "aserve/wsgi/gateway.py: respond",
        {"share": [50, 40, 10]},
    )
    assert "respond 50.0%" in chart.sentence and "header translation" in chart.sentence
    page = make_report.page({"profile-cpython": kept}, lambda chart: "<svg></svg>")
    assert "<code>aserve/wsgi/gateway.py: respond</code></td><td class=number>1.00</td>" in page
    assert "1,000 requests, 100.0 us each" in tables.profile_table(kept)


@pytest.mark.parametrize(
    ("points", "slope"),
    [([(0, 1.0), (100, 1.5), (200, 2.0)], 0.005), ([(0, 3.0), (100, 3.0)], 0.0), ([(0, 2.0), (50, 1.0)], -0.02), ([(5, 5.0)], 0.0)],
)  # fmt: skip
def test_memory_that_grows_has_a_slope(points, slope):
    """By least squares: one point that is off is not all."""
    assert bench_probes.slope(points) == pytest.approx(slope)


def test_growth_is_told_in_octets_a_request():
    """A table, and a picture of the figure that counts."""
    rows = [{"probe": "leak", "server": "aserve", "requests": 200_000, "pss_mb": 30.0, "growth": 0.25, "note": ""}]
    kept = {"bench": "probes", "targets": [], "probes": rows}
    assert "| aserve | 200,000 | 30.0 | 0.25 |  |" in "".join(tables.probes_tables(kept))
    assert [chart.slug for chart in charts.charts({"probes-cpython": kept})] == [
        "probes-cpython-leak-pss-mb", "probes-cpython-leak-growth",
    ]  # fmt: skip
