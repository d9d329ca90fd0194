"""Advice on faults that somebody should look at."""

import copy
import types

import pytest

from aserve.features import Config
from aserve.lifecycle import advice as module
from aserve.lifecycle.advice import add_warnings, advise

pytestmark = pytest.mark.long_on_pypy

MIB = 1 << 20
WORKER = {
    "slot": 2, "state": "ready", "silent_seconds": 0.4, "stalled_seconds": 0, "waiting": 0, "waiting_seconds": 0.0, "descriptors": 20, "descriptor_limit": 1024,
    "connections": 9, "connections_limit": 500, "pid": 77,
    "rss_bytes": 100 * MIB, "pss_bytes": 60 * MIB, "uss_bytes": 50 * MIB, "growth": None, "at": [], "threads_stuck": 0, "bodies_lack_room": False, "threads_lacking": 0,
}  # fmt: skip
WELL = {
    "text": "serving", "workers_wanted": 2, "workers_ready": 2, "crashes": [],
    "recent": {"all_busy_seconds": 3.0, "busy_share": 0.5, "queue_seconds": 0.0},
    "minute": {"requests": 100, "ends": {"2xx complete": 95, "5xx complete": 5}, "refused": {"400": 9}, "lost_lines": 0, "gil": {"p50": None}},
}  # fmt: skip


@pytest.fixture
def found(monkeypatch):
    """Return the advice: found(spool_files=0, worker={...}, config={...}, recent={...}, **status) -> [(text, do)]."""
    monkeypatch.setattr(module, "default_spool_files", lambda: 100)

    def found(spool_files=0, worker=(), config=(), **changes):
        status = copy.deepcopy(WELL)
        for name, change in changes.items():
            status[name] = {**status[name], **change} if isinstance(change, dict) else change
        status["workers"] = [{**WORKER, **dict(worker)}]
        return [tuple(each)[:2] for each in advise(status, {2: spool_files}, Config(**dict(config)))]

    return found


def test_all_is_well(found):
    """Then nothing is told; nor on a missing limit, either."""
    assert found() == []
    assert (
        found(worker={"descriptors": None, "descriptor_limit": None, "rss_bytes": None, "silent_seconds": None}) == []
    )


@pytest.mark.parametrize(
    ("until", "rest"),
    [
        (None, "browsers warn of a placeholder"),
        ("2999-02-25 10:12 UTC", "the present one is valid until 2999-02-25 10:12 UTC"),
        ("2026-02-25 10:12 UTC", "browsers refuse the present one, which was valid until 2026-02-25 10:12 UTC"),
    ],
)
def test_a_certificate_that_cannot_be_had(found, until, rest):
    """The advice tells why, when the next try is, and the served certificate; a present certificate is no warning."""
    one = {"name": "a.example", "until": until, "fault": "DNS; mend it", "again": "2027-01-28 03:00 UTC"}
    assert found(certificates=[one]) == [
        ("No new certificate for a.example: DNS; mend it.", f"The next try is at 2027-01-28 03:00 UTC; {rest}.")
    ]
    assert found(certificates=[{**one, "fault": ""}]) == []


def test_a_reload_that_is_half_done(found):
    """The advice names the missing worker; all are served meanwhile."""
    ((text, do),) = found(half_done="worker 2 could not start: no module 'a'; 1 of 2 workers has the new code")
    assert text == "A reload is half done: worker 2 could not start: no module 'a'; 1 of 2 workers has the new code."
    assert do.startswith("Correct it, and reload once more: `aserve reload`")


def test_balancers_that_are_told_to_go_elsewhere(found):
    """A forgotten drain leaves this host without requests."""
    ((text, do),) = found(unready="drained by aserve balancers")
    assert text == "Balancers are told to send requests elsewhere: drained by aserve balancers."
    assert "`aserve balancers ready`" in do


def test_a_reload_that_is_refused(found):
    """The advice tells why; all are served meanwhile."""
    refused = {"seconds": 12.3, "why": "worker 1 could not start: no module 'a'"}
    ((text, do),) = found(refused=types.MappingProxyType(refused))
    assert text == "Nothing was reloaded, 12 s ago: worker 1 could not start: no module 'a'."
    assert "`aserve reload`, or the signal" in do


PROGRAM = {
    "name": "celery",
    "when": "",
    "pause_seconds": 0.1,
    "seconds": 3.0,
    "restarts": 7,
    "last_end": "exited with status 1",
}
TIMED = {**PROGRAM, "name": "cron prune", "when": "0 3 * * *"}


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (PROGRAM, None),
        (
            {**PROGRAM, "pause_seconds": 1.6},
            "Attached celery keeps ending, 7 times so far; the last time it exited with status 1.",
        ),
        ({**PROGRAM, "pause_seconds": 30.0, "seconds": 31.0}, None),
        (TIMED, "The last run of cron prune has failed: it exited with status 1."),
        ({**TIMED, "last_end": "exited with status 0"}, None),
        ({**TIMED, "last_end": ""}, None),
    ],
)
def test_programs_that_keep_ending_are_told(found, program, text):
    assert [said for said, _ in found(attached=[program])] == ([text] if text else [])


@pytest.mark.parametrize(
    ("changes", "text", "do"),
    [
        ({"workers_ready": 1, "text": "degraded: x"}, "1 of 2 workers is not ready: degraded: x.", "SIGHUP"),
        ({"workers_ready": 0, "text": "y"}, "2 of 2 workers are not ready: y.", "the log has the reason"),
        ({"worker": {"silent_seconds": 12.3}}, "Worker 2: its event loop has not turned for 12 s.", "`aserve stacks 2`"),
        (
            {"recent": {"all_busy_seconds": 23.0, "queue_seconds": 1.23}},
            "Every thread has been busy for 23 s; requests wait 1.2 s.",
            "`aserve stacks` shows what holds them.",
        ),
        ({"recent": {"all_busy_seconds": 10.0}}, "Every thread has been busy for 10 s.", "--workers"),
        (
            {"recent": {"busy_share": 0.97, "queue_seconds": 0.052}},
            "The threads were 97 % busy in the last 10 s; requests wait 52 ms.",
            "raise --threads",
        ),
        (
            {"worker": {"stalled_seconds": 11, "waiting": 3, "waiting_seconds": 12.4, "slot": 0}},
            "The process: all threads busy: no queued request started for 11 s (3 queued, oldest 12 s).",
            "`aserve stacks` shows",
        ),
        (
            {"recent": {"all_busy_seconds": 23.0}, "worker": {"waiting_seconds": 4.4}},
            "Every thread has been busy for 23 s; requests wait 4.4 s.",
            "`aserve stacks` shows what holds them.",
        ),
        (
            {"minute": {"gil": {"p50": 0.032, "mean": 0.016}}},
            "A thread that has waited for others mostly waits up to 32 ms more for the interpreter (GIL) or a CPU.",
            "more --workers",
        ),
        ({"worker": {"threads_stuck": 1}}, "Worker 2 has 1 thread stuck inside the app, written off by --request-timeout.", "--max-stuck"),
        ({"worker": {"threads_lacking": 12}, "config": {"threads": 16}}, "Worker 2 has 4 of 16 threads", "TasksMax="),
        ({"worker": {"bodies_lack_room": True}}, "Worker 2 has no room for request bodies that exceed --body-memory", "Free the disk"),
        ({"worker": {"threads_stuck": 2}}, "Worker 2 has 2 threads stuck inside the app, written off by --request-timeout.", "stacks"),
        (
            {"worker": {"descriptors": 922, "connections": 480}, "spool_files": 3},
            "Worker 2 has 922 of 1024 descriptors open: 483 for connections and bodies, 439 of the app and others.",
            "ulimit -n",
        ),
        (
            {"worker": {"descriptors": 1000, "connections": 5}},
            "Worker 2 has 1000 of 1024 descriptors open: 5 for connections and bodies, 995 of the app and others.",
            "`ls -l /proc/77/fd` shows what, and `aserve recycle 2` replaces the worker.",
        ),
        ({"worker": {"connections": 500}}, "Worker 2: as many connections are open as may be, 500 each.", "--max-connections"),
        (
            {"worker": {"connections": 500}, "listening": [{"url": "http://a", "queued": 7, "limit": 2000}]},
            "Worker 2: as many connections are open as may be, 500 each; 7 clients wait in the kernel.",
            "--max-connections",
        ),
        (
            {"listening": [{"url": "http://a", "queued": 1800, "limit": 2000}, {"url": "http://b", "queued": 0, "limit": 0}]},
            "1800 clients wait in the kernel for http://a, which holds 2000.",
            "--backlog",
        ),
        ({"spool_files": 90}, "Worker 2 has 90 of 100 temporary files", "--spool-files"),
        ({"spool_files": 9, "config": {"spool_files": 10}}, "Worker 2 has 9 of 10 temporary files", "--spool-files"),
        (
            {"config": {"workers": 1, "max_uss_bytes": 55 * MIB}},
            "Worker 2 takes 50MiB of the 55MiB of --max-uss.",
            "It is replaced",
        ),
        (
            {"minute": {"requests": 100, "ends": {"2xx complete": 80, "5xx complete": 15, "5xx cut": 5}}},
            "20 % of the responses of the last minute were errors of the app (5xx): 20.",
            "The log",
        ),
        ({"minute": {"refused": {"503": 1}}}, "1 request was refused in the last minute with 503", "--spool-files"),
        ({"minute": {"refused": {"503": 3}}}, "3 requests were refused in the last minute with 503", "TMPDIR"),
        ({"minute": {"refused": {"503": 3}}}, "3 requests were refused in the last minute with 503: no room for bodies, too many WebSockets, or no descriptors.", "for WebSockets --websockets"),
        ({"minute": {"refused": {"503": 3}}}, "3 requests were refused in the last minute with 503: no room for bodies, too many WebSockets, or no descriptors.", "for descriptors `ulimit -n`"),
        ({"minute": {"lost_lines": 7}}, "Lines of the access log were lost in the last minute: 7.", "a full disk"),
        (
            {"crashes": [{"seconds": 32.4, "worker": 1, "how": "it was killed by SIGSEGV"}]},
            "A worker has crashed: worker 1, 32 s ago: it was killed by SIGSEGV.",
            "The log",
        ),
        (
            {"crashes": [{"seconds": 99.0, "worker": 2, "how": "a"}, {"seconds": 1.0, "worker": 1, "how": "it b"}]},
            "2 crashes of workers in the last ten minutes; the last: worker 1, 1 s ago: it b.",
            "The log",
        ),
        (
            {"worker": {"growth": {"from_bytes": 100 * MIB, "to_bytes": 150 * MIB, "minutes": 40}}},
            "Worker 2 has grown from 100MiB to 150MiB in 40 minutes, in each ten of them.",
            "--max-rss",
        ),
        ({"worker": {"at": [[42.4, "GET /x"]]}}, "Worker 2 has been at a request for 42 s: GET /x", "`aserve stacks 2`"),
    ],
)  # fmt: skip
def test_what_is_wrong(found, changes, text, do):
    """One fault is told with its number, and a remedy."""
    ((said, to_do),) = found(**changes)
    assert said.startswith(text) and do in to_do


@pytest.mark.parametrize(
    "changes",
    [
        {"worker": {"silent_seconds": 4.9}},
        {"worker": {"silent_seconds": 50.0, "state": "starting"}},
        {"recent": {"all_busy_seconds": 9.9}},
        {"recent": {"busy_share": 0.97, "queue_seconds": 0.009}},
        {"recent": {"busy_share": 0.8, "queue_seconds": 1.0}},
        {"worker": {"stalled_seconds": 9}},
        {"minute": {"gil": {"p50": 0.001, "mean": 0.064}}},  # one call has kept the GIL for seconds
        {"worker": {"connections": 499}},
        {"worker": {"connections": 500, "connections_limit": 0}},  # it has not said it yet
        {"worker": {"connections": 500, "state": "draining"}},
        {"listening": [{"url": "http://a", "queued": 1799, "limit": 2000}]},
        {"worker": {"descriptors": 921}},
        {"worker": {"at": [[9.9, "GET /x"]]}},
        {"minute": {"ends": {"5xx complete": 9}, "requests": 9}},
        {"config": {"workers": 1, "max_rss_bytes": 200 * MIB}},
    ],
)
def test_what_needs_nobody(found, changes):
    """The state is soon over, or far from its limit."""
    assert found(**changes) == []


def test_the_worst_comes_first(found):
    """Missing workers before full threads before an old request."""
    said = [
        text for text, _ in found(workers_ready=1, recent={"all_busy_seconds": 60.0}, worker={"at": [[60.0, "GET /"]]})
    ]
    assert [text.split()[0] for text in said] == ["1", "Every", "Worker"]


def test_what_is_over_comes_last(found):
    """A crash some minutes ago stands behind a present fault; a stop of service before both."""
    crash, failed = {"seconds": 540.0, "worker": 1, "how": "it b"}, {"requests": 100, "ends": {"5xx complete": 100}}
    said = [text for text, _ in found(crashes=[crash], worker={"at": [[60.0, "GET /"]]}, minute=failed)]
    assert [text.partition(" ")[0] for text in said] == ["100", "Worker", "A"]


def test_a_stall_of_all():
    """One warning has the worst of them; without counts it is told, too."""
    slow = {**WORKER, "stalled_seconds": 10, "waiting": 2, "waiting_seconds": 11.0}
    worse = {**slow, "slot": 1, "stalled_seconds": 44, "waiting_seconds": 44.4}
    status = {"text": "", "workers_wanted": 2, "workers_ready": 2, "crashes": [], "workers": [slow, worse, WORKER]}
    (found,) = add_warnings(status, Config())["warnings"]
    assert found == {
        "text": "2 of 3 workers: all threads busy: no queued request started for 44 s (4 queued, oldest 44 s).",
        "do": f"`aserve stacks` {module._THEN}",
        "is_failure": True,
    }


def test_a_stall_is_one_warning(found):
    """That every thread is busy is not told beside the stall that this is."""
    stalled = {"stalled_seconds": 11, "waiting": 3, "waiting_seconds": 12.4}
    said = [text for text, _ in found(worker=stalled, recent={"all_busy_seconds": 23.0})]
    assert len(said) == 1 and "no queued request started for 11 s" in said[0]


@pytest.mark.parametrize(
    ("connections", "queued", "is_failure"), [((500, 500), 0, False), ((500, 9), 3, False), ((500, 500), 1, True)]
)
def test_when_nobody_is_accepted(connections, queued, is_failure):
    """A lack of workers is a failure if clients wait, and nobody takes them."""
    workers = [{**WORKER, "slot": 1 + slot, "connections": count} for slot, count in enumerate(connections)]
    listening = [{"url": "http://a", "queued": queued, "limit": 2000}]
    (found,) = advise({**WELL, "workers": workers, "listening": listening}, {}, Config())
    assert found.is_failure == is_failure


@pytest.mark.parametrize(
    ("worker", "queued", "is_told"),
    [
        ({"descriptors": 1022}, 8, True),
        ({"descriptors": 1022}, 0, False),  # none has come since
        ({"descriptors": 1021}, 8, False),
        ({"descriptors": None}, 8, False),
        ({"descriptors": 1022, "state": "draining"}, 8, False),
    ],
)
def test_no_descriptors_for_clients(worker, queued, is_told):
    """None is served then, and no request fails: it is a failure, and stands first."""
    listening = [{"url": "http://a", "queued": queued, "limit": 2048}]
    first, *_ = [*advise({**WELL, "workers": [{**WORKER, **worker}], "listening": listening}, {}, Config()), None]
    text = "No worker has descriptors left for new connections; 8 clients wait in the kernel."
    assert (first is not None and first.text == text and first.is_failure) == is_told


@pytest.mark.parametrize(("failed", "well", "is_failure"), [(20, 80, False), (50, 50, True), (20, 0, True)])
def test_when_errors_are_a_failure(failed, well, is_failure):
    """If they are half of the responses; waiting requests of gone clients have none."""
    minute = {
        **WELL["minute"],
        "requests": 1000,
        "ends": {"none cut": 1000 - failed - well, "2xx complete": well, "5xx complete": failed},
    }
    (found,) = advise({**WELL, "minute": minute, "workers": [WORKER]}, {}, Config())
    assert found.is_failure == is_failure


def test_what_is_a_failure():
    """A stop of service, and nothing else."""
    status = {**WELL, "workers_ready": 1, "workers": [{**WORKER, "silent_seconds": 9.0, "at": [[42.0, "GET /"]]}]}
    found = advise(status, {}, Config())
    assert [each.is_failure for each in found] == [True, True, False]


def test_old_requests_of_several_workers_are_one_warning():
    """The oldest is named, with the worker, and how many workers have old requests; a young request is no warning."""
    ages = {1: 17.2, 2: 42.4, 3: 1.0}
    workers = [{**WORKER, "slot": slot, "at": [[age, f"GET /{slot}"]]} for slot, age in ages.items()]
    [only] = advise({**WELL, "workers": workers}, {}, Config())
    told = "Worker 2 has been at a request for 42 s: GET /2 (2 of 3 workers are at requests of 10 s and more)"
    assert only.text == told and "`aserve recycle 2`" in only.do


def test_a_certificate_that_clients_refuse(found, authority):
    """An ended certificate is told, with the file; a file without a certificate, and a valid certificate, are not."""
    ended, valid, gone, empty = (authority.issue("a.example", days=days) for days in (-1, 9, 9, 9))
    gone.certificate.unlink()
    empty.certificate.write_text("")
    sni = [f"{name}.example={one.certificate}:{one.key}" for name, one in (("b", valid), ("c", gone), ("d", empty))]
    config = {"bind": "https://:1", "certificate": str(ended.certificate), "key": str(ended.key), "sni": sni}
    ((text, do),) = found(config=config)
    assert text.startswith(f"The certificate {ended.certificate} expired on") and do == module.NEW_CERTIFICATE


def test_who_drains_is_no_failure():
    """Others serve in its place; its rest is told, by that name."""
    hung = {
        **WORKER,
        "state": "draining",
        "silent_seconds": 9.0,
        "stalled_seconds": 12,
        "waiting": 1,
        "at": [[42.4, "GET /x"]],
    }
    found = advise({**WELL, "workers": [hung]}, {}, Config())
    assert [(each.text.partition(":")[0], each.is_failure) for each in found] == [
        ("Draining worker 2", False),
        ("Draining worker 2", False),
        ("Draining worker 2 has been at a request for 42 s", False),
    ]
    moved = advise({**WELL, "workers": [{**hung, "waiting": 0}]}, {}, Config())
    assert not any("queued" in each.text for each in moved)  # other workers have what waited
    alone = advise({**WELL, "workers": [{**hung, "slot": 0}]}, {}, Config())
    assert {each.text.partition(":")[0].partition(" has")[0] for each in alone} == {"The draining process"}


@pytest.mark.parametrize(
    ("worker", "cure"),
    [
        ({}, "`aserve recycle 2`"),
        ({"state": "draining"}, "--drain-timeout"),
        ({"slot": 0}, "where it is. --request-timeout"),
        ({"state": "killed"}, "where it is. --request-timeout"),
    ],
)
def test_how_to_be_rid_of_a_request(worker, cure):
    """What there is for such a worker."""
    found = advise({**WELL, "workers": [{**WORKER, "at": [[42.4, "GET /x"]], **worker}]}, {}, Config())
    assert len(found) == 1 and cure in found[0].do and "--request-timeout" in found[0].do
