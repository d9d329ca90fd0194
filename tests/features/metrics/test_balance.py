"""The words for a balancer, by the latest numbers of all processes of a host."""

import pytest

from aserve.connections.health import WISHES
from aserve.features.metrics.balance import NEW_SHARE, SILENT_SECONDS, Balance, Host, Reading

IDLE = Reading(0, 0.0, 0.0)
HUNG = IDLE._replace(silent_seconds=SILENT_SECONDS)


def host(*readings, **more):
    return Host(readings, **{"process_count": len(readings) or 1, "threads": 4, "max_wait_seconds": 10.0, **more})


def line(*readings, **more):
    return Balance(lambda: host(*readings, **more)).agent_line().decode()


@pytest.mark.parametrize(
    ("readings", "percent"),
    [
        ([IDLE], 100),
        ([Reading(2, 0.0, 0.0)], 55),
        ([Reading(4, 0.0, 0.0)], 10),
        ([Reading(4, 1.0, 0.0)], 5),
        ([Reading(4, 1000.0, 0.0)], 1),  # of 0 HAProxy makes a drain
        ([Reading(9, 0.0, 0.0)], 10),  # the numbers are not of one moment
        ([IDLE, Reading(4, 0.0, 0.0)], 55),
        ([IDLE, HUNG], 55),
    ],
)
def test_weights_follow_free_threads_and_waits(readings, percent):
    assert line(*readings) == f"up ready {percent}%\n"


def test_processes_that_are_missing_or_too_many():
    """A missing process has no free thread; during a replacement, nothing is more than idle."""
    assert line(IDLE, process_count=2) == "up ready 55%\n"
    assert line(IDLE, IDLE, process_count=1) == "up ready 100%\n"
    assert line(IDLE, threads=0) == "up ready 100%\n"  # on the event loop's thread


def test_weights_change_over_time():
    """A second counts for its part, so that one look says little."""
    now = host(IDLE)
    balance = Balance(lambda: now)
    balance.on_second()
    now = host(Reading(4, 0.0, 0.0))
    assert balance.agent_line() == b"up ready 100%\n"
    balance.on_second()
    assert balance.agent_line() == b"up ready %d%%\n" % round(100 - 90 * NEW_SHARE)
    for _ in range(30):
        balance.on_second()
    assert balance.agent_line() == b"up ready 10%\n"


def test_after_a_start():
    """A host without service a second ago gets its whole share, now that it serves."""
    now = host()
    balance = Balance(lambda: now)
    balance.on_second()
    now = host(IDLE)
    assert balance.agent_line() == b"up ready 100%\n"
    now = host(HUNG)
    balance.on_second()
    now = host(Reading(4, 0.0, 0.0))
    balance.on_second()
    assert balance.agent_line() == b"up ready 10%\n"


@pytest.mark.parametrize(
    ("now", "agent", "unready", "dead"),
    [
        (host(IDLE), "up ready 100%", "", ""),
        (host(IDLE, is_draining=True), "up drain", "draining", ""),
        (host(), "stopped #no worker serves", "no worker serves", "no worker serves"),
        (
            host(HUNG),
            "stopped #no event loop of a worker turns",
            "no event loop of a worker turns",
            "no event loop of a worker turns",
        ),
        (host(IDLE, why_unready=WISHES["drain"]), "up drain", WISHES["drain"], ""),
        (host(IDLE, why_unready=WISHES["maint"]), "up maint", WISHES["maint"], ""),
        (host(HUNG, why_unready=WISHES["maint"]), "up maint", WISHES["maint"], "no event loop of a worker turns"),
        (host(IDLE, why_unready="the database is gone"), "up drain", "the database is gone", ""),
    ],
)
def test_words_tell_state_and_reason(now, agent, unready, dead):
    """The agent's line, and the reason of an unready or dead host."""
    balance = Balance(lambda: now)
    assert balance.agent_line().decode() == agent + "\n"
    assert (balance.why_unready(), balance.why_dead()) == (unready, dead)


@pytest.mark.parametrize(("waits", "limit", "is_ready"), [((11, 11), 10, False), ((11, 9), 10, True), ((99,), 0, True)])
def test_requests_that_wait(waits, limit, is_ready):
    """A host is not ready when none of its processes is."""
    now = host(*(Reading(4, wait, 0.0) for wait in waits), max_wait_seconds=limit)
    why = Balance(lambda: now).why_unready()
    assert why == ("" if is_ready else "requests wait for 11.0 s, more than --healthcheck-max-wait (10 s)")
