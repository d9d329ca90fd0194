"""Where the CPU time of a request goes: what is made of perf's report. Nothing is measured here."""

from __future__ import annotations

import pytest
from harness.benchmarks import modules
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

bench_shares, figures, make_report, samples, servers, tables, targets = modules(
    "bench_shares", "figures", "make_report", "samples", "servers", "tables", "targets"
)
REPORT = """\
# To display the perf.data header info, please use --header/--header-only options.
#
# Samples|Shared Object              |Symbol
50       |[kernel.kallsyms]          |[k] tcp_sendmsg
5        |nf_conntrack.ko            |[k] nf_conntrack_in
25       |python3.11                 |[.] _PyEval_EvalFrameDefault
5        |libc.so.6                  |[.] malloc
10       |_cparsers.abi3.so          |[.] lane_poll
3        |_cffi_backend.cpython-311-x86_64-linux-gnu.so|[.] convert_from_object
2        |[vdso]                     |[.] __vdso_clock_gettime
"""


def test_each_sample_is_of_one_part():
    """A server's own C is what is neither the kernel's nor Python's nor cffi's; the hottest functions are named."""
    found = samples.summary(REPORT)
    assert found["samples"] == 100
    assert found["shares"] == {"kernel": 0.55, "Python": 0.32, "own C": 0.10, "cffi": 0.03}
    assert list(found["hottest"].items()) == [
        ("tcp_sendmsg", 0.5), ("_PyEval_EvalFrameDefault", 0.25), ("lane_poll", 0.1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "part"),
    [("bjoern.cpython-311-x86_64-linux-gnu.so", "own C"), ("uwsgi", "own C"), ("libpython3.11.so.1.0", "Python"),
     ("libpypy3.9-c.so", "Python"), ("ld-linux-x86-64.so.2", "Python"), ("[vdso]", "Python"), ("[JIT] tid 12", "Python"), ("[unknown]", "kernel")],
)  # fmt: skip
def test_whose_code_it_is(place, part):
    """By the name of a program or a library."""
    assert samples.part_of(place) == part


def test_without_a_sample_there_is_no_figure():
    """perf may be forbidden: then it writes nothing."""
    with pytest.raises(samples.BenchmarkError, match="has seen nothing"):
        samples.summary("# no samples\n")


def test_shares_become_microseconds():
    """Of the CPU time of a request, which another load has measured; and they are a table in file and page."""
    row = {"per_cpu_s": 100_000.0, **samples.summary(REPORT)}
    result = figures.Result(None, [{"aserve": {10: row}, "bjoern": {10: {"per_cpu_s": 1.0}}}], {})
    rows = bench_shares.rows_of("close", result)
    assert [(each["server"], each["us"], each["kernel"], each["cffi"]) for each in rows] == [("aserve", 10.0, 5.5, 0.3)]
    kept = {"bench": "shares", "date": "2026-11-23", "commit": "abc", "targets": [], "shares": rows,
            "machine": {"cores": 2, "is_virtual": True, "cpu": "one", "kernel": "6", "system": "Debian"},
            "aserve_python": {"implementation": "CPython", "version": "3.11.2"}}  # fmt: skip
    line = "| close | aserve | 10 | 10.00 | 5.50 | 3.20 | 1.00 | 0.30 | `tcp_sendmsg` 50%,"
    assert line in tables.parts(kept)[0]
    assert "<code>tcp_sendmsg</code> 50%" in make_report.page({"shares-cpython": kept}, lambda chart: "")


def test_what_is_looked_at_is_there():
    """Each set is one of the targets', and has these servers."""
    for name, (names, _) in bench_shares.LOOKED_AT.items():
        known = {server.name for server in servers.SERVERS[targets.SETS[name].servers_table]}
        assert {each.partition("+")[0] for each in names} <= known
