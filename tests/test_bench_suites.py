"""The short run of all targets, the suites and the probes: what they measure, in which time. Nothing is measured here."""

from __future__ import annotations

import argparse
import os
import pathlib

import pytest
from harness.benchmarks import modules
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

bench_probes, bench_quick, bench_report, bench_suites, charts, clients, command, procs, reports, servers, suites, targets = modules(
    "bench_probes", "bench_quick", "bench_report", "bench_suites", "charts", "clients", "command", "procs", "reports", "servers",
    "suites", "targets",
)  # fmt: skip
PROBE_SECONDS = {"start": 2, "idle": 12, "slow": 5, "spread": 25}  # Guess: a run on two quiet CPUs
AB_REPORT = """\
Complete requests:      3000
Failed requests:        7
   (Connect: 0, Receive: 1, Length: 4, Exceptions: 2)
Non-2xx responses:      3
Requests per second:    1000.00 [#/sec] (mean)
Transfer rate:          166.02 [Kbytes/sec] received
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
    assert judged | elsewhere == set(range(1, 20))
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
    """At least, or at most; what was not measured is neither met nor missed."""
    row = targets.row(12, "idle", "aserve", "", figure, least, most, column="more_mb")
    assert row["met"] is met
    verdict = "met" if met else "NOT MET" if figure is not None else "not measured"
    assert targets.format_judgement([row]).splitlines()[1].endswith(f"  {verdict}")
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
    assert row["kb_per_s"] == 166.02
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


# The suites of the report

SUITE_SETS = [
    pytest.param(name, interpreter, id=f"{name}, {interpreter}")
    for interpreter in ("cpython", "pypy")
    for name in suites.sets_of("abcdef", interpreter)
]


@pytest.mark.parametrize(("name", "interpreter"), SUITE_SETS)
def test_a_suite_has_its_servers(environments, name, interpreter):
    """Each set has us, a peer or the bare app, and the row that it repeats; no name in it is unknown."""
    wanted = suites.SETS[name]
    plan = targets.build_plan(name, environments(interpreter), {"rounds": 3, "seconds": 1.0}, wanted)
    assert any(server.is_ours for server in plan.servers)
    assert plan.with_bare or not all(server.is_ours for server in plan.servers)
    assert plan.source
    assert bench_suites.base_for(wanted.base, plan).lstrip(":") in {each.rpartition(":")[2] for each in plan.names}
    known = {server.name for server in servers.SERVERS[wanted.servers_table]}
    assert {each.partition("+")[0] for each in wanted.names} <= known


def test_a_server_of_one_interpreter_is_left_out_on_the_other(environments):
    """uWSGI's PyPy plugin has no place among CPython's servers, and bjoern none on PyPy."""
    names = {
        interpreter: {server.name for server in servers.table_for("serve", environments(interpreter))}
        for interpreter in ("cpython", "pypy")
    }
    assert "uwsgi-pypy" in names["pypy"] - names["cpython"]
    assert "bjoern" in names["cpython"] - names["pypy"]


def test_the_report_takes_less_than_an_hour(environments):
    """By the estimate of each step; those of the suites are what their plans say, and half as much again at most."""
    assert sum(step.minutes for step in bench_report.STEPS) < bench_report.LIMIT_MINUTES == 60
    for step in bench_report.STEPS:
        if step.words[0] == "bench_suites.py" and step.interpreter != servers.NEXT_PYPY:
            chosen = suites.sets_of(step.words[2], step.interpreter)
            pair = environments(step.interpreter)
            timing = {"rounds": 3, "seconds": bench_suites.SECONDS}
            seconds = sum(
                targets.build_plan(name, pair, timing, each).estimate_seconds for name, each in chosen.items()
            )
            assert seconds / 60 <= step.minutes * 1.05, step.title


def test_every_suite_has_a_step():
    """Each letter of the report is measured, each of the suites' files by one step on each interpreter that it has."""
    assert {step.suite for step in bench_report.STEPS} == set(charts.SUITES)
    for letter in bench_suites.LETTERS:
        for interpreter in ("cpython", "pypy"):
            steps = [
                step for step in bench_report.STEPS if step.words[-1] == letter and step.interpreter == interpreter
            ]
            assert len(steps) == bool(suites.sets_of(letter, interpreter))


# PyPy 3.11, where it is


@pytest.fixture
def root(monkeypatch, tmp_path):
    """Return a folder in place of the repository, in which every environment that is made has aserve."""
    monkeypatch.setattr(servers, "ROOT", tmp_path)
    facts = {"implementation": "PyPy", "version": "3.11.13", "packages": {servers.OURS: "1"}}
    monkeypatch.setattr(servers, "_probe", lambda python: facts)

    def make(*names):
        for name in names:
            (tmp_path / name / "bin").mkdir(parents=True)
            (tmp_path / name / "bin" / "python").touch()

    make(".venv", ".venv-pypy", ".venv-peers", ".venv-peers-pypy")
    return make


def test_the_next_pypy_is_left_out_where_it_is_not(root, capsys):
    """Without it nothing fails, and that it is missing is told; other interpreters are not asked for it."""
    letters, names = list(charts.SUITES), list(servers.INTERPRETERS)
    chosen = bench_report.choose(letters, names)
    assert {step.interpreter for step in chosen} == {"cpython", "pypy"}
    assert "no pypy3.11 here" in capsys.readouterr().err
    assert bench_report.choose(letters, ["cpython"]) and not capsys.readouterr().err
    root(".venv-pypy3.11")
    assert bench_report.choose(letters, names) == bench_report.STEPS
    assert {step.suite for step in bench_report.STEPS if step.interpreter == servers.NEXT_PYPY} == {"A"}


@pytest.mark.parametrize(
    ("interpreter", "has_pypy_peers", "ours", "peers"),
    [
        ("cpython", True, ".venv", ".venv-peers"),
        ("pypy", True, ".venv-pypy", ".venv-peers-pypy"),
        ("pypy", False, ".venv-pypy", ".venv-peers"),
        ("pypy3.11", True, ".venv-pypy3.11", ".venv-peers"),
    ],
)
def test_each_interpreter_has_its_environments(root, interpreter, has_pypy_peers, ours, peers):
    """PyPy 3.11 has peers of CPython: those that can be had nowhere else are compared on PyPy 3.9."""
    root(".venv-pypy3.11")
    found = servers.find_pair(interpreter, None, None, has_pypy_peers)
    assert (found.aserve.parts[-3], found.peer.parts[-3]) == (ours, peers)


def test_the_next_pypy_has_files_of_its_own(root, tmp_path, monkeypatch):
    """It measures what PyPy does, and takes the place of no file of another's."""
    root(".venv-pypy3.11")
    monkeypatch.setattr(command.record, "default_path", lambda bench, name: tmp_path / f"{bench}-{name}.json")
    for name in servers.INTERPRETERS:
        args = argparse.Namespace(save=True, json=None, interpreter=name)
        command.write_document("suite-a", args, servers.find_pair("pypy", None, None), {})
    assert {path.name for path in tmp_path.glob("*.json")} == {f"suite-a-{name}.json" for name in servers.INTERPRETERS}
    assert suites.sets_of("a", servers.kind_of("pypy3.11")) == suites.sets_of("a", "pypy")
    assert [charts._interpreter(f"suite-a-{name}") for name in servers.INTERPRETERS] == ["CPython", "PyPy", "PyPy 3.11"]


def test_a_short_run_keeps_nothing(monkeypatch, tmp_path):
    """--quick saves nothing among the results, and its own timing holds."""
    started = []
    monkeypatch.setattr(bench_report.subprocess, "Popen", lambda words, **_: started.append(words) or Ended())
    step = bench_report.Step("F", 1.0, ("bench_serve.py", "--targets", *bench_report.SHORT))
    assert bench_report.run(step, tmp_path / "kept.json") == 0
    assert bench_report.run(step, None) == 0
    assert (
        "--quick" in started[0]
        and "--save" not in started[0]
        and "--rounds" not in started[0]
        and "0.8" not in started[0]
    )
    assert "--save" in started[1] and "--rounds" in started[1]


class Ended:
    """A process that has ended well."""

    def wait(self, seconds=None):
        """Return its exit status."""
        return 0

    def poll(self):
        """Return its exit status."""
        return 0


def test_the_reason_why_a_peer_is_not_installed_is_told(tmp_path):
    """What pip said when the peers were installed stands in the report."""
    facts = {"implementation": "CPython", "version": "3.11.2", "build": "", "is_optimised": True, "packages": {}}
    pair = servers.Pair(pathlib.Path("python"), tmp_path / "bin" / "python", facts, facts)
    assert servers.why_not_installed(pair, "bjoern") == ""
    (tmp_path / ".left-out").write_text("uwsgi\tERROR: no PCRE\nbjoern\tERROR: no libev\n")
    assert servers.why_not_installed(pair, "bjoern") == ": ERROR: no libev"
    assert servers.why_not_installed(pair, "granian") == ""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not tell")
def test_cpu_time_is_finer_than_a_tick():
    """What a process has used in a moment is no whole number of ticks."""
    before = procs.cpu_seconds(os.getpid())
    while procs.cpu_seconds(os.getpid()) <= before:
        sum(range(1000))
    assert (procs.cpu_seconds(os.getpid()) - before) % (1 / procs.TICKS_PER_SECOND)
