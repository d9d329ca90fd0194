"""Hosts that share over Redis, each a server with its own memory: the app's view when a host or Redis is gone."""

import os
import re
import signal
import threading

import pytest
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX
from harness.stores import SERVERS
from harness.uwsgi_apps import APP, ask, notes, who

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.long_on_pypy]

PATIENCE_SECONDS = 40.0  # processes import the app first, on a busy machine
TICKING = "@timer(0.05)\ndef tick(number):\n    note('tick')\n"
WORKING = """\
@spool
def work(values):
    note(f"{values['name']}-began")
    while values["name"] == "waits" and not os.path.exists("go"):
        time.sleep(0.005)
    note(values["name"])

"""


@pytest.fixture
def start(start_workers, store_server):
    """Start a host: start(*flags, extra="") -> Workers; all have the same app in the same folder."""

    def start_(*flags, extra=""):
        shared = ["--shared", store_server.url, "--uwsgi-cache", "items=100"]
        process = start_workers("--workers", "1", *shared, *flags, app=APP + extra)
        process.ready = process.wait_for_log(r"worker 1 \(pid (\d+)\) is ready", PATIENCE_SECONDS)
        return process

    return start_


def turn_of(server):
    """Return the number of the last taken tick."""
    keys = re.findall(rb"[^\r\n]+:turn:[^\r\n]+", server.ask("KEYS", "*:turn:*"))
    (key,) = [key for key in keys if not key.endswith(b":runs")] or [b"none"]
    return int((re.findall(rb"\d+", server.ask("GET", key.decode()).partition(b"\n")[2]) or [0])[0])


def kill_host(process):
    pids = process.workers
    halt(process.pid, *pids)  # none sees another's end
    for pid in [process.pid, *pids]:
        os.kill(pid, signal.SIGKILL)
    process.wait()


def test_hosts_share_values_locks_and_ticks(start, store_server, wait_until):
    """One host's values are the other's; a lock is of both; one host runs a tick."""
    one = start(extra=TICKING)
    first = wait_until(lambda: turn_of(store_server), PATIENCE_SECONDS)
    two = start(extra=TICKING)
    assert ask(one, "uwsgi.cache_set('k', 'value')")[0] == "True"
    assert ask(two, "uwsgi.cache_get('k'), uwsgi.cache_inc('n'), uwsgi.cache_num('n')")[0] == "(b'value', True, 1)"
    assert ask(one, "uwsgi.lock(1)")[0] == "None"
    assert ask(two, "uwsgi.is_locked(1), uwsgi.unlock(1), uwsgi.is_locked(1)")[0] == "(True, None, True)"
    assert ask(one, "uwsgi.unlock(1)")[0] == "None" and ask(two, "uwsgi.lock(1)")[0] == "None"
    wait_until(lambda: len(who(one, "tick")) >= 20, PATIENCE_SECONDS)
    assert one.stop() == two.stop() == 0
    assert len(notes(one)) <= turn_of(store_server) - first + 1
    assert store_server.ask("KEYS", "*:lock:*") == b"*0\r\n"  # an ending host lets go


@pytest.mark.provokes("is lost: it was not renewed")
def test_a_host_that_is_gone(start, store_server, wait_until):
    """A gone host's lock and job go to another, when their time is over."""
    spooler = ["--spooler", "shared:jobs"]
    one = start(*spooler, extra=WORKING)
    assert ask(one, "uwsgi.lock(1)")[0] == "None"
    path = ask(one, "work(name='waits')")[0]
    assert path.startswith("b'shared:jobs/")
    (worker,) = wait_until(lambda: who(one, "waits-began"), PATIENCE_SECONDS)
    kill_host(one)
    two = start(*spooler, extra=WORKING)
    assert ask(two, "uwsgi.spooler_jobs()")[0] == f"[{path}]"
    (one.folder / "go").touch()
    # Ten seconds, but for waiting.
    lock = [*re.findall(rb"[^\r\n]+:lock:1", store_server.ask("KEYS", "*:lock:1")), b"none"][0]
    store_server.ask("DEL", lock.decode())
    name = path[len("b'shared:jobs/") : -1]
    for queue in re.findall(rb"[^\r\n]+:due", store_server.ask("KEYS", "*:due")):  # none: the ten seconds have passed
        store_server.ask("ZADD", queue.decode(), "XX", "1", name)
    assert ask(two, "uwsgi.lock(1)")[0] == "None"
    (other,) = wait_until(lambda: who(two, "waits"), PATIENCE_SECONDS)
    wait_until(lambda: ask(two, "uwsgi.spooler_jobs()")[0] == "[]", PATIENCE_SECONDS)
    assert other != worker and two.stop() == 0


@pytest.mark.parametrize("store_server", SERVERS, indirect=True)
@pytest.mark.provokes("is lost: it was not renewed")
def test_killed_and_started_again(start, store_server, wait_until):
    """No request hangs; the cache is empty, unguessable values raise, and every taken job is done."""
    extra = WORKING + (
        "def attempt(function, *arguments, **named):\n"
        "    try:\n        return function(*arguments, **named)\n"
        "    except ConnectionError:\n        return 'away'\n"
    )
    process = start("--spooler", "shared:jobs", "--threads", "4", extra=extra)
    assert ask(process, "uwsgi.cache_set('k', 'value')")[0] == "True"
    taken, answers, faults, is_over = [], [], [], threading.Event()

    def load(client):
        number = 0
        while not is_over.is_set():
            number += 1
            name = f"{client}-{number}"
            try:
                answer, _ = ask(
                    process, f"uwsgi.cache_get('k'), attempt(uwsgi.is_locked, 1), attempt(work, name='{name}')"
                )
            except Exception as fault:
                faults.append(fault)
                return
            got, locked, path = eval(answer)
            answers.append((got, locked, path == "away"))
            if path != "away":
                taken.append(name)

    threads = [threading.Thread(target=load, args=(client,)) for client in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            wait_until(lambda: (b"value", False, False) in answers or faults, PATIENCE_SECONDS)
            store_server.kill()
            wait_until(lambda: (None, "away", True) in answers or faults, PATIENCE_SECONDS)
            store_server.start()
            answers.clear()
    finally:
        wait_until(lambda: (b"value", False, False) in answers or faults, PATIENCE_SECONDS)
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert faults == [] and {got for got, _, _ in answers} <= {b"value", None}
    wait_until(lambda: ask(process, "attempt(uwsgi.spooler_jobs)")[0] == "[]", PATIENCE_SECONDS)
    done = [word for word, _ in notes(process)]
    assert set(taken) <= set(done)
    process.wait_for_log("is away: ")
    process.wait_for_log("is back, after")
    assert process.stop() == 0
