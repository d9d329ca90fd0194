"""Metrics of the app, with the recorded answers of real uWSGI."""

import pytest

from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api.metrics import METRICS
from aserve.compat.uwsgi_api.settings import Extras


@pytest.fixture(autouse=True)
def shared_memory(open_memory, monkeypatch):
    """The memory of this process, with two metrics."""
    monkeypatch.setattr(memory, "_memory", open_memory(extras=Extras(metrics=("m", "g"))))


def test_changes_are_done_and_seen():
    get, found = METRICS["metric_get"], []
    for name, amount in (
        ("inc", ()),
        ("inc", (5,)),
        ("dec", (2,)),
        ("mul", (3,)),
        ("div", (2,)),
        ("set", (100,)),
        ("set_max", (50,)),
        ("set_min", (50,)),
    ):
        assert METRICS[f"metric_{name}"]("m", *amount) is True
        found.append(get(b"m"))
    assert found == [1, 6, 4, 12, 6, 100, 100, 50] and get("g") == 0
    METRICS["metric_set"]("g", (1 << 63) - 1)
    METRICS["metric_inc"]("g")
    assert get("g") == -(1 << 63)


def test_unknown_metrics_are_not_changed():
    """A missing metric is 0, and is not changed; nothing is divided by 0."""
    assert METRICS["metric_get"]("none") == 0
    assert METRICS["metric_inc"]("none") is METRICS["metric_set"]("none", 1) is METRICS["metric_div"]("m", 0) is None
