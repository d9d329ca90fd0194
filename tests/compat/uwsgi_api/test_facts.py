"""The functions about the server: uWSGI's keys and types, with values of this server."""

import os
import signal
import sys
import time

import pytest

from aserve.compat.uwsgi_api import facts, memory
from aserve.compat.uwsgi_api import process as process_module
from aserve.compat.uwsgi_api.process import Process
from aserve.core.ends import Ended
from aserve.core.page import MOLD, Field
from aserve.processes.children.pages import Pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Of uWSGI 2.0.30: uwsgi.workers()[0], and its apps[0].
KEYS = {
    "id": int, "pid": int, "requests": int, "delta_requests": int, "signals": int, "exceptions": int, "status": bytes,
    "rss": int, "vsz": int, "running_time": int, "last_spawn": int, "respawn_count": int, "tx": int, "avg_rt": int,
    "apps": tuple,
}  # fmt: skip
APP_KEYS = {
    "id": int, "modifier1": int, "mountpoint": bytes, "startup_time": int, "interpreter": int, "callable": int,
    "requests": int, "exceptions": int, "chdir": bytes,
}  # fmt: skip
END = Ended("", False, "", 200, 5, "answered", 0.0, 1.0, 0.0, 1.5, 0, False, b"")


@pytest.fixture(autouse=True)
def become(open_memory, monkeypatch):
    """Be a process with these facts: become(Process(...))."""
    monkeypatch.setattr(memory, "_memory", open_memory())
    monkeypatch.setattr(process_module, "_present", Process())
    return process_module.become


def new_pages(*workers):
    """Return pages of workers: (slot, generation, pid, threads busy)."""
    pages = Pages(len(workers))
    for slot, generation, pid, busy in workers:
        page = pages.page(pages.take())
        page[Field.SLOT], page[Field.GENERATION], page[Field.PID] = slot, generation, pid
        page[Field.THREADS_BUSY], page[Field.REQUESTS] = busy, 10 * pid
    return pages


def test_the_keys_are_uwsgis():
    (worker,) = facts.workers()
    assert {name: type(value) for name, value in worker.items()} == KEYS
    assert {name: type(value) for name, value in worker["apps"][0].items()} == APP_KEYS
    assert (worker["id"], worker["pid"], worker["status"]) == (1, os.getpid(), b"busy")
    assert 0 < worker["rss"] < worker["vsz"] and 0 < worker["last_spawn"] <= time.time() + 1


def test_the_workers_are_one_for_each_slot(become):
    """A worker for each slot, the newest; a mold is no worker. A worker without counts has the requests of a second ago."""
    pages = new_pages((2, 2, 12, 0), (2, 1, 15, 1), (1, 1, 11, 0), (1, 3, 13, 3), (MOLD, 1, 14, 0), (3, 1, 0, 0))
    become(Process(1, 4242, 2, pages=pages))
    found = [
        (each["id"], each["pid"], each["requests"], each["status"], each["respawn_count"]) for each in facts.workers()
    ]
    assert found == [(1, 13, 130, b"busy", 2), (2, 12, 120, b"idle", 1)]
    assert facts.total_requests() == 250 and facts.request_id() == 130
    os.close(pages.fd)


def test_counts_of_workers_are_told(become):
    """A counting worker tells the counts; counts of earlier workers are in the sums."""
    pages = new_pages((1, 4, os.getpid(), 0))
    become(Process(1, 4242, 1, pages=pages, page_number=1))
    tallies = memory.shared().tallies
    tallies.begin(1, 1).write([END])
    tallies.close(1, os.getpid())
    tallies.begin(1, 1).write([END, END])
    (worker,) = facts.workers()
    assert (worker["requests"], worker["delta_requests"], worker["tx"]) == (3, 2, 15)
    assert (worker["running_time"], worker["avg_rt"], worker["status"]) == (1_500_000, 500_000, b"busy")
    assert facts.total_requests() == facts.request_id() == 3
    os.close(pages.fd)


def test_a_process_that_is_gone():
    assert facts.memory_of(1 << 30) == (0, 0) and facts.began_at(1 << 30) == 0


def test_this_process_tells_memory_and_time():
    resident, whole = facts.mem()
    assert 0 < resident < whole and abs(facts.micros() / 1e6 - time.time()) < 60
    assert facts.logsize() == 0 and facts.ready() is True and facts.accepting() is None
    assert facts.i_am_the_spooler() is False and facts.began_at(os.getpid()) <= time.time() + 1


@pytest.mark.parametrize("masterpid", [4242, 0])
def test_reload_and_stop(become, monkeypatch, masterpid):
    sent, pid = [], masterpid or os.getpid()
    monkeypatch.setattr(os, "kill", lambda *what: sent.append(what))
    become(Process(1, masterpid))
    assert facts.masterpid() == masterpid and facts.worker_id() == 1
    assert facts.stop() is True and sent == [(pid, signal.SIGTERM)]
    if masterpid:
        assert facts.reload() is True and sent[1:] == [(pid, signal.SIGHUP)]
    else:
        with pytest.raises(RuntimeError, match="with --workers 1 there is one"):
            facts.reload()


def test_log_takes_text_or_octets(caplog):
    caplog.set_level("INFO", "aserve")
    assert facts.log("text") is True and facts.log(b"octets \xff") is True
    assert caplog.messages == ["text", r"octets \xff"]
