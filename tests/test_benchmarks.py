"""What the benchmarks make of figures: medians, ratios, targets, files. Nothing is measured here.

That their servers and clients work is checked by `bench_serve.py --self-test` and by `--quick`.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import threading

import pytest
from harness.benchmarks import BENCHMARKS, modules
from harness.interpreter import ONCE
from harness.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.checkout, ONCE, pytest.mark.long_on_pypy]

ROOT = BENCHMARKS.parent

bench_mixed, bench_neighbours, clients, command, figures, mix, pages, procs, record, reports, servers, tables, targets = modules(
    "bench_mixed", "bench_neighbours", "clients", "command", "figures", "mix", "pages", "procs", "record", "reports", "servers", "tables",
    "targets",
)  # fmt: skip


def facts(implementation="CPython", build="Debian's", is_optimised=True):
    """Return what an environment says of itself, with everything installed."""
    packages = dict.fromkeys(servers.PACKAGES, "1.0")
    return {"implementation": implementation, "version": "3.11", "build": build, "is_optimised": is_optimised,
            "packages": packages}  # fmt: skip


def pair(aserve=None, peer=None):
    """Return a pair of environments."""
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
    """A machine that slows down between rounds moves no ratio: 0.5, 0.5, 0.8, and not 100 / 200 of medians."""
    measured = result(
        "close", [{"aserve": 100, "bjoern": 200}, {"aserve": 10, "bjoern": 20}, {"aserve": 160, "bjoern": 200}]
    )
    assert measured.ratio("aserve", "bjoern", 10) == 0.5
    assert measured.ratio("bjoern", "aserve", 10) == 2.0
    assert measured.median("aserve", 10, "per_cpu_s") == 100
    assert measured.median("aserve", 10, "rps") == 50


def test_a_round_without_one_of_both_gives_no_ratio():
    """Rounds in which only one was measured do not count; without any there is no ratio."""
    measured = result("close", [{"aserve": 100, "bjoern": 200}, {"aserve": 900}, {"bjoern": 1}])
    assert measured.ratio("aserve", "bjoern", 10) == 0.5
    assert measured.ratio("aserve", "uwsgi-http", 10) is None
    assert measured.ratio("aserve", "bjoern", 100) is None
    assert measured.median("uwsgi-http", 10, "rps") is None


def test_a_round_in_which_the_base_answered_nothing_gives_no_ratio():
    """A peer that gave no answers at so many connections is left out of that ratio, and has no infinite one."""
    measured = result("close", [{"aserve": 100, "bjoern": 0}, {"aserve": 100, "bjoern": 200}])
    assert measured.ratio("aserve", "bjoern", 10) == 0.5
    assert measured.ratio("bjoern", "aserve", 10) == 1.0


def test_errors_of_all_rounds_are_added():
    """An error in any round is told, by its kind."""
    bad = [row(1, errors={"status": 2}), row(1), row(1, errors={"status": 3, "read": 1})]
    measured = result("close", [{"aserve": each} for each in bad])
    assert measured.errors("aserve", 10) == {"status": 5, "read": 1}
    assert measured.errors("bjoern", 10) == {}


@pytest.mark.parametrize(
    ("aserve", "peer", "is_fair"),
    [
        (facts(), facts(), True),
        (facts(build="pyenv's", is_optimised=False), facts(), False),
        (facts("PyPy", "PyPy's"), facts("PyPy", "PyPy's"), True),
        (facts("PyPy", "PyPy's"), facts(), True),  # uWSGI has no PyPy
        (facts("PyPy", "PyPy's"), facts(is_optimised=False), False),
    ],
)
def test_unequal_interpreters_are_told(aserve, peer, is_fair):
    """Who is on the slower build by mistake proves nothing."""
    measured = result("sidecar hello", [], environments=pair(aserve, peer))
    assert measured.plan.pair.is_fair is is_fair
    assert any("different builds" in line for line in measured.warnings()) is not is_fair


def test_a_busy_machine_is_told():
    """Others on the server's CPU are a warning when they take more than a twentieth of it."""
    assert result("close", [{"aserve": row(1, others=0.04)}]).warnings() == []
    assert "20%" in result("close", [{"aserve": row(1, others=0.2)}]).warnings()[0]


def test_the_table_has_ratios_on_the_same_protocol():
    """Behind nginx each server is compared with uWSGI on its own protocol."""
    measured = result(
        "sidecar echo",
        [{"uwsgi:aserve": 100, "uwsgi:uwsgi": 200, "scgi:aserve": 300, "scgi:uwsgi": row(100, errors={"status": 7})}],
        left_out=dict.fromkeys(("uwsgi:aserve-lane-off", "uwsgi:aserve-threads-0"), "it burns"),
    )
    cells = {line.split()[0]: line.split() for line in figures.format_table(measured, ":uwsgi").splitlines()}
    assert cells["uwsgi:aserve"][3] == "0.50"
    assert cells["scgi:aserve"][3] == "3.00"
    assert cells["scgi:uwsgi"][-2:] == ["status", "7"]
    assert "left out: uwsgi:aserve-lane-off: it burns" in figures.format_table(measured, ":uwsgi")
    assert "no ratios: uwsgi:nix was not measured" in figures.format_table(measured, ":nix")


def test_warm_up_is_longer_on_pypy():
    """A server on PyPy is loaded longer before it is measured, its peers on CPython are not."""
    plan = result("sidecar hello", [], environments=pair(facts("PyPy", "PyPy's"))).plan
    ours, theirs = plan.servers[0], plan.servers[3]
    assert (ours.is_ours, theirs.is_ours) == (True, False)
    assert plan.warm_up(plan.pair.is_pypy_for(ours), True) > plan.warm_up(plan.pair.is_pypy_for(theirs), True)
    assert plan._replace(warm_up_seconds=0.1).warm_up(True, True) == 0.1


@pytest.mark.parametrize("bench", ["serve", "sidecar", "rpc"])
@pytest.mark.parametrize("interpreter", ["cpython", "pypy"])
def test_a_run_is_a_quarter_of_an_hour_at_most(bench, interpreter):
    """Nobody runs what takes an hour."""
    environments = pair(facts("PyPy", "PyPy's"), facts()) if interpreter == "pypy" else pair()
    names = targets.sets_for(bench, interpreter, targets.numbers_of(bench))
    plans = [targets.build_plan(name, environments, {"rounds": command.ROUNDS}) for name in names]
    assert 60 < sum(plan.estimate_seconds for plan in plans) < 15 * 60


def test_a_run_on_shared_cpus_is_a_quarter_of_an_hour_at_most():
    """On CPython, which alone has such sets."""
    names = targets.sets_for("neighbours", "cpython", targets.numbers_of("neighbours"))
    assert len(names) == 5 and targets.sets_for("neighbours", "pypy", [18]) == []
    plans = [targets.build_plan(name, pair(), {"rounds": command.ROUNDS}) for name in names]
    assert 60 < sum(plan.estimate_seconds for plan in plans) < 15 * 60


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


def test_a_peers_errors_are_told_and_do_not_help_it():
    """What a peer failed to answer is a note beside the figure."""
    measured = result("close", [{"aserve": 2, "bjoern": row(1, errors={"reset": 3}), "uwsgi-http": 4}])
    rows = judged(3, {"close": measured})
    assert rows["aserve", "bjoern", 10]["met"] and "reset" in rows["aserve", "bjoern", 10]["notes"][0]
    assert not rows["aserve", "uwsgi-http", 10]["met"]
    assert rows["aserve", "uwsgi-http", 10]["figure"] == 0.5


def test_what_was_not_measured_says_why():
    """A server that is left out meets nothing, nothing is met beside it, and nothing is missed."""
    measured = result("close", [{"aserve": 2}], left_out={"bjoern": "bjoern is not installed"})
    verdict = judged(3, {"close": measured})["aserve", "bjoern", 10]
    assert verdict["figure"] is None and not verdict["met"]
    assert verdict["notes"] == ["bjoern: bjoern is not installed"]
    lines = targets.format_judgement([verdict, targets.row(3, "close", "aserve", "uwsgi", 0.5, 1.0)]).splitlines()
    assert lines[1].endswith("not measured: bjoern: bjoern is not installed") and lines[2].endswith("NOT MET")
    assert lines[3] == "0 of 1 met, 1 not measured"
    assert [pages.met(each) for each in (verdict, {"met": True}, {"met": False, "figure": 1.0})] == [
        "not measured",
        "yes",
        "**no**",
    ]


def test_unfair_interpreters_meet_nothing():
    """A peer on a slower build is not beaten."""
    unfair = pair(facts(), facts(build="pyenv's", is_optimised=False))
    measured = result("close", [{"aserve": 2, "bjoern": 1}], environments=unfair)
    assert not judged(3, {"close": measured})["aserve", "bjoern", 10]["met"]


def test_only_what_was_asked_is_judged():
    """Other sets, connections, servers and interpreters have no row."""
    measured = result("RPC rpc", [{"rpc:aserve-1": 2, "rpc:uwsgi-1": 1}], connections=(1, 100))
    measured = measured._replace(plan=measured.plan._replace(servers=measured.plan.servers[:2]))
    assert set(judged(9, {"RPC rpc": measured})) == {("rpc:aserve-1", "rpc:uwsgi-1", count) for count in (1, 100)}
    on_pypy = result("sidecar hello", [], environments=pair(facts("PyPy", "PyPy's")))
    assert targets.judge({"sidecar hello": on_pypy}, {4}) == []
    assert targets.format_judgement([]) == "no target is measured by this"


def test_eight_threads_are_compared_with_one():
    """RPC: within what equal servers differ by, more threads cost nothing."""
    measured = result("RPC route", [{"route:aserve-1": 100, "route:aserve-8": 98}])
    verdict = judged(9, {"RPC route": measured})["route:aserve-8", "route:aserve-1", 10]
    assert verdict["met"] and verdict["figure"] == 0.98


def test_the_judgement_is_a_table():
    """Each target is a line with its figure and verdict; the last line counts."""
    measured = result("close", [{"aserve": 3, "bjoern": 2, "uwsgi-http": 4}])
    lines = targets.format_judgement(targets.judge({"close": measured}, {3})).splitlines()
    assert lines[1].split()[-3:] == ["1.000", "1.500", "met"]
    assert lines[2].split()[-4:] == ["1.000", "0.750", "NOT", "MET"]
    assert lines[3] == "1 of 2 met"


@pytest.mark.parametrize("target", targets.TARGETS)
def test_every_target_is_measured(target):
    """A target's servers and connections are in the set that it names, on each of its interpreters."""
    for interpreter in target.interpreters:
        environments = pair(facts("PyPy", "PyPy's"), facts("PyPy", "PyPy's")) if interpreter == "pypy" else pair()
        assert target.set_name in targets.sets_for(targets.SETS[target.set_name].bench, interpreter, [target.number])
        plan = targets.build_plan(target.set_name, environments, {})
        assert {target.server, *(target.bases or [target.base or target.server])} <= set(plan.names)
        assert target.connections in plan.connections


# A CPU that is shared


def test_a_shared_cpu_is_judged_by_the_best_threaded_peer():
    """Requests a second and p99 are those of the peer that has answered most; an error takes a peer out."""
    rows = {
        "aserve": row(1, rps=90.0, p99_ms=3.0),
        "bjoern": row(1, rps=500.0),
        "granian": row(1, rps=100.0, p99_ms=2.0),
        "waitress": row(1, rps=20.0, p99_ms=9.0),
        "gunicorn": row(1, rps=200.0, errors={"timeout": 1}),
    }
    measured = result("neighbour hello", [rows], left_out={"uwsgi-t8": "it burns"})
    verdicts = targets.judge({"neighbour hello": measured}, {18})
    assert [(each["base"], each["column"], each["figure"], each["met"]) for each in verdicts] == [
        ("granian", "rps", 0.9, False), ("granian", "p99_ms", 1.5, False),
    ]  # fmt: skip
    assert "uwsgi-t8: it burns" in verdicts[0]["notes"]
    lines = targets.format_judgement(verdicts).splitlines()
    assert "aserve / granian, requests a second" in lines[1] and "aserve / granian, p99 in ms" in lines[2]
    assert "| granian, p99_ms | at most 1.00 | 1.50 |" in pages.targets_table(verdicts)
    nobody = targets.judge({"neighbour hello": measured._replace(rounds=[{"aserve": {10: rows["aserve"]}}])}, {18})
    assert [(each["base"], each["figure"]) for each in nobody] == [(targets.BEST, None)] * 2


def test_ratios_on_a_shared_cpu_are_of_requests_a_second():
    """What is scheduled late costs no CPU, so the usual figure would not show it; the table and the file say which it is."""
    each_round = [{"aserve": row(100, rps=10.0), "bjoern": row(100, rps=40.0)}]
    measured = result("neighbour hello", each_round)
    assert measured.ratio("aserve", "bjoern", 10) == 0.25
    assert result("close", each_round).ratio("aserve", "bjoern", 10) == 1.0
    text = figures.format_table(measured, "bjoern")
    assert "beside a busy neighbour on each CPU" in text and "x: ratio of rps to bjoern" in text
    assert record.describe(measured, "bjoern")["figure"] == "rps"
    assert "figure" in record.describe(result("close", each_round), "bjoern")


def test_the_titles_of_shared_cpus():
    """Who reads a result sees what was beside the server, and how many slow ones were answered."""
    two = result("two services", [{}]).plan
    assert two.copies == 2 and "2 services on one CPU" in two.title and two.figure == "rps"
    slow = result("slow and quick", [{"aserve-t8": row(1, slow_rps=31.25)}])
    assert "beside 2 clients of what computes for 20 ms" in slow.plan.title
    assert "31.2 slow ones a second" in figures.format_table(slow, "gunicorn")
    assert result("neighbour workers", [{}]).plan.server_cpus == 2


def test_the_loads_of_several_copies_are_one():
    """Requests and errors are added, of latencies the worse one counts; a slow load beside them counts for itself."""
    one = {"n": 10, "rps": 5.0, "p50_ms": 1.0, "p99_ms": 9.0, "errors": {"status": 1}}
    other = {"n": 4, "rps": 2.0, "p50_ms": 2.0, "p99_ms": 3.0, "errors": {"status": 2, "read": 1}}
    assert clients.add_rows([one, other]) == {
        "n": 14, "rps": 7.0, "p50_ms": 2.0, "p99_ms": 9.0, "errors": {"status": 3, "read": 1},
    }  # fmt: skip
    assert clients.add_rows([one]) == one


def test_clients_of_all_copies_run_at_once(monkeypatch):
    """Each copy has its client, and the slow requests theirs, at the same time."""
    meeting = threading.Barrier(3)

    def wrk(port, connections, seconds, cpu, words=(), path="/", scheme="http"):
        meeting.wait(PATIENCE_SECONDS)
        return {
            "n": port,
            "rps": float(port),
            "p50_ms": 1.0,
            "p99_ms": 1.0,
            "errors": {"read": 1} if path == "/slow" else {},
        }

    monkeypatch.setattr(clients, "wrk", wrk)
    plan = result("slow and quick", [{}]).plan
    row = clients.load_all(plan, [1, 2], 4, 1.0, "", {})
    assert (row["n"], row["rps"], row["slow_rps"], row["errors"]) == (3, 3.0, 1.0, {"read": 1})


def test_a_neighbour_ends_with_its_block():
    """While it is there it computes; then it is gone."""
    cpu = sorted(os.sched_getaffinity(0))[0] if hasattr(os, "sched_getaffinity") else 0
    with procs.computing(cpu) as pid:
        assert procs.wait_until(lambda: procs.cpu_seconds(pid) > 0.01, PATIENCE_SECONDS)
    assert not pathlib.Path(f"/proc/{pid}").exists()


def test_another_aserve_is_measured_beside_this_one(tmp_path):
    """--before: each server of ours a second time, which the file does not say the place of."""
    plan = bench_neighbours.with_before(result("neighbour hello", [{}]).plan, tmp_path / "bin" / "python")
    assert plan.names[:2] == ["aserve", "aserve-before"] and plan.names[2:].count("aserve-before") == 0
    kept = record.describe(figures.Result(plan, [], {}), "bjoern")["servers"]["aserve-before"]
    assert kept["command"].startswith("python -m aserve ") and str(tmp_path) not in json.dumps(kept)


def test_what_computes_beside_what_does_not():
    """One path of the app computes."""
    [apps] = modules("apps")
    assert call(apps.unlike, "/") == mix.HELLO and call(apps.unlike, apps.SLOW_PATH) == b"%d" % apps.fib(26)


# A mix of requests


def test_a_mix_is_mostly_plain():
    """Each kind comes once, behind as many plain requests as are asked for."""
    steps = mix.build_mix(mix.KINDS, 5)
    plain = steps[0]
    assert plain.request == b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" and plain.end == mix.HELLO
    assert [step == plain for step in steps] == [*([True] * 4 + [False]) * 4, False]  # the last kind has two steps
    assert sum(step.count for step in steps) == 4 * 4 + 3 + 2 + 1 - 1
    assert len({step.request for step in steps if step != plain}) == 5


@pytest.mark.parametrize(("kinds", "every"), [((), 20), (("pair",), 0)])
def test_a_mix_of_plain_requests_alone(kinds, every):
    """Without other kinds there is one step."""
    [step] = mix.build_mix(kinds, every, ["Accept: */*"])
    assert step.request.endswith(b"\r\nAccept: */*\r\n\r\n") and step.count == 1


def call(app, path, body=b"", **environ):
    """Return what the app answers."""
    environ.update({"PATH_INFO": path, "wsgi.input": io.BytesIO(body)})
    return b"".join(app(environ, lambda status, headers: None))


def test_the_app_answers_as_the_mix_expects():
    """What a step waits for is what the app ends with."""
    [apps] = modules("apps")
    body = b"x" * mix.POST_OCTETS
    ends = {step.end for step in mix.build_mix(mix.KINDS, 2)}
    answers = [call(apps.mixed, path) for path in ("/", "/second")]
    answers += [
        call(apps.mixed, "/post", body),
        call(apps.mixed, "/post", body + b"rest", CONTENT_LENGTH=str(len(body))),
    ]
    assert set(answers) <= ends and len(set(answers)) == 3
    assert call(apps.mixed, "/stream") == b"x" * 4000


def test_the_file_of_a_mix():
    """Lengths, and the octets behind them, as mixed_load.c reads them."""
    assert mix.pack([mix.Step(b"ab\n", b"c", b""), mix.Step(b"", b"d", b"e", 2)]) == b"2\n3 1 0 1\nab\nc0 1 1 2\nde"


def test_the_title_tells_the_mix():
    """Who reads a result sees what was sent."""
    plan = figures.Plan(pair(), [], way="mixed", kinds=("post", "pair"), every=20)
    assert "1 request in 20 another: post, pair," in plan.title
    assert "another" not in plan._replace(every=0).title


def test_a_file_of_results_names_no_folder():
    """What another server is called is kept, but not where it is installed."""
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


def test_wrks_report():
    """Figures are in milliseconds and requests; without errors there are none."""
    assert reports.parse_wrk(WRK.format(errors="")) == {
        "n": 2000, "rps": 1000.0, "p50_ms": pytest.approx(0.17), "p99_ms": pytest.approx(1.2), "errors": {},
    }  # fmt: skip


def test_answers_with_another_status_are_not_counted_as_served():
    """wrk counts them among the requests; here they are errors only."""
    text = "  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 500\n"
    figures_of = reports.parse_wrk(WRK.format(errors=text))
    assert (figures_of["n"], figures_of["rps"]) == (1500, 750.0)
    assert figures_of["errors"] == {"read": 3, "timeout": 1, "status": 500}


def test_close_loads_report():
    """Good answers and errors by kind."""
    text = "good 300 connect 0 reset 2 wrong 1 timeout 0 seconds 1.500000 p50_us 120 p99_us 2500\n"
    assert reports.parse_close_load(text) == {
        "n": 300, "rps": 200.0, "p50_ms": 0.12, "p99_ms": 2.5, "errors": {"reset": 2, "wrong": 1},
    }  # fmt: skip


@pytest.mark.parametrize("parse", [reports.parse_wrk, reports.parse_close_load])
def test_what_is_no_report_is_an_error(parse):
    """A client that did not run is not a server without requests."""
    with pytest.raises(procs.BenchmarkError, match="unable to connect"):
        parse("unable to connect to 127.0.0.1:8000 Connection refused\n")


def test_the_file_holds_figures_settings_and_verdicts(tmp_path):
    """A file of results has all that was measured, under names that stay."""
    measured = result("sidecar hello", [{"uwsgi:aserve": 1, "uwsgi:uwsgi": 2}, {"uwsgi:aserve": 4, "uwsgi:uwsgi": 4}])
    verdicts = targets.judge({"sidecar hello": measured}, {4, 5})
    path = tmp_path / "results" / "x.json"
    record.save(path, "sidecar", {"sidecar hello": (measured, ":uwsgi")}, verdicts)
    kept = json.loads(path.read_text())
    assert (kept["format"], kept["bench"], kept["targets"]) == (record.FORMAT, "sidecar", verdicts)
    of_set = kept["sets"]["sidecar hello"]
    assert of_set["medians"]["uwsgi:aserve"]["10"]["ratio"] == 0.75
    assert [each["uwsgi:aserve"]["10"]["per_cpu_s"] for each in of_set["each_round"]] == [1, 4]
    assert of_set["servers"]["uwsgi:uwsgi"]["version"] == "1.0"
    assert "without master" in of_set["servers"]["uwsgi:uwsgi"]["note"]
    assert [path.name for path in path.parent.iterdir()] == ["x.json"]
    assert record.default_path("sidecar", "pypy") == BENCHMARKS / "results" / "sidecar-pypy.json"


def test_each_row_of_figures_is_a_line():
    """A row, also with its errors, is on one line, what holds rows is not; it is read as it was."""
    row = {"n": 1, "errors": {"read": 2}}
    document = {"bench": "x", "rounds": [{"aserve": {"1": row, "10": row}}], "flags": ["-t", "1"], "none": {}}
    text = record.format_json(document)
    assert json.loads(text) == document
    assert [line.strip(" ,") for line in text.splitlines() if '"n"' in line] == [
        f'"1": {json.dumps(row)}', f'"10": {json.dumps(row)}',
    ]  # fmt: skip


def test_the_tables_are_those_of_the_files():
    """results/README.md and targets.md are what `make bench-tables` makes of the files; those are as they are written now."""
    assert pages.PAGE.read_text() == pages.results_page()
    assert pages.TARGETS.read_text() == pages.targets_page()
    for path in pages.RESULTS.glob("*.json"):
        text = path.read_text()
        assert text == record.format_json(json.loads(text)) + "\n", path


def test_the_table_of_storms(tmp_path):
    """Each storm is a line: for how long, and what became of how many requests."""
    storms = [
        {"storm": "test_a", "over": "tcp", "rounds": 3, "requests": {"answered": 12_000}, "seconds": 60.2},
        {"storm": "test_b", "over": "unix", "rounds": 1, "requests": {"answered": 9, "reset": 2}, "seconds": 61},
    ]
    run = record.describe_run("storm")
    record.write(tmp_path / "storm-cpython.json", {**run, "server": "CPython 3", "seconds": 60, "storms": storms})
    page = pages.results_page(tmp_path)
    assert "CPython 3; `make storm SECONDS=60`." in page
    assert "| test_a | tcp | 60.2 | 3 | 12,000 |  |\n| test_b | unix | 61 | 1 | 9 | reset 2 |" in page


def test_the_table_of_preload(tmp_path):
    """Each way to start workers is a line; one that could not be measured says why."""
    figures_of_one = {"pss_mb": 70.25, "uss_mb": 61.0, "successor_seconds": 0.084}
    rows = [
        {"server": "aserve-preload", "note": "", **figures_of_one},
        {"server": "gunicorn", "note": "not measured: gone"},
    ]
    rounds = {"aserve-preload": [figures_of_one] * 5, "gunicorn": []}
    kept = {**record.describe_run("preload"), "workers": 4, "rounds": rounds, "rows": rows}
    record.write(tmp_path / "preload-cpython.json", kept)
    page = pages.results_page(tmp_path)
    assert "## preload-cpython\n" in page and "4 workers of a Django project" in page and "medians of 5 rounds" in page
    assert "| aserve-preload | 70.2 | 61.0 | 0.08 |  |\n| gunicorn | - | - | - | not measured: gone |" in page


def cluster_row(balancer, **changes):
    """Return what is kept of one run with a cluster."""
    return {
        "scenario": "killed", "balancer": balancer, "server": "aserve", "note": "", "rate": 40, "again": 3, "shares": [30, 35, 35], "requests": 1200,
        "answered": 1199, "failed": 1, "lost": 0, "late": 2, "doubled": 0, "p50_ms": 20, "p99_ms": 210, "worst_ms": 1001,
        "answered_each": [40, 39, 2], "failed_each": [0, 1, 0], "p99_ms_each": [20, None, 20], "hosts_each": [3, 2, 2],
        "marks": {"1.0": "killed"}, **changes,
    }  # fmt: skip


def test_the_table_of_a_cluster(tmp_path):
    """What happened is a section, and each balancer in front of it a line, which is one in the file, too."""
    rows = [cluster_row("HAProxy"), cluster_row("nginx", scenario="vanished", p99_ms=None)]
    record.write(
        tmp_path / "cluster-cpython.json", {**record.describe_run("cluster"), "server": "CPython 3", "cluster": rows}
    )
    page = pages.results_page(tmp_path)
    assert "### killed\n\nThe processes of one of three hosts are killed" in page and "### vanished\n" in page
    assert "| aserve | HAProxy | 1,200 | 1,199 | 1 | 0 | 2 | 0 | 3 | 20 | 210 | 1,001 | 30 35 35 |  |\n" in page
    assert "| aserve | nginx | 1,200 | 1,199 | 1 | 0 | 2 | 0 | 3 | 20 | - | 1,001 | 30 35 35 |  |\n" in page
    lines = (tmp_path / "cluster-cpython.json").read_text().splitlines()
    assert len([line for line in lines if '"scenario"' in line and '"marks"' in line]) == 2


def test_results_that_are_kept_can_be_read():
    """Each file in results/ is of the form that this code writes, and of a run that took its time."""
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
        else:  # of the report some are of one round, as they say
            assert all(each["seconds"] >= 0.8 for each in kept["sets"].values()), path


def test_what_was_probed(tmp_path, capsys):
    """The commands that probe have the same flags, print a table for each probe, and write one form of file."""
    parser = command.probes_parser("What.\nMore.", tables.PROBES)
    probe = next(iter(tables.PROBES))
    args = parser.parse_args(["--probes", probe, "--json", str(tmp_path / "a.json")])
    assert args.probes == [probe] and args.only == [] and parser.parse_args([]).probes == [*tables.PROBES]
    with pytest.raises(SystemExit):
        parser.parse_args(["--probes", "nothing"])
    rows = [{"probe": probe, "server": "aserve", "note": "by hand"}]
    command.write_probes("bench_probes", args, pair(), rows, [])
    kept = json.loads((tmp_path / "a.json").read_text())
    assert (kept["probes"], kept["targets"], kept["aserve_python"]["version"]) == (rows, [], "3.11")
    assert f"### {probe}" in capsys.readouterr().out
