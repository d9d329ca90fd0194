"""The texts of `aserve top`, from answers to `status`."""

import pytest

from aserve.features.control.top import (
    Line,
    Looks,
    cut,
    head_of,
    needs_of,
    printable,
    requests_table,
    show_rate,
    slow_table,
    workers_table,
)

pytestmark = pytest.mark.long_on_pypy

MIB = 1 << 20


def server(**changes):
    return {
        "version": "1", "python": "cpython 3", "pid": 10, "seconds": 60.0, "text": "serving on x", "threads": 4,
        "workers_wanted": 2, "workers_ready": 2, **changes,
    }  # fmt: skip


def worker(slot=1, **changes):
    return {
        "slot": slot, "pid": slot + 10, "generation": 1, "state": "ready", "seconds": 60.0, "requests": 0, "connections": 3,
        "running": 1, "waiting": 0, "threads_busy": 1, "silent_seconds": 0.0, "rss_bytes": 50 * MIB, "pss_bytes": 40 * MIB,
        "uss_bytes": 30 * MIB, "at": [], **changes,
    }  # fmt: skip


def looks(*answers):
    """Return the looks of consecutive seconds: each a list of workers, or a pair of server and workers."""
    seen = Looks()
    for at, answer in enumerate(answers):
        who, workers = answer if isinstance(answer, tuple) else (server(), answer)
        seen.add(100.0 + at, [who, *({"worker": one} for one in workers)])
    return seen


# Rates


def test_one_look_has_no_rate():
    """Nobody knows when the requests were."""
    seen = looks([worker(requests=500)])
    assert seen.rate_of(seen.last.workers[0]) is None and seen.rate() is None
    assert Looks().rate() is None and Looks().last is None


def test_the_rate_is_a_difference():
    """The rate is between the first kept look and the last; the server's is the sum."""
    seen = looks([worker(requests=10), worker(2, requests=5)], [worker(requests=40), worker(2, requests=7)])
    assert [seen.rate_of(one) for one in seen.last.workers] == [30, 2] and seen.rate() == 32
    counts = [0, 1000, 1000, 1000, 1000, 1000, 1000, 1010]
    seen = looks(*([worker(requests=count)] for count in counts))
    assert seen.rate() == 2  # of the last five seconds


def test_the_rate_is_of_the_time_at_which_it_was_counted():
    """A worker writes its numbers once a second, and not when asked."""
    seen = looks([worker(requests=0, silent_seconds=0.9)], [worker(requests=100, silent_seconds=0.0)])
    assert seen.rate() == pytest.approx(100 / 1.9)
    seen = looks([worker(requests=100, silent_seconds=0.0)], [worker(requests=100, silent_seconds=1.0)])
    assert seen.rate() is None  # it has not counted anew


def test_a_replaced_worker():
    """A successor begins at zero, and no rate is negative."""
    seen = looks([worker(requests=5000)], [worker(pid=99, generation=2, requests=30, seconds=0.8)])
    assert seen.rate() == pytest.approx(30 / 0.8)
    seen = looks([worker(requests=5000)], [worker(requests=4000)])  # half of a word (pages.py)
    assert seen.rate() == 0


def test_one_that_has_not_counted_yet():
    """A worker without counts does not serve yet; the others' rate is the server's."""
    young = worker(2, pid=0, state="starting", silent_seconds=None, seconds=0.1)
    seen = looks([worker()], [worker(requests=8), young])
    assert seen.rate_of(young) is None and seen.rate() == 8


def test_a_long_time_without_an_answer():
    """Old counts say nothing of now."""
    seen = looks([worker()])
    seen.add(500.0, [server(), {"worker": worker(requests=1000)}])
    assert seen.rate() is None


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "-"), (0, "0"), (0.04, "0"), (0.44, "0.4"), (9.94, "9.9"), (9.96, "10"), (1234.5, "1234")]
)
def test_rates_in_words(rate, text):
    """Rates are as short as they can be told apart."""
    assert show_rate(rate) == text


# The head


def head(seen, now=101.0, failure=None):
    return head_of(seen, now, "/run/control", failure)


def test_the_head_tells_state_and_work():
    """The head has the server's name, state and work."""
    seen = looks([worker()], [worker(requests=7), worker(2, threads_busy=3), worker(3, state="starting")])
    assert head(seen) == [
        Line("aserve 1 on cpython 3, pid 10, running for 1 min 0 s"),
        Line("serving on x"),
        Line("7.0 requests/s, 2 of 2 workers ready, 4 of 8 threads busy"),
    ]


def test_a_degraded_server():
    """Lines of a degraded server are coloured; also while a worker is missing, before the status is degraded."""
    seen = looks((server(text="degraded: 1 of 2 workers is missing", workers_ready=1), [worker()]))
    assert [line.is_bad for line in head(seen, 100.0)] == [False, True, True]
    seen = looks((server(workers_ready=1), [worker()]))
    assert [line.is_bad for line in head(seen, 100.0)] == [False, True, True]


def test_without_workers_and_of_code_of_before():
    """There is nothing to be said of workers; and threads may not be told."""
    seen = looks((server(workers_wanted=0, workers_ready=0), [worker(0)]))
    assert head(seen, 100.0)[2] == Line("- requests/s, 1 of 4 threads busy")
    before = server()
    del before["threads"]
    assert head(looks((before, [worker()])), 100.0)[2].text.endswith(", 1 threads busy")


def test_no_answer_yet():
    """The screen names the asked server, and then the reason without an answer."""
    assert head(Looks()) == [Line("asking at /run/control")]
    assert head(Looks(), failure="nobody there") == [Line("nobody there; asking again", True)]


def test_no_answer_any_more():
    """Seen rows stay, marked as old: at once if there is a reason, else when late."""
    seen = looks([worker()])
    assert len(head(seen, 103.0)) == 3
    assert head(seen, 104.0)[3:] == [Line("no answer for 4 s, asking again; what you see is from before", True)]
    (line,) = head(seen, 101.0, "refused")[3:]
    assert line.is_bad and line.text.startswith("no answer for 1 s") and line.text.endswith("(refused)")


# Rows that need a look


@pytest.mark.parametrize(
    ("changes", "threads", "found"),
    [
        ({}, 4, []),
        ({"silent_seconds": 5.0}, 4, []),
        ({"silent_seconds": 5.1}, 4, ["loop hangs"]),
        ({"silent_seconds": None}, 4, []),
        ({"silent_seconds": 9.0, "state": "killed"}, 4, []),
        ({"waiting": 1, "threads_busy": 4}, 4, ["no thread free"]),
        ({"waiting": 1, "threads_busy": 3}, 4, []),
        ({"waiting": 0, "threads_busy": 4}, 4, []),
        ({"waiting": 1, "threads_busy": 1}, 0, ["no thread free"]),  # the event loop's own
        ({"waiting": 1, "threads_busy": 1}, None, ["no thread free"]),
        ({"waiting": 1, "threads_busy": 0}, None, []),
        ({"threads_stuck": 2}, 4, ["stuck threads"]),
        ({"at": [[10.0, "GET /"]]}, 4, []),
        ({"at": [[10.1, "GET /"]]}, 4, ["old request"]),
        (
            {"at": [[42.0, "GET /"]], "waiting": 9, "threads_busy": 4, "silent_seconds": 12.0},
            4,
            ["loop hangs", "no thread free", "old request"],
        ),
    ],
)
def test_who_needs_a_look(changes, threads, found):
    """Silent, out of threads, or at a request for too long."""
    assert needs_of(worker(**changes), threads) == found


# The tables


def columns(table):
    return [head.strip() for head in table.heads]


def texts(table):
    return ["|".join(cell.strip() for cell in row.cells) for row in table.rows]


def test_the_table_of_workers():
    """A wide terminal shows the table of status; a narrow one leaves out the columns of the table below."""
    seen = looks(
        [worker()], [worker(requests=7, at=[[42.1, "GET /slow"]]), worker(2, silent_seconds=12.3, websockets=2)]
    )
    wide = workers_table(seen, 120)
    assert columns(wide) == [
        "worker", "pid", "state", "for", "req/s", "running", "waiting", "busy", "open", "memory", "oldest request", "needs a look",
    ]  # fmt: skip
    assert texts(wide) == [
        "1|11|ready|1 min 0 s|7.0|1|0|1|3|30MiB|42.1 s GET /slow|old request",
        "2|12|silent 12 s|1 min 0 s|0|1|0|1|3 (2 ws)|30MiB|-|loop hangs",
    ]
    assert [(row.slot, row.needs_look) for row in wide.rows] == [(1, True), (2, True)]
    narrow = workers_table(seen, 79)
    assert "for" not in columns(narrow) and "oldest request" not in columns(narrow)
    assert texts(narrow)[0] == "1|11|ready|7.0|1|0|1|3|30MiB|old request" and "|3|" in texts(narrow)[1]
    assert texts(workers_table(seen, 59))[0] == "1|ready|0|1|30MiB|old request"  # what needs a look is the last to go


def test_one_that_is_no_worker():
    """Missing numbers have a sign in their place."""
    mold = worker(0, pid=0, state="mold", rss_bytes=None, uss_bytes=None)
    assert texts(workers_table(looks([mold]), 79)) == ["-|-|mold|-|1|0|1|3|-|"]
    assert workers_table(Looks(), 79).rows == []


@pytest.mark.parametrize("width", [59, 79, 99, 119, 159])
def test_tables_fit_with_the_largest_numbers(width):
    """Tables fit with large numbers everywhere, and the longest words."""
    large = worker(
        128, pid=4194304, state="draining", seconds=86399, requests=99999, connections=9999, running=9999, waiting=999,
        threads_busy=4, websockets=100, silent_seconds=99, uss_bytes=1023 * MIB, at=[[86399, "GET /" + "x" * 300]],
    )  # fmt: skip
    seen = looks([large], [large])
    for table in (workers_table(seen, width), requests_table(seen, width)):
        lines = [table.heads, *(row.cells for row in table.rows)]
        assert {tuple(map(len, cells)) for cells in lines} == {tuple(map(len, table.heads))}
        assert sum(map(len, table.heads)) + len(table.heads) - 1 <= width
    assert requests_table(seen, width).rows[0].cells[-1].endswith("x…")


def test_the_table_of_requests():
    """The oldest requests of all workers come first; too old ones are coloured."""
    seen = looks([worker(at=[[3.0, "GET /b"], [1.0, "GET /d"]]), worker(2, at=[[120.0, "GET /a"], [2.0, "GET /c"]])])
    table = requests_table(seen, 79)
    assert texts(table) == ["2|2 min 0 s|GET /a", "1|3.0 s|GET /b", "2|2.0 s|GET /c", "1|1.0 s|GET /d"]
    assert [row.slot for row in table.rows] == [2, 1, 2, 1]
    assert [row.needs_look for row in table.rows] == [True, False, False, False]
    assert requests_table(Looks(), 79).rows == []


def slow(**changes):
    return {
        "at": 10.0, "worker": 1, "seconds": 2.25, "queue_seconds": None, "end": None, "status": None, "request": "GET /a",
        "where": 'File "/srv/a/long/path/b.py", line 2, in read', **changes,
    }  # fmt: skip


def test_the_table_of_slow_requests():
    """The newest come first, each with its end and the app's place; running ones are coloured."""
    ended = slow(at=12.0, worker=2, seconds=130.0, queue_seconds=100.5, end="answered", status=200, request="GET /b")
    died = slow(at=11.0, worker=None, end="worker_died", status=0)
    del died["where"]  # old code does not tell it
    table = slow_table(looks((server(slow=[slow(), ended, died]), [])), 150)
    assert texts(table) == [
        "2|2 min 10 s|1 min 40 s|answered 200|GET /b|b.py:2 read",
        "-|2.2 s|0.0 s|worker died|GET /a|",
        "1|2.2 s|0.0 s|runs|GET /a|b.py:2 read",
    ]
    assert [(row.slot, row.needs_look) for row in table.rows] == [(2, False), (0, False), (1, True)]
    narrow = slow_table(looks((server(slow=[slow(request="GET /" + "x" * 200)]), [])), 79)
    assert sum(map(len, narrow.heads)) + len(narrow.heads) - 1 <= 79 and "b.py:2 read" in narrow.rows[0].cells[-1]
    assert slow_table(Looks(), 79).rows == slow_table(looks([worker()]), 79).rows == []


def test_texts_are_cut_and_printable():
    """A cut has a sign; control characters are not shown."""
    assert (cut("abcd", 4), cut("abcde", 4)) == ("abcd", "abc…")
    assert printable("a\x1b[2J\tb\n\x9bc\r") == "a?[2J   b\n?c?"
