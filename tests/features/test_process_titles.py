"""A process's title in ps, with --process-titles."""

import importlib.util
import sys
import types

import pytest
from harness.extensions import new_context
from harness.refusals import error_of

from aserve.connections.monitoring.statistics import Statistics
from aserve.features import Config
from aserve.features.process_titles import MAX_TEXT, ProcessTitles, Title

NOTHING = Statistics(*[0] * len(Statistics._fields))
BUSY = NOTHING._replace(connections_running=3, workers=4, workers_idle=2)


@pytest.fixture
def shown(monkeypatch):
    """The titles so far."""
    titles = []
    monkeypatch.setitem(sys.modules, "setproctitle", types.SimpleNamespace(setproctitle=titles.append))
    return titles


@pytest.mark.parametrize(
    ("now", "at", "text"),
    [
        (NOTHING, [], "no requests"),
        (NOTHING._replace(is_draining=True), [], "draining, no requests"),
        (BUSY, [(42.4, "GET /a")], "2 of 8 threads busy; 42 s: GET /a"),
        (BUSY, [(42.4, "GET /a?token=b")], "2 of 8 threads busy; 42 s: GET /a?..."),
        (BUSY, [], "2 of 8 threads busy"),
        (
            BUSY._replace(requests_waiting=5, is_draining=True),
            [(1.0, "GET /")],
            "draining, 2 of 8 threads busy, 5 waiting; 1 s: GET /",
        ),
    ],
)
def test_the_text_has_number_and_oldest(shown, now, at, text):
    """The text has the number of requests, and the oldest with its time."""
    Title(3, 8).on_second(now, at)
    assert shown == [f"aserve worker 3: {text}"]


def test_when_it_is_written(shown):
    """The title is written at the first look, and at each change; it is cut to a terminal's room."""
    title = Title(None, 0)
    for at in (0.2, 0.3, 1.0):
        title.on_second(NOTHING._replace(connections_running=1), [(at, "GET /" + "x" * 200)])
    assert [text[:45] for text in shown] == [
        "aserve: 1 of 1 threads busy; 0 s: GET /xxxxxx",
        "aserve: 1 of 1 threads busy; 1 s: GET /xxxxxx",
    ]
    assert {len(text) for text in shown} == {MAX_TEXT}


def test_each_second_the_title_is_written(shown):
    """The title is written once a second, with the number of the process; times are taken for it."""
    server = types.SimpleNamespace(statistics=lambda: BUSY, ongoing=lambda count: [(3.0, "GET /a")][:count])
    titles = ProcessTitles(Config(threads=8))
    titles.start(new_context(server, slot=3))
    titles.on_second()
    assert shown == ["aserve worker 3: 2 of 8 threads busy; 3 s: GET /a"] and titles.wants == ("times",)


def test_whether_it_is_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "setproctitle", types.SimpleNamespace(__spec__=True))
    assert ProcessTitles.is_on(Config(process_titles=True)) and not ProcessTitles.is_on(Config())


def test_titles_without_their_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert Config(process_titles=True).process_titles
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "aserve-wsgi[titles]" in error_of(Config, process_titles=True)
