"""The app's counters of prometheus_client, at the address of --metrics: kept over the ends of its processes."""

import contextlib
import os
import re
import signal

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.metrics import scrape
from harness.waiting import wait_until

pytestmark = [pytest.mark.any_parser, pytest.mark.long_on_pypy]
APP = """\
import os
from prometheus_client import Counter, Gauge, REGISTRY
hits = Counter("site_hits", "Hits.")
alive = Gauge("site_alive", "Processes.", multiprocess_mode="livesum")

class Broken:
    def describe(self):
        return []
    def collect(self):
        if os.environ.get("BROKEN"):
            raise ZeroDivisionError("no sales")
        return []
REGISTRY.register(Broken())

def app(environ, start_response):
    if environ["PATH_INFO"] == "/where":
        start_response("200 OK", [])
        return [os.environ["PROMETHEUS_MULTIPROC_DIR"].encode()]
    if environ["PATH_INFO"] == "/alive":
        alive.set(1)
    else:
        hits.inc()
    start_response("200 OK", [])
    return [b"%d" % os.getpid()]
"""


def hits(path):
    """Return how many requests the app has counted."""
    return scrape(path)[0].get(("site_hits_total",))


def ready_of(process):
    """Return the pids of ready workers."""
    return [int(pid) for pid in re.findall(r"\(pid (\d+)\) is ready", process.log)][-1:]


@NEEDS_LINUX
@pytest.mark.slow
@pytest.mark.provokes("has crashed")
@pytest.mark.parametrize("flags", [(), ("--preload",)], ids=["each", "preload"])
def test_counts_outlive_workers(start_workers, raw_client, tmp_path, flags):
    """Reloads, crashes and new code of aserve lose no count, and leave no more files; the end leaves none at all."""
    path, folder = tmp_path / "m", tmp_path / "files"
    process = start_workers(
        "--workers", "2", "--metrics", f"unix:{path}", *flags, app=APP, PROMETHEUS_MULTIPROC_DIR=str(folder)
    )
    process.wait_for_workers(2 + bool(flags))
    count = 0

    def fetch(target="/", times=10):
        return [int(raw_client(process).fetch(target, "Connection: close").body) for _ in range(times)]

    numbers = (signal.SIGHUP, signal.SIGHUP, signal.SIGUSR2, signal.SIGHUP, signal.SIGKILL)
    for number in numbers[-2:] if flags else numbers:  # without a mold only the number of processes differs
        count += len(pids := fetch())
        wait_until(lambda c=count: hits(path) == c, explain=lambda c=count: f"{hits(path)} of {c}")
        if number == signal.SIGKILL:
            fetch("/alive", 1)
            wait_until(lambda: scrape(path)[0].get(("site_alive",), 0) >= 1)
            for pid in set(pids):
                os.kill(pid, number)
                process.wait_for_log(rf"worker \d \(pid {pid}\) has crashed")
        else:
            done = process.count(rf"{number.name}: done in")
            process.signal(number)
            wait_until(lambda d=done, n=number: process.count(rf"{n.name}: done in") > d, 60)
        wait_until(lambda: scrape(path)[0]["aserve_workers", "ready"] == 2)
        wait_until(lambda c=count: hits(path) == c)
    # At most the processes alive at once, not all twelve: two workers, their successors, the trial or the mold, and a draining worker.
    assert len(list(folder.glob("counter_*.db"))) <= 7
    assert process.stop() == 0
    assert len(list(folder.glob("counter_*.db"))) <= 7  # the user's folder stays


@NEEDS_LINUX
@pytest.mark.provokes("has crashed|left out")
@pytest.mark.parametrize("flags", [(), pytest.param(("--preload",), marks=pytest.mark.long)], ids=["each", "preload"])
def test_a_folder_that_is_full(start_workers, raw_client, tmp_path, small_disk, flags):
    """A worker without room beside the rest serves uncounted; with room again, the next worker goes on with the old counts."""
    path = tmp_path / "m"
    process = start_workers(
        "--workers", "1", "--metrics", f"unix:{path}", *flags, app=APP, PROMETHEUS_MULTIPROC_DIR=str(small_disk)
    )
    worker = int(raw_client(process).fetch("/").body)
    wait_until(lambda: hits(path) == 1)

    def replace(worker):
        os.kill(worker, signal.SIGKILL)
        return wait_until(lambda: next((pid for pid in ready_of(process) if pid != worker), None))

    with contextlib.suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    worker = replace(worker)
    assert int(raw_client(process).fetch("/alive").body) == worker
    wait_until(lambda: hits(path) is None)
    process.wait_for_log(
        f"the app's own metrics of this worker are left out, until it is replaced: there is no room in {small_disk}"
    )
    (small_disk / "filler").unlink()
    worker = replace(worker)
    assert int(raw_client(process).fetch("/").body) == worker
    wait_until(lambda: hits(path) == 2)
    assert process.stop() == 0


def test_one_process_tells_its_registry(start_process, raw_client, tmp_path):
    """The process's registry is told, off the loop."""
    (tmp_path / "site_app.py").write_text(APP)
    spec, path = f"{tmp_path}/site_app.py:app", tmp_path / "m"
    process = start_process(spec, "--metrics", f"unix:{path}")
    raw_client(process).fetch("/")
    wait_until(lambda: hits(path) == 1)
    numbers, _ = scrape(path)
    assert numbers["process_start_time_seconds",] and any(key[0] == "python_info" for key in numbers)


def test_the_apps_fault(start_process, raw_client, tmp_path):
    """A failing app leaves aserve's numbers; the log says so once."""
    (tmp_path / "site_app.py").write_text(APP)
    spec, path = f"{tmp_path}/site_app.py:app", tmp_path / "m"
    process = start_process(spec, "--metrics", f"unix:{path}", BROKEN="1")
    for _ in range(2):
        assert scrape(path)[0]["aserve_threads_limit", "1"] and hits(path) is None
    process.wait_for_log("the app's own metrics are left out: ZeroDivisionError: no sales")


@pytest.mark.parametrize("flags", [(), pytest.param(("--workers", "1"), marks=NEEDS_LINUX)], ids=["one", "workers"])
def test_off_keeps_the_apps_metrics_out(start_process, raw_client, tmp_path, flags):
    (tmp_path / "site_app.py").write_text(APP)
    process = start_process(
        f"{tmp_path}/site_app.py:app", "--metrics", f"unix:{tmp_path}/m", "--metrics-app", "off", *flags
    )
    raw_client(process).fetch("/")
    assert hits(tmp_path / "m") is None
