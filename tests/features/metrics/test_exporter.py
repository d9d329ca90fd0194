"""The text about processes, one or several; test_single.py has a server, processes/monitoring/test_overview.py a supervisor."""

import socket
import time
from types import SimpleNamespace

import pytest
from harness.certificates import HAS_OPENSSL
from harness.metrics import numbers_of

from aserve.core.footprint import Footprint, Memory
from aserve.core.page import Field, Process, new_page
from aserve.core.tally import RELOADS
from aserve.features import Config
from aserve.features.metrics import exporter as module
from aserve.features.metrics.exporter import Exporter
from aserve.features.metrics.scrapes import open_metrics
from aserve.features.metrics.table import FIRST_WORD, PLACES
from aserve.lifecycle.status import BesideWorkers

TAKES = Footprint(Memory(7, 5), 30, 1024)


@pytest.fixture
def observed():
    """Processes of a server, observed.found; each takes TAKES."""
    observed = SimpleNamespace(
        config=Config(threads=4), process_count=2, ready_count=1, is_draining=False, why_unready="", listening=[], fleet=None,
        found=[], pages=lambda: [(each.slot, each.page) for each in observed.found],
        statuses=SimpleNamespace(footprint_of=lambda pid: TAKES, describe=dict), processes=lambda: observed.found,
    )  # fmt: skip
    return observed


def process(slot, state="ready", *, pid=4321, generation=1, began_at=10.0, oldest=0.0, busy=0.0, waits=0.0, ticked=0.0):
    """Return one; `ticked`: so many seconds ago, 0: never."""
    page = new_page()
    page[Field.THREADS_BUSY_LATELY], page[Field.WAITING_MILLISECONDS] = int(busy * 1000), int(waits * 1000)
    page[Field.TICKED_AT] = time.monotonic_ns() - int(ticked * 1e9) if ticked else 0
    return Process(slot, pid, generation, state, began_at, page, False, list, lambda: oldest, 9 if slot == 9 else 0)


def read(observed):
    """Return the told numbers: {(name, labels...): value}."""
    return numbers_of(Exporter(observed, (), lambda: False).render())


def test_one_process_is_worker_1(observed):
    """Without a supervisor the process is worker 1; nothing is told of workers as such, nor of a loop that cannot answer when it hangs."""
    observed.found = [process(0, oldest=2.5, waits=1.25, ticked=30.0)]
    found = read(observed)
    assert (found["aserve_oldest_request_seconds", "1"], found["aserve_oldest_waiting_seconds", "1"]) == (2.5, 1.25)
    assert (found["aserve_worker_resident_bytes", "1"], found["aserve_worker_descriptors", "1"]) == (7, 30)
    assert found["aserve_connections_limit", "1"] == 0
    names = {name for name, *_ in found}
    assert not names & {"aserve_workers", "aserve_loop_silent_seconds", "aserve_worker_start_time_seconds"}


def test_two_in_a_slot(observed):
    """The worst of both is told, their total size, and a silence only of the staying one."""
    observed.fleet = BesideWorkers([], {}, [], 0)
    observed.found = [
        process(1, "draining", oldest=3.0, waits=2.0, ticked=40.0), process(1, generation=2, began_at=20.0, oldest=1.0, ticked=1.0),
        process(2, "starting", pid=0),
    ]  # fmt: skip
    found = read(observed)
    assert (found["aserve_oldest_request_seconds", "1"], found["aserve_oldest_waiting_seconds", "1"]) == (3.0, 2.0)
    assert (found["aserve_worker_resident_bytes", "1"], found["aserve_worker_proportional_bytes", "1"]) == (14, 10)
    assert found["aserve_worker_descriptors", "1"] == 30 and ("aserve_worker_unique_bytes", "1") not in found
    assert 1.0 <= found["aserve_loop_silent_seconds", "1"] < 40.0
    began_at = time.time() - time.monotonic() + 20.0
    assert abs(found["aserve_worker_start_time_seconds", "1"] - began_at) < 5
    assert ("aserve_worker_start_time_seconds", "2") not in found  # not there yet


def test_a_fleet_tells_its_own_counts(observed):
    """A supervisor's own counts and states are told; commands of --cron are not meant to run for long."""
    observed.found = [process(1), process(2, "starting"), process(3, "killed"), process(4, "draining")]
    beat = {"when": "", "is_wanted": True, "state": "running"}
    jobs = {"ended": {"done": 9}, "waiting": {"/a b": 3}}
    observed.fleet = BesideWorkers(
        [beat, {**beat, "state": "pausing"}, {**beat, "when": "* * * * *"}],
        {"jobs": jobs},
        [(RELOADS, 'result="done"', 5)],
        6,
    )
    found = read(observed)
    assert [found["aserve_workers", state] for state in ("wanted", "ready", "starting", "draining")] == [2, 1, 1, 2]
    assert [found["aserve_attached", state] for state in ("wanted", "running")] == [2, 1]
    assert (found["aserve_jobs_total", "done"], found["aserve_jobs_waiting", "/a b"]) == (9, 3)
    assert (found["aserve_reloads_total", "done"], found["aserve_error_log_lines_lost_total", "0"]) == (5, 6)


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
def test_certificates_tell_their_ends(observed, authority):
    issued = authority.issue("a.example", days=9)
    observed.config = Config(bind="https://:1", certificate=issued.certificate, key=issued.key)
    end = read(observed)["aserve_certificate_not_after_timestamp_seconds", str(issued.certificate)]
    assert 8.9 < (end - time.time()) / 86400 < 9.1


def test_balancers_hear_of_serving_workers(observed):
    """Balancers hear of serving workers; without one, of finishing ones; a hanging one has no room."""
    exporter = Exporter(observed, (), lambda: False)
    assert exporter.balance.agent_line() == b"stopped #no worker serves\n"
    observed.found = [process(1, busy=3.0), process(2, "draining", waits=50.0), process(9, waits=90.0)]
    exporter = Exporter(observed, (), lambda: False)
    assert exporter.balance.agent_line() == b"up ready 21%\n"  # one of eight threads is free
    observed.found = [process(2, "draining", waits=50.0)]
    assert exporter.balance.why_unready().startswith("requests wait for 50.0 s")
    observed.why_unready = "the database is gone"
    assert exporter.balance.why_unready() == "the database is gone"
    observed.is_draining = True
    assert exporter.balance.why_unready() == "draining"


@pytest.mark.parametrize("is_end", [True, False])
def test_each_second_statsd_hears_the_number(observed, monkeypatch, is_end):
    """statsd hears the number of serving workers; at the end zero, unless others go on. The last minute is ready for a reader."""
    sent = []
    statsd = SimpleNamespace(
        send=lambda words, count: sent.append(count), begin_at=sent.append, close=lambda: sent.append("closed")
    )
    monkeypatch.setattr(module.Statsd, "of", lambda config: statsd)
    observed.found = [process(1)]
    exporter = Exporter(observed, (), lambda: False)
    exporter.restore_counted({"gone": {}, "present": []}, has_processes=True)
    exporter.on_second()
    exporter.on_app_metrics(b"", "")
    assert exporter.counted()[1] == {1: 0}
    exporter.close(is_end)
    assert sent == [exporter.words(), 1, *([0] if is_end else []), "closed"]


def test_nobody_looks_and_nothing_is_done(observed):
    observed.pages = None
    exporter = Exporter(observed, (), lambda: False)
    exporter.restore_counted({"gone": {}, "present": []}, has_processes=True)
    exporter.on_second()
    exporter.close(is_end=True)


def test_someone_looks_and_gets_the_weight(observed, tmp_path):
    """The weight for balancers is of the last seconds; the address is there until the end."""
    observed.config = Config(agent_check=f"unix:{tmp_path}/a", threads=4)
    observed.found = [process(1), process(2)]
    exporter = Exporter(observed, open_metrics(observed.config), lambda: False)
    observed.found = [process(1, busy=4.0), process(2, busy=4.0)]
    exporter.on_second()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(f"{tmp_path}/a")
        exporter.scrapes.on_ready()  # accepts
        exporter.scrapes.on_ready()  # answers
        assert client.recv(100) == b"up ready 10%\n"
    exporter.close(is_end=True)
    assert not (tmp_path / "a").exists()


def test_numbers_never_fall(observed):
    """A gone process's counts are kept, over an exec, too; without the processes, their counts as well."""
    place = PLACES["aserve_app_exceptions_total"]
    observed.found = [process(1), process(2)]
    one, two = (each.page for each in observed.found)
    one[FIRST_WORD + place], two[FIRST_WORD + place] = 5, 7
    exporter = Exporter(observed, (), lambda: False)
    exporter.add_gone(1, one)
    assert {slot: words[place] for slot, words in exporter.words().items()} == {1: 10, 2: 7}
    state = exporter.describe_counted()
    for has_processes, gone in ((True, {1: 5}), (False, {1: 10, 2: 7})):
        other = Exporter(observed, (), lambda: False)
        other.restore_counted(state, has_processes)
        assert {slot: words[place] for slot, words in other.totals.with_present([]).items()} == gone
