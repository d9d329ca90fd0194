"""The short run of all targets, the suites and the probes: what they measure, in which time. Nothing is measured here."""

from __future__ import annotations

import pathlib

import pytest
from harness.benchmarks import modules

pytestmark = pytest.mark.checkout

bench_probes, bench_quick, clients, reports, servers, targets = modules(
    "bench_probes", "bench_quick", "clients", "reports", "servers", "targets"
)
PROBE_SECONDS = {"start": 2, "idle": 12, "slow": 5, "spread": 25}  # Guess: a run on two quiet CPUs
AB_REPORT = """\
Complete requests:      3000
Failed requests:        7
   (Connect: 0, Receive: 1, Length: 4, Exceptions: 2)
Non-2xx responses:      3
Requests per second:    1000.00 [#/sec] (mean)
"""
STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.12    0.004000           3      1200           sendto
 39.88    0.002000          13       150        12 epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.006000           4      1350        12 total
"""


@pytest.fixture
def environments(monkeypatch):
    """Let every environment be found, with everything installed."""

    def find_pair(interpreter, *_, **__):
        name = "PyPy" if interpreter == "pypy" else "CPython"
        facts = {"implementation": name, "version": "3.11.2", "build": "one", "is_optimised": True,
                 "packages": dict.fromkeys(servers.PACKAGES, "1.0")}  # fmt: skip
        return servers.Pair(pathlib.Path("python"), pathlib.Path("python"), facts, facts)

    monkeypatch.setattr(servers, "find_pair", find_pair)
    return find_pair


def quick_plans(interpreter):
    """Return what the short run measures."""
    return bench_quick.plans(interpreter, None, None)


def test_the_short_run_takes_less_than_four_minutes(environments):
    """All of it, on both interpreters, the probes included."""
    seconds = sum(plan.estimate_seconds for each in bench_quick.SETS for plan in quick_plans(each).values())
    seconds += sum(PROBE_SECONDS[probe] for probes in bench_quick.PROBES.values() for probe in probes)
    assert 120 < seconds < 240


def test_the_short_run_has_every_target(environments):
    """Each number is judged there, or stands among those that are not, with the place where it is."""
    judged = {
        number
        for number, probe, *_ in bench_probes.BOUNDS
        if any(probe in each for each in bench_quick.PROBES.values())
    }
    for interpreter in bench_quick.SETS:
        for name, plan in quick_plans(interpreter).items():
            judged |= {
                target.number
                for target in targets.TARGETS
                if target.set_name == name
                and {target.server, target.base or target.server} <= set(plan.names)
                and target.connections in plan.connections
            }
    elsewhere = {int(number) for number in bench_quick.ELSEWHERE if number.isdigit()}
    assert judged | elsewhere == set(range(1, 18))
    assert not judged & elsewhere
    assert judged == bench_quick.NUMBERS


@pytest.mark.parametrize(
    ("figure", "least", "most", "met"),
    [
        (1.0, 1.0, None, True),
        (0.9, 1.0, None, False),
        (8.0, None, 8.0, True),
        (8.1, None, 8.0, False),
        (None, 1.0, None, False),
    ],
)
def test_a_figure_is_judged_by_its_bounds(figure, least, most, met):
    """At least, or at most; what was not measured is not met."""
    row = targets.row(12, "idle", "aserve", "", figure, least, most, column="more_mb")
    assert row["met"] is met
    assert ("met" if met else "NOT MET") in targets.format_judgement([row]).splitlines()[1]
    assert "MB more" in targets.format_judgement([row])


def test_probes_are_judged_on_the_interpreter_that_the_bound_is_for():
    """A bound for CPython alone is no target of PyPy."""
    rows = [
        {"probe": "start", "server": name, "seconds": 0.5, "pss_mb": 60.0, "note": ""} for name in ("aserve", "bjoern")
    ]
    on_cpython, on_pypy = (bench_probes.judge(rows, name) for name in ("cpython", "pypy"))
    assert [(row["base"], row["met"]) for row in on_cpython] == [("seconds", False), ("pss_mb", False)]
    assert [(row["base"], row["met"]) for row in on_pypy] == [("seconds", True)]


@pytest.mark.parametrize("name", [name for names in bench_probes.SERVERS.values() for name in names])
def test_probed_servers_are_known(name):
    """Each is in the table of servers."""
    assert name in {server.name for server in servers.SERVERS["serve"]}


def test_a_suffix_is_the_same_server_with_more():
    """+log and +bad name a server with its access log, and with bad clients beside the good ones."""
    facts = {"implementation": "CPython", "version": "3.11.2", "build": "", "is_optimised": True, "packages": {}}
    pair = servers.Pair(pathlib.Path("python"), pathlib.Path("python"), facts, facts)
    chosen = servers.choose(pair, ["aserve", "aserve+log", "aserve+bad"])
    assert [server.name for server in chosen] == ["aserve", "aserve+log", "aserve+bad"]
    values = dict.fromkeys(("aserve", "peer", "bin", "port", "app", "log"), "x")
    assert ["--access-log" in servers.build_command(server, values) for server in chosen] == [False, True, False]


def test_the_report_of_ab_is_read():
    """Good answers are those that are neither failed nor of another status; times come from its file."""
    row = reports.parse_ab(AB_REPORT, "Percentage served,Time in ms\n0,0.1\n50,1.234\n99,9.5\n")
    assert (row["n"], row["p50_ms"], row["p99_ms"]) == (2993, 1.234, 9.5)
    assert row["errors"] == {"read": 1, "wrong": 4, "other": 2, "status": 3}
    assert row["rps"] == pytest.approx(997.67, 0.001)
    with pytest.raises(reports.BenchmarkError):
        reports.parse_ab("apr_socket_recv: Connection refused (111)", "")


def test_the_table_of_strace_is_read():
    """Calls by name, errors or not, without their sum."""
    assert reports.parse_strace(STRACE) == {"sendto": 1200, "epoll_wait": 150}
    assert reports.parse_strace("") == {}


def test_what_the_fault_injecting_client_says_is_read():
    """What it found is an error by its kind."""
    seen = '{"right": 5, "rps": 2.5, "p50_ms": 1.0, "p99_ms": 2.0, "lost": 1, "wrong": 0, "crossed": 0, "doubled": 2}'
    row = reports.parse_chaos(f"a warning\n{seen}\n")
    assert row["n"] == 5
    assert row["errors"] == {"lost": 1, "doubled": 2}
    with pytest.raises(reports.BenchmarkError):
        reports.parse_chaos("Traceback")


def test_the_mixed_stream_has_fifty_browsers():
    """Each has cookies of its own, and a head that can be sent."""
    script = clients.many_heads()
    heads = [line for line in script.splitlines() if line.startswith('"Host:')]
    assert len(set(heads)) == clients.MANY_HEADS == 50
    assert len({head.partition("Cookie: ")[2] for head in heads}) == 50
    assert all(r"\r\n\r\n" in head and r"\\" not in head for head in heads)
