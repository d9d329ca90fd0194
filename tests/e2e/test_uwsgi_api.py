"""`import uwsgi` in workers: shared values outlive each worker, and timers run once."""

import os
import re
import signal

import pytest
from harness.client import RawClient
from harness.combining import long
from harness.interpreter import NEEDS_LINUX
from harness.uwsgi_apps import APP, ask, notes, who

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

CACHE = ["--uwsgi-cache", "name=default,items=100,blocksize=1k"]


@pytest.fixture
def start(start_workers):
    """Start a server: start(*flags, extra="", size=2) -> Workers; size None: one process."""

    def start_(*flags, extra="", size=2):
        workers = ["--workers", str(size)] if size else []
        return start_workers(*workers, "--uwsgi-module", "on", *flags, app=APP + extra)

    return start_


def open_gate(process, name):
    (process.folder / name).touch()


def workers_of(process, count, is_preloaded=False):
    """Wait until so many serve; return their pids."""
    pids = process.wait_for_workers(count + is_preloaded)
    molds = {int(pid) for pid in re.findall(r"the mold \(pid (\d+)\) is ready", process.log)}
    return [pid for pid in pids if pid not in molds]


@pytest.mark.long_on_pypy
@pytest.mark.provokes("was killed by SIGKILL")
@pytest.mark.parametrize("flags", [[], long(["--preload"])])
def test_the_cache_outlives_workers(start, flags, wait_until):
    """One worker's values are all workers': after a crash, a reload and an upgrade, too."""
    process = start(*flags, *CACHE, extra="uwsgi.cache_set('imported', 'first')\n")
    first = workers_of(process, 2, bool(flags))
    assert ask(process, "uwsgi.cache_set('k', 'value')")[0] == "True"
    seen = set()
    wait_until(lambda: seen.add(ask(process, "uwsgi.cache_get('k')")) or {pid for _, pid in seen} == set(first))
    assert {value for value, _ in seen} == {"b'value'"}
    os.kill(first[0], signal.SIGKILL)
    process.wait_for_log("no worker is missing any more")
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done", 40)
    value, pid = ask(process, "uwsgi.cache_get('k')")
    assert value == "b'value'" and pid not in first
    process.signal(signal.SIGUSR2)
    process.wait_for_log("SIGUSR2: done", 60)
    value, last = ask(process, "uwsgi.cache_get('k') + uwsgi.cache_get('imported')")
    assert value == "b'valuefirst'" and last != pid
    assert process.stop() == 0


@pytest.mark.long_on_pypy
@pytest.mark.provokes("was killed by SIGKILL")
def test_lock_of_the_dead(start, wait_until):
    process = start()
    pids = workers_of(process, 2)
    _, pid = ask(process, "uwsgi.lock(1)")
    assert pid in pids and ask(process, "uwsgi.is_locked(1)")[0] == "True"
    os.kill(pid, signal.SIGKILL)
    assert ask(process, "uwsgi.lock(1) or uwsgi.is_locked(1)")[0] == "True"


def test_signals_reach_all_one_or_any_worker(start, wait_until):
    """A request raises a signal: for all workers, for one, for any."""
    extra = (
        "signal(1, target='workers')(lambda number: note('all'))\n"
        "signal(2, target='worker2')(lambda number: note('second'))\n"
        "signal(3)(lambda number: note('any'))\n"
    )
    process = start(extra=extra)
    pids = workers_of(process, 2)
    ask(process, "[uwsgi.signal(number) for number in (1, 2, 3)]")
    wait_until(lambda: len(notes(process)) >= 4)
    second = re.findall(r"worker 2 \(pid (\d+)\) is ready", process.log)
    assert sorted(who(process, "all")) == pids and who(process, "second") == [int(second[0])]
    assert len(who(process, "any")) == 1


GATED = "signal(1)(lambda number: gate('gate'))\n@timer(0.05)\ndef tick(number):\n    note('tick')\n"


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("flags", [[], long(["--preload"])])
def test_a_reload_waits_for_running_functions(start, wait_until, flags):
    """A running function of a replaced worker comes to its end; ticks go on in the successors, and end in nobody's drain."""
    process = start(*flags, extra=GATED)
    before = workers_of(process, 2, bool(flags))
    ask(process, "uwsgi.signal(1)")
    (running,) = wait_until(lambda: who(process, "gate-waits"))
    assert ask(process, "uwsgi.reload()")[0] == "True"
    process.wait_for_log("SIGHUP: done", 40)
    count = len(who(process, "tick"))
    wait_until(lambda: len(who(process, "tick")) >= count + 20, 40)
    assert not set(who(process, "tick")[count + 5 :]) & set(before) and running in before
    open_gate(process, "gate")
    wait_until(lambda: who(process, "gate-open") == [running], 30, lambda: process.log + str(notes(process)[-5:]))
    process.wait_for_log(rf"worker \d \(pid {running}\) has ended: it exited with status 0")
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_a_reload_loses_no_tick(start, wait_until):
    """Of so many runs none is lost, and none is double, while workers are replaced."""
    extra = (
        "@rbtimer(0.02)\ndef endless(number):\n    note('endless')\n"
        "uwsgi.register_signal(9, '', lambda number: note('hundred'))\nuwsgi.add_rb_timer(9, 0.02, 100)\n"
    )
    process = start("--reload-at-once", extra=extra)
    workers_of(process, 2)
    wait_until(lambda: len(who(process, "hundred")) >= 10, 40)
    process.signal(signal.SIGHUP)
    wait_until(lambda: len(who(process, "hundred")) >= 100, 60)
    process.wait_for_log("SIGHUP: done", 40)
    count = len(who(process, "endless"))
    wait_until(lambda: len(who(process, "endless")) >= count + 20, 40)
    assert len(who(process, "hundred")) == 100
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_facts_for_agents_are_right(start, wait_until):
    process = start()
    pids = workers_of(process, 2)
    assert ask(process, "uwsgi.numproc, uwsgi.opt['master'], uwsgi.opt['lazy-apps']")[0] == "(2, True, True)"
    wait_until(lambda: [one["pid"] for one in eval(ask(process, "uwsgi.workers()")[0])] != [0, 0])
    found = eval(ask(process, "uwsgi.workers()")[0])
    assert sorted(one["pid"] for one in found) == pids and [one["id"] for one in found] == [1, 2]
    assert {one["respawn_count"] for one in found} == {0}  # as in uWSGI: the first start is none


@pytest.mark.long_on_pypy
def test_facts_of_preloaded_workers_are_right(start):
    """With --preload the app is not lazy, and the mold is worker 0."""
    process = start("--preload", extra="imported_by = uwsgi.worker_id()\n")
    workers_of(process, 2, is_preloaded=True)
    assert ask(process, "imported_by, uwsgi.opt['master'], 'lazy-apps' in uwsgi.opt")[0] == "(0, True, False)"


@pytest.mark.long_on_pypy
def test_one_process_has_all_but_a_reload(start, wait_until):
    """Without workers all is there, too, but for a reload."""
    always = "@timer(0.02)\ndef always_at_work(number):\n    time.sleep(0.1)\n"
    process = start(*CACHE, extra="uwsgi.atexit = lambda: note('end')\n" + GATED + always, size=None)
    process.wait_for_log("serving on")
    assert ask(process, "uwsgi.cache_set('k', 'v'), uwsgi.cache_get('k'), uwsgi.masterpid()")[0] == "(True, b'v', 0)"
    ask(process, "uwsgi.signal(1)")
    wait_until(lambda: who(process, "gate-waits") and who(process, "tick"))
    assert ask(process, "uwsgi.stop()")[0] == "True"
    process.wait_for_log("waiting for the app's thread aserve-uwsgi-signal-1")
    open_gate(process, "gate")
    assert process.wait(20) == 0
    assert who(process, "gate-open") == who(process, "end") == [process.pid]


@pytest.mark.long_on_pypy
def test_a_configuration_of_uwsgis(start_workers, tmp_path):
    """A configuration of uWSGI's gives its caches, and the facts for agents."""
    (tmp_path / "a.ini").write_text(
        "[uwsgi]\nprocesses = 2\ncache2 = name=sessions,items=10,blocksize=64\nlocks = 2\nlazy-apps = 0\n"
    )
    process = start_workers("--uwsgi-ini", "a.ini", "--access-log", "log", app=APP)
    workers_of(process, 2, is_preloaded=True)
    assert ask(process, "uwsgi.cache_set('k', 'v', 60, 'sessions'), uwsgi.cache_get('k')")[0] == "(True, b'v')"
    assert (
        ask(process, "uwsgi.opt['cache2'], 'lazy-apps' in uwsgi.opt")[0]
        == "(b'name=sessions,items=10,blocksize=64', False)"
    )


@pytest.mark.long_on_pypy
def test_only_where_it_is_asked_for(start_workers):
    """Otherwise neither the module nor its parts are imported, but for settings, and the supervisor's modules, as a reload may name the first folder
    of jobs.
    """
    app = (
        "import sys\nimport importlib.util\n"
        "def app(environ, start_response):\n    start_response('200 OK', [])\n"
        "    found = [name for name in sys.modules if 'uwsgi_api.' in name and not name.endswith(('.settings', '.spooler', '.mules', '.process', '.supervising'))]\n"
        "    return [repr((importlib.util.find_spec('uwsgi'), found)).encode()]\n"
    )
    process = start_workers("--workers", "1", app=app)
    client = RawClient(process.address)
    text = client.fetch("/").body.decode()
    client.close()
    assert text.endswith(", [])") and "aserve" not in text
