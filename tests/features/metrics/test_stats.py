"""The text of uWSGI's stats server; tests/e2e/test_stats.py has the real uwsgitop."""

import json
import os
import pathlib

import pytest

from aserve.features.metrics.stats import render_stats
from aserve.features.metrics.table import PLACES, REFUSALS, SUM, WORDS

WORKER = {
    "slot": 1, "pid": 77, "generation": 2, "state": "ready", "seconds": 5.0, "requests": 9, "waiting": 2, "threads_busy": 1,
    "rss_bytes": 1 << 20,
}  # fmt: skip


def tell(*workers, words, threads=3):
    """Return the text, read."""
    return json.loads(render_stats({"version": "1", "pid": 5, "threads": threads, "workers": workers}, words))


def words_of(**raised):
    """Return words with these raised: name, or name_offset, by so much."""
    words = [0] * WORDS
    for name, (offset, count) in raised.items():
        words[PLACES[f"aserve_{name}"] + offset] = count
    return words


def test_a_worker_has_uwsgis_names():
    """A worker's numbers have uWSGI's names and units: times are microseconds."""
    words = words_of(
        requests_total=(4, 10), response_body_bytes_total=(0, 4096), app_exceptions_total=(0, 2),
        requests_refused_total=(REFUSALS.index(504), 1), request_duration_seconds=(0, 10),
    )  # fmt: skip
    words[PLACES["aserve_request_duration_seconds"] + SUM] = 25_000
    found = tell(WORKER, words={1: words})
    (worker,) = found["workers"]
    assert (
        found["version"] == "aserve-1"
        and found["listen_queue"] == 2
        and found["pid"] == 5
        and found["uid"] == os.geteuid()
    )
    expected = {
        "id": 1, "pid": 77, "requests": 10, "delta_requests": 9, "exceptions": 2, "harakiri_count": 1, "status": "busy",
        "rss": 1 << 20, "tx": 4096, "running_time": 25_000, "avg_rt": 2500, "respawn_count": 2,
    }  # fmt: skip
    assert {name: worker[name] for name in expected} == expected
    assert [core["in_request"] for core in worker["cores"]] == [1, 0, 0]


@pytest.mark.parametrize(
    ("state", "busy", "status"), [("ready", 0, "idle"), ("starting", 0, "pause"), ("draining", 1, "pause")]
)
def test_what_a_worker_does(state, busy, status):
    """A worker that does not accept is paused."""
    (worker,) = tell({**WORKER, "state": state, "threads_busy": busy}, words={1: words_of()})["workers"]
    assert (worker["status"], worker["accepting"], worker["avg_rt"]) == (status, int(state == "ready"), 0)


def test_two_in_a_slot():
    """Two in a slot are one worker: the serving one. A mold is none, nor is one without a page."""
    old, new = {**WORKER, "pid": 1}, {**WORKER, "pid": 2, "state": "starting"}
    assert [worker["pid"] for worker in tell(old, new, words={1: words_of()})["workers"]] == [1]
    new["state"] = "ready"
    assert [worker["pid"] for worker in tell(old, new, words={1: words_of()})["workers"]] == [2]
    assert tell({**WORKER, "slot": 0, "state": "mold"}, words={1: words_of()})["workers"] == []


def test_a_single_process():
    """A single process is worker 1; with --threads 0 it has one core."""
    (worker,) = tell({**WORKER, "slot": 0, "rss_bytes": None}, words={0: words_of()}, threads=0)["workers"]
    assert worker["id"] == 1 and worker["rss"] == 0 and len(worker["cores"]) == 1


def test_a_folder_that_is_gone(monkeypatch):
    def getcwd():
        raise FileNotFoundError

    assert tell(words={})["cwd"] == str(pathlib.Path.cwd())
    monkeypatch.setattr(os, "getcwd", getcwd)
    assert tell(words={})["cwd"] == ""
