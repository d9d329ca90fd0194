"""The metrics of a supervisor's workers, from their memory and /proc."""

import contextlib
import os
import signal
import socket
import time
import types

import pytest
from harness.apps import hello
from harness.metrics import numbers_of
from harness.supervising import told
from harness.waiting import wait_until

from aserve import Server
from aserve._cparsers import lib
from aserve.connections.in_flight import TABLE_BYTES
from aserve.core import error_log, footprint
from aserve.core.footprint import Memory
from aserve.core.memory_file import open_memory_file
from aserve.core.page import TRIAL, Field
from aserve.features import Config
from aserve.features.metrics import several as module
from aserve.features.metrics.app_files import GIVEN
from aserve.features.metrics.balance import Balance
from aserve.features.metrics.exporter import Exporter
from aserve.features.metrics.scrapes import open_metrics
from aserve.features.metrics.table import ATTACHED, FIRST_WORD, PLACES, SILENT, SUPERVISED, WORKER_START, WORKERS
from aserve.lifecycle.lone import Lone
from aserve.processes.children import children
from aserve.processes.upgrade.inheritance import Inheritance, OldWorkers
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def read(one):
    """Return the told numbers: {(name, labels...): value}."""
    return numbers_of(one.several.exporter.render())


def count(one, child, number):
    """Let a worker count so many exceptions of its app."""
    child.page[FIRST_WORD + PLACES["aserve_app_exceptions_total"]] = number


def exceptions(one):
    """Return the counts, by slot."""
    return {key[1]: value for key, value in read(one).items() if key[0] == "aserve_app_exceptions_total"}


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """Each process's memory."""
    memory = types.SimpleNamespace(found=Memory(100, 40, 30))
    monkeypatch.setattr(footprint, "descriptors_of", lambda pid: (30, 1024))
    monkeypatch.setattr(footprint, "memory_of", lambda pid, with_shares=False: memory.found)
    return memory


def test_workers_tell_state_and_size(supervised, memory, monkeypatch):
    one = supervised(3)
    one.turn()
    assert read(one)["aserve_workers", "starting"] == 1
    monkeypatch.setattr(error_log, "lost_lines", lambda: 5)  # of the supervisor's messages
    assert read(one)["aserve_error_log_lines_lost_total", "0"] == 5
    one.say(one.children[0], say="ready")
    found = read(one)
    assert [found["aserve_workers", state] for state in ("wanted", "ready", "starting", "draining")] == [3, 1, 2, 0]
    assert [found[f"aserve_worker_{kind}_bytes", "1"] for kind in ("resident", "proportional", "unique")] == [
        100,
        40,
        30,
    ]
    assert found["aserve_oldest_request_seconds", "1"] == 0.0
    assert (found["aserve_worker_descriptors", "1"], found["aserve_worker_descriptors_limit", "1"]) == (30, 1024)
    assert found["aserve_worker_start_time_seconds", "2"] >= found["aserve_worker_start_time_seconds", "1"]


def test_event_loops_tell_their_silence(supervised):
    """A loop's silence is told; where a hanging one is replaced already, the successor's."""
    one = supervised(2)
    first, second = one.start()

    def silences():
        return {key[1]: value for key, value in read(one).items() if key[0] == "aserve_loop_silent_seconds"}

    assert silences() == {}  # neither has turned yet
    now = time.monotonic_ns()
    first.page[Field.TICKED_AT] = now - 40 * 10**9
    second.page[Field.TICKED_AT] = now + 10**9  # since we have looked at the clock
    found = silences()
    assert found["1"] >= 40 and found["2"] < 1
    one.signal(signal.SIGHUP)
    third = one.children[-1]
    assert third.slot == 1
    one.say(third, say="ready")
    third.page[Field.TICKED_AT] = time.monotonic_ns()
    assert silences()["1"] < 40


@pytest.mark.parametrize(("found", "kinds"), [(Memory(200), ["resident"]), (None, [])])
def test_memory_that_is_not_told(supervised, memory, found, kinds):
    """A system with partial numbers tells a part, or nothing."""
    one = supervised(1)
    one.start()
    memory.found = found
    told = read(one)
    all_kinds = ("resident", "proportional", "unique")
    assert [kind for kind in all_kinds if (f"aserve_worker_{kind}_bytes", "1") in told] == kinds


def test_the_oldest_request(supervised):
    one = supervised(1)
    (child,) = one.start()
    os.truncate(child.in_flight, TABLE_BYTES)
    os.pwrite(child.in_flight, (1).to_bytes(8, "little"), 8 + lib.IN_FLIGHT_TEXT_CAP)
    assert read(one)["aserve_oldest_request_seconds", "1"] > 0


def test_numbers_never_fall(supervised):
    """Numbers add up over the end of a worker, and its successor's beginning; with both in a slot, too."""
    one = supervised(2)
    first, second = one.start()
    count(one, first, 5)
    count(one, second, 7)
    assert exceptions(one) == {"1": 5, "2": 7}
    one.end(first, number=signal.SIGKILL)
    assert exceptions(one) == {"1": 5, "2": 7}
    one.turn(1)
    third = one.start()[-1]
    count(one, third, 10)
    assert exceptions(one) == {"1": 15, "2": 7}
    one.signal(signal.SIGHUP)
    fourth = one.turn()[-1] if one.children[-1] is third else one.children[-1]
    count(one, fourth, 100)
    assert exceptions(one)["1"] == 115
    one.signal(signal.SIGTTOU)
    one.start()
    for child in list(one.children):
        one.end(child)
    assert exceptions(one) == {"1": 115, "2": 7}


def test_requests_lost_with_a_worker_are_counted(supervised, monkeypatch):
    one = supervised(2)
    _, second = one.start()
    monkeypatch.setattr(children, "read_in_flight", lambda table: [(1.0, "GET /a"), (2.0, "GET /b")])
    one.end(second, number=signal.SIGKILL)
    found = {key: value for key, value in read(one).items() if key[0] == "aserve_requests_total" and value}
    assert found == {("aserve_requests_total", "2", "cut", "none"): 2}


def test_restarts_by_reason(supervised):
    """A crash, a worker's own wish, a reload; and a worker that never served."""
    one = supervised(1)

    def restarts():
        found = {key[1]: value for key, value in read(one).items() if key[0] == "aserve_worker_restarts_total"}
        return {reason: value for reason, value in found.items() if value}

    (child,) = one.start()
    one.end(child, number=signal.SIGSEGV)
    assert restarts() == {"crash": 1}
    one.turn(1)
    (child,) = one.start()
    one.say(child, say="failing", why="it was sent SIGTERM")
    one.start()
    assert restarts() == {"crash": 1, "asked": 1}
    one.end(child)
    one.signal(signal.SIGHUP)
    one.start()
    assert restarts() == {"crash": 1, "asked": 1, "reload": 1}
    assert read(one)["aserve_reloads_total", "done"] == 0  # the replaced one may still accept
    one.leave(*(child for child in one.children if child.state.name == "DRAINING"))
    assert read(one)["aserve_reloads_total", "done"] == 1
    one.signal(signal.SIGHUP)
    one.end(one.children[-1], status=3)
    found = read(one)
    assert (found["aserve_reloads_total", "refused"], found["aserve_worker_start_failures_total",]) == (1, 1)


def test_a_reload_with_a_mistake(supervised):
    one = supervised(1)
    one.start()
    one.read_error = ConfigError("threads: no")
    one.signal(signal.SIGHUP)
    assert read(one)["aserve_reloads_total", "refused"] == 1


def test_jobs_are_told_with_a_spooler(supervised, monkeypatch):
    one = supervised(1)
    one.start()
    assert "aserve_jobs" not in str(read(one))
    jobs = {"ended": {"done": 9, "failed": 1, "retried": 0}, "waiting": {"/a b": 3}}
    monkeypatch.setattr(one.supervisor.parts.overview, "facts", lambda: {"jobs": jobs})
    found = read(one)
    assert (found["aserve_jobs_total", "done"], found["aserve_jobs_total", "failed"]) == (9, 1)
    assert found["aserve_jobs_waiting", "/a b"] == 3


def test_a_trial_is_no_worker(supervised):
    """A trial's requests are not counted."""
    one = supervised(1)
    one.start()
    one.signal(signal.SIGUSR2)
    (trial,) = [child for child in one.children if child.slot == TRIAL]
    count(one, trial, 9)
    assert exceptions(one) == {"1": 0}
    one.end(trial, status=1)
    assert exceptions(one) == {"1": 0}


@pytest.mark.parametrize("has_children", [True, False])
def test_new_code_goes_on_counting(supervised, has_children):
    """New code goes on counting: with the old workers, or without them from their counts."""
    one = supervised(1)
    (gone,) = one.start()
    count(one, gone, 5)
    one.end(gone, number=signal.SIGKILL)
    one.turn(1)
    (child,) = one.start()
    count(one, child, 3)
    state = one.supervisor.parts.overview.hand_down().state
    state["started_at"] = 12.5
    other = supervised(1)
    other.supervisor.parts.overview.restore(state, has_children)
    assert exceptions(other) == {"1": 5 if has_children else 8}
    found = read(other)
    assert found["process_start_time_seconds",] == 12.5 and found["aserve_worker_restarts_total", "crash"] == 1


def test_it_answers_on_the_supervisors_loop(supervised, tmp_path, monkeypatch):
    """The supervisor's loop answers, beside all else; a child lets go of it, the end removes the file."""
    listeners = open_metrics(Config(metrics=f"unix:{tmp_path}/m"))
    one = supervised(1, metrics_listeners=listeners)
    one.start()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{tmp_path}/m")
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        client.setblocking(False)

        def answer():
            one.turn(1)
            try:
                return client.recv(100)
            except BlockingIOError:
                return b""

        assert wait_until(answer).startswith(b"HTTP/1.1 200 OK\r\n")
    one.supervisor.parts.overview.close(is_end=False)
    assert (tmp_path / "m").exists()
    one.supervisor.parts.overview.close(is_end=True)
    assert not (tmp_path / "m").exists()


def test_it_is_handed_down(supervised):
    """Old code's counts are the new code's; without a heritage, nothing is known."""
    one = supervised(1)
    one.start()
    state = one.supervisor.parts.overview.hand_down().state
    state["started_at"] = 1.5
    left = Inheritance("99.0", [], [], OldWorkers(), counted=state)
    assert read(supervised(1, inherited=left))["process_start_time_seconds",] == 1.5
    assert read(supervised(1, inherited=left._replace(counted=None)))["process_start_time_seconds",] > 1e9


def test_the_end_answers_callers_first(supervised):
    """Callers are answered before an exec, and hear whether others go on to answer."""
    several, ended = supervised(1).several, []
    several.exporter.scrapes = types.SimpleNamespace(
        close=ended.append, finish=lambda: ended.append("finish"), describe=list
    )
    several.hand_down()
    several.close(is_end=True)
    several.exporter.scrapes = None
    several.hand_down()
    several.close(is_end=False)
    assert ended == ["finish", True]


@pytest.fixture
def statsd(tmp_path):
    """Call it for statsd's news: {name: value}."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "statsd"))
        sock.setblocking(False)

        def heard():
            lines = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    lines += sock.recv(65536).decode().split("\n")
            return dict(line.split(":") for line in lines)

        yield heard


def test_statsd_hears_each_count_once(supervised, statsd, tmp_path):
    """statsd hears all workers' counts, and the number of ready ones; at the end zero. New code says nothing twice."""
    settings = {"statsd": f"unix:{tmp_path}/statsd", "statsd_prefix": "a"}
    one = supervised(2, **settings)
    first, _ = one.start()
    count(one, first, 5)
    statsd()
    one.supervisor.parts.overview.on_second()
    heard = statsd()
    assert (heard["a.workers"], heard["a.app.exceptions"]) == ("2|g", "5|c")
    state = one.supervisor.parts.overview.hand_down().state
    one.supervisor.parts.overview.close(is_end=False)
    other = supervised(2, **settings).supervisor.parts.overview
    other.restore(state, has_children=False)
    other.on_second()
    heard = statsd()  # the old code has said no end
    assert heard["a.workers"] == "0|g" and "a.app.exceptions" not in heard
    other.close(is_end=True)
    assert statsd()["a.workers"] == "0|g"


@pytest.fixture
def reading(supervised, tmp_path):
    """A supervisor whose workers can read the app's counts, `told`."""
    one = supervised(2, metrics="127.0.0.1:1", environ={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "files")})
    several = one.several
    one.told = []
    several.exporter.scrapes = types.SimpleNamespace(
        on_app_metrics=lambda *what: one.told.append(what),
        close=lambda *_: None,
        on_second=lambda: None,
        describe=list,
        finish=lambda: None,
        restore=list,
    )
    return one


def written(text):
    """Return a file with this text, for a message."""
    fd = open_memory_file("text")
    os.write(fd, text)
    return fd


def test_who_reads_what_the_app_counts(reading, monkeypatch, tmp_path):
    """A ready worker with the latest tick reads them; the text comes in a file."""
    several = reading.several
    assert not several._ask_app()
    first, second = reading.start()
    assert several.share() == {GIVEN: str(tmp_path / "files")}
    second.page[Field.TICKED_AT] = 5
    assert several._ask_app() and told(reading, second) == [{"do": "read app"}] and told(reading, first) == []
    for text, fault in ((b"a 1\n", ""), (b"a 1\n", "it failed")):
        several._on_app_metrics(second.pid, {"fault": fault}, [written(text)])
    several._on_app_metrics(second.pid, {"fault": ""}, [])
    monkeypatch.setattr(module, "MAX_APP_BYTES", 3)
    several._on_app_metrics(second.pid, {"fault": ""}, [written(b"a 1\n")])
    several.exporter.scrapes = None
    several._on_app_metrics(second.pid, {"fault": ""}, [])
    assert reading.told == [(b"a 1\n", ""), (b"", "it failed"), (b"", ""), (b"", "they take more than 0 MiB")]


def test_who_reads_dies(reading):
    """Another worker reads it; without one, nobody waits."""
    first, second = reading.start()
    several = reading.several
    second.page[Field.TICKED_AT] = 5
    assert several._ask_app() and told(reading, first) == []
    reading.end(second, number=signal.SIGKILL)
    assert told(reading, first) == [{"do": "read app"}] and reading.told == []
    reading.end(first, number=signal.SIGKILL)
    assert reading.told == [(b"", "")]


def test_files_of_who_is_gone(reading, tmp_path):
    """Its live gauges go; the folder stays with new code."""
    child, _ = reading.start()
    several = reading.several
    name = tmp_path / "files" / f"gauge_livesum_w{child.page_number}.db"
    name.touch()
    reading.end(child, number=signal.SIGKILL)
    assert not name.exists()
    left = several.hand_down()
    assert left.state["app_files"] == {"folder": str(tmp_path / "files"), "lock": None} and left.fds == []
    state = {"started_at": 1.0, **left.state}
    state["app_files"]["lock"] = 5
    several.take_over(state, has_children=True)
    assert several.hand_down().fds == [5]
    several._app_files.lock = None
    several.close(is_end=True)
    assert several.share() == {} and (tmp_path / "files").exists()


def test_what_balancers_are_told(supervised):
    """By the pages of serving workers; at the end by the finishing ones."""
    one = supervised(2, threads=4)
    several = one.several
    assert several.exporter.balance.agent_line() == b"stopped #no worker serves\n"
    one.start()
    balance = several.exporter.balance = Balance(several.exporter._look)
    assert (balance.why_dead(), balance.why_unready(), balance.agent_line()) == ("", "", b"up ready 100%\n")
    for child in one.children:
        child.page[Field.WAITING_MILLISECONDS] = 12_500
    assert balance.why_unready().startswith("requests wait for 12.5 s")
    one.signal(signal.SIGTERM)
    assert (balance.why_dead(), balance.why_unready(), balance.agent_line()) == ("", "draining", b"up drain\n")


def test_who_does_not_turn(supervised):
    """The supervisor's own seconds count, and not the clock's: a suspended machine has no hanging worker."""
    one = supervised(1)
    (child,) = one.start()
    children = one.supervisor.parts.children
    child.page[Field.TICK], child.page[Field.TICKED_AT] = 7, 1
    for _ in range(5):
        children.on_second()
        assert one.several.exporter.balance.why_dead() == ""
    children.on_second()
    assert one.several.exporter.balance.why_dead() == "no event loop of a worker turns"
    child.page[Field.TICK] = 8
    children.on_second()
    assert one.several.exporter.balance.why_dead() == ""


def test_a_lone_process(supervised, tmp_path):
    """A process without a supervisor has the metrics of one worker, without a supervisor's own."""
    one = supervised(1)
    (child,) = one.start()
    child.page[Field.TICKED_AT] = time.monotonic_ns()
    lone = Lone(Server(hello, bind="127.0.0.1:0")._inner)
    text = Exporter(lone, (), lambda: False).render().decode()
    found = [line.split()[2] for line in one.several.exporter.render().decode().splitlines() if "# TYPE" in line]
    alone = [line.split()[2] for line in text.splitlines() if "# TYPE" in line]
    only = {metric.name for metric in SUPERVISED} | {WORKERS, ATTACHED, WORKER_START, SILENT}
    assert set(found) - set(alone) == only and alone == [name for name in found if name not in only]
    assert 'aserve_connections{worker="1",state="idle"} 0' in text and 'worker="0"' not in text


def test_code_of_before_that_has_not_counted(supervised):
    """The start time is told, and nothing else."""
    one = supervised(1)
    one.several.take_over({"started_at": 12.5}, has_children=True)
    assert read(one)["process_start_time_seconds",] == 12.5
