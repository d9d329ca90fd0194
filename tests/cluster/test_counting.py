"""What `make cluster` counts, and that its clients count rightly: without hosts of its own, so in each run of the suite."""

from __future__ import annotations

import collections
import zlib

from harness.steady import QUICK, Ask, steady, summary
from harness.waiting import wait_until


def test_each_request_has_one_end():
    """An answer of the balancer's is a failure, none is a loss; late is only what is quick otherwise; doubled only what may not be repeated."""
    asks = [
        Ask(0, "get", 0.0, 0.01, "answered", b"old one"),
        Ask(1, "post", 0.5, 1.5, "answered", b"old two"),
        Ask(2, "upload", 0.9, 2.5, "answered", b"old two"),
        Ask(3, "get", 1.0, 0.02, "status 502"),
        Ask(4, "post", 1.5, 0.02, "closed"),
        Ask(5, "get", 1.6, 0.03, "answered", b"old one"),
    ]
    begun = collections.Counter({"get-0": 2, "post-1": 2, "upload-2": 1})
    row = summary(asks, begun)
    counts = {name: row[name] for name in ("requests", "answered", "failed", "lost", "late", "doubled", "worst_ms")}
    assert counts == {"requests": 6, "answered": 4, "failed": 1, "lost": 1, "late": 1, "doubled": 1, "worst_ms": 1500}
    assert (row["answered_each"], row["failed_each"]) == ([2, 1], [0, 2])
    assert (row["p99_ms_each"], row["hosts_each"]) == ([1500, 30], [2, 1])


def test_a_run_without_answers_has_no_times():
    """No figure is made up."""
    row = summary([Ask(0, "get", 0.0, 0.01, "refused")], collections.Counter())
    assert (row["p50_ms"], row["p99_ms_each"], row["lost"]) == (None, [None], 1)


def test_the_clients_see_what_comes(start_server):
    """Right answers, other statuses and wrong bodies are told apart; half of the requests come on kept connections."""
    connections = set()

    def app(environ, start_response):
        body = environ["wsgi.input"].read()
        number = int(environ["QUERY_STRING"].partition("-")[2])
        connections.add(environ["REMOTE_PORT"])
        start_response("503 No" if number % 10 == 3 else "200 OK", [("Content-Type", "text/plain")])
        return [b"old one | %d %d" % (len(body), 1 if number % 10 == 4 else zlib.crc32(body))]

    server = start_server(app)
    with steady(server.address, rate=100) as load:
        wait_until(lambda: len(load.asks) >= 40, 60, load.explain)
    ends = {number: {ask.what for ask in load.asks if ask.number % 10 == number} for number in range(10)}
    assert ends == {number: {{3: "status 503", 4: "wrong"}.get(number, "answered")} for number in range(10)}
    assert {ask.kind for ask in load.asks} == set(QUICK)
    assert {ask.host for ask in load.answered_since(0)} == {b"old one"}
    assert [ask.number for ask in load.asks] == list(range(len(load.asks)))
    assert len(connections) < len(load.asks)
