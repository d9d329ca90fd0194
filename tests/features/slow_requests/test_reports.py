"""A supervisor's view of its workers' slow requests."""

from types import SimpleNamespace

from aserve.features.slow_requests.reports import Reporter


def test_a_worker_reports_each():
    """Each is reported once while it runs, and once at its end."""
    said = []
    reporter = Reporter(lambda message, fds: said.append(message))
    first, second = {"number": 1, "end": None}, {"number": 2, "end": "answered"}
    ended = {**first, "end": "cut"}
    for found in ([first], [first, second], [ended, second], [ended, second]):
        reporter.report(found)
    assert said == [{"say": "slow", "request": slow} for slow in (first, second, ended)]


def report(supervised, child, number, end=None, **more):
    """Let a worker report one."""
    supervised.say(child, say="slow", request={"number": number, "end": end, "at": 100.0, "seconds": 2.0, **more})


def test_the_last_ones(supervised):
    """The last 32 of all workers are kept; an end takes the place of its report."""
    one = supervised(2)
    first, second = one.start()
    for number in range(40):
        report(one, first, number)
    report(one, second, 39)
    report(one, first, 39, "answered")
    slow = one.supervisor.parts.status.describe()["slow"]
    assert [(found["number"], found["end"]) for found in slow[-3:]] == [(38, None), (39, "answered"), (39, None)]
    assert len(slow) == 32


def test_one_of_a_worker_that_dies(supervised, monkeypatch):
    """Its end is told, with its known time; an ended one stays, and a running one grows older."""
    one = supervised(2)
    first, second = one.start()
    monkeypatch.setattr("aserve.features.slow_requests.reports.time", SimpleNamespace(time=lambda: 107.0))
    for number, child, end in ((1, first, None), (2, first, "answered"), (1, second, None)):
        report(one, child, number, end, status=None)
    one.end(first, number=9)
    slow = one.supervisor.parts.status.describe()["slow"]
    assert [each["end"] for each in slow] == ["worker_died", "answered", None]
    assert [each["seconds"] for each in slow] == [9.0, 2.0, 9.0] and slow[0]["status"] == 0
