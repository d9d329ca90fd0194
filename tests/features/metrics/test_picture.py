"""One moment of a server, for the status page."""

import json

from harness.native import AS_IN_TABLE

from aserve.features import Config
from aserve.features.metrics.picture import MAX_SLOW, Picture, changed_settings
from aserve.features.metrics.table import PLACES, WORDS

WORKER = {
    "slot": 1, "state": "ready", "silent_seconds": 0, "stalled_seconds": 0, "waiting": 0, "waiting_seconds": 0, "descriptors": 1, "descriptor_limit": 100,
    "rss_bytes": 1, "pss_bytes": 1, "uss_bytes": 1, "growth": None, "threads_stuck": 0, "bodies_lack_room": False, "threads_lacking": 0, "at": [[1.5, "GET /a<b>?token=x"]],
}  # fmt: skip


def status():
    """Return a server's status."""
    return {"text": "serving", "workers_wanted": 1, "workers_ready": 1, "workers": [WORKER], "slow": [], "crashes": []}


@AS_IN_TABLE
def test_an_event_has_status_and_counts():
    """An event has the status, the counts, and the warnings; no query of a request. It is one line."""
    words = [0] * WORDS
    picture = Picture(lambda: Config(threads=3, spool_files=5), status, lambda: {1: words})
    words[PLACES["aserve_spool_files"]] = 5
    octets = picture.event()
    event = json.loads(octets)
    assert b"\n" not in octets and event["text"] == "serving"
    assert event["workers"][0]["at"] == [[1.5, "GET /a<b>?..."]] and WORKER["at"] == [[1.5, "GET /a<b>?token=x"]]
    assert event["settings"] == [["--threads", "3"], ["--spool-files", "5"]]
    assert [each["text"].split(" temp")[0] for each in event["warnings"]] == ["Worker 1 has 5 of 5"]
    words[PLACES["aserve_requests_total"]] += 3
    picture.on_second()
    assert json.loads(picture.event())["minute"]["requests"] == 3


def test_what_uwsgitop_reads():
    """The text is of this moment, though the event is of the last second."""
    words = [0] * WORDS
    whole = {"version": "1", "pid": 5, "threads": 1}
    worker = {**WORKER, "pid": 7, "requests": 0, "waiting": 0, "threads_busy": 0, "seconds": 1.0, "generation": 1}
    picture = Picture(Config, lambda: {**status(), **whole, "workers": [worker]}, lambda: {1: list(words)})
    picture.on_second()
    words[PLACES["aserve_app_exceptions_total"]] = 3
    (found,) = json.loads(picture.stats())["workers"]
    assert (found["id"], found["pid"], found["exceptions"]) == (1, 7, 3)


def test_slow_requests_show_no_query():
    """The last few, the newest first: without queries, and of each stack the app's last call; nothing without the setting."""
    stack, where = '  File "/b.py", line 2, in read\n    wait()\n', 'File "/b.py", line 2, in read'
    slow = [
        {"at": 10.0 + number, "worker": 1, "end": None, "status": None, "seconds": 2.25, "queue_seconds": None,
         "request": f"GET /{number}?token=x", "stack": stack, "where": where, "thread": "a", "request_id": None, "number": number}
        for number in range(MAX_SLOW + 2)
    ]  # fmt: skip
    slow[-1].update(stack="", where="", queue_seconds=1.5, end="answered", status=200)
    words = {1: [0] * WORDS}
    picture = Picture(lambda: Config(slow_request_seconds=2), lambda: {**status(), "slow": slow}, lambda: words)
    newest, second, *others = json.loads(picture.event())["slow"]
    assert (newest["request"], newest["where"], newest["status"], newest["queue_seconds"]) == (
        "GET /11?...",
        "",
        200,
        1.5,
    )
    assert second["where"] == where and "stack" not in second and len(others) == MAX_SLOW - 2
    assert json.loads(Picture(Config, status, lambda: words).event())["slow"] is None


def test_before_any_worker():
    """There is an event, too."""
    assert json.loads(Picture(Config, lambda: {**status(), "workers": []}, dict).event())["workers"] == []


@AS_IN_TABLE
def test_changed_settings_show_no_secret():
    """Changed settings come by the row of each: never a secret, and plain ones unchanged."""
    assert changed_settings(Config()) == []
    config = Config(bind="127.0.0.1:1, 127.0.0.1:2", log_config="/a", preload=True, workers=2)
    assert changed_settings(config) == [
        ("--bind", "127.0.0.1:1, 127.0.0.1:2"), ("--workers", "2"), ("--preload", "on"), ("--log-config", "/a"),
    ]  # fmt: skip
    config = Config(env=["DATABASE_PASSWORD=hunter2", "A=b"], request_id_header="X-Request-ID", queue_wait_header="X-Q")
    assert changed_settings(config) == [
        ("--queue-wait-header", "X-Q"), ("--env", "DATABASE_PASSWORD=..., A=..."), ("--request-id-header", "X-Request-ID"),
    ]  # fmt: skip
    assert changed_settings(Config(log_config="https://me:pw@a/b")) == [("--log-config", "https://...@a/b")]
