"""The app's counts by prometheus_client, in one process and in several."""

import asyncio
import errno
import os
import subprocess
import sys

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from aserve.features.metrics import app as module
from aserve.features.metrics.app import AppMetrics, is_installed, read_app_metrics, telling

pytestmark = pytest.mark.long_on_pypy

IN_FILES = """
import os, sys
from aserve.features.metrics.app import name_files, read_app_metrics
name_files(os.environ, {folder!r}, "w7")
from prometheus_client import Counter
counter = Counter("a", "A.")
counter.inc()
if os.fork() == 0:
    counter.inc()  # as the app's own: nobody has named its files
    os._exit(0)
os.wait()
if os.fork() == 0:
    name_files(os.environ, {folder!r}, "w8")
    counter.inc(5)
    os._exit(0)
os.wait()
sys.stdout.write(read_app_metrics().decode())
"""


@pytest.fixture
def registry(monkeypatch):
    """A registry for this test, in place of the app's."""
    registry = CollectorRegistry()
    monkeypatch.setattr(prometheus_client, "REGISTRY", registry)
    return registry


async def ask(metrics, told):
    assert metrics.ask()
    return await asyncio.wait_for(told.get(), 20)


@pytest.mark.both_loops
async def test_it_is_told_on_the_loop(registry):
    """The text comes from another thread; callers meanwhile hear the same."""
    Counter("site_sales", "Sales.", registry=registry).inc(3)
    told = asyncio.Queue()
    metrics = AppMetrics(asyncio.get_running_loop(), lambda *what: told.put_nowait(what))
    assert metrics.ask()
    text, fault = await ask(metrics, told)
    assert "site_sales_total 3.0" in text.decode() and fault == ""
    assert told.empty()
    assert "site_sales_total 3.0" in (await ask(metrics, told))[0].decode()


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit])
async def test_a_collector_that_raises(registry, kind):
    """The fault is told, and the next caller is not hindered."""

    class Broken:
        def describe(self):
            return []

        def collect(self):
            raise kind("no sales")

    broken = Broken()
    registry.register(broken)
    told = asyncio.Queue()
    metrics = AppMetrics(asyncio.get_running_loop(), lambda *what: told.put_nowait(what))
    assert await ask(metrics, told) == (b"", f"{kind.__name__}: no sales")
    registry.unregister(broken)
    assert await ask(metrics, told) == (b"", "")


async def test_an_app_that_counts_nothing(monkeypatch):
    """Then nothing is read."""
    monkeypatch.delitem(sys.modules, "prometheus_client")
    assert not AppMetrics(asyncio.get_running_loop(), None).ask()
    assert is_installed()


def test_after_the_loop(registry):
    """Text read when the loop is closed is dropped."""
    loop = asyncio.new_event_loop()
    loop.close()
    AppMetrics(loop, None)._read()


def test_a_name_stands_once(registry):
    """aserve's own metrics are left out."""
    Gauge("process_start_time_seconds", "", registry=registry)
    Counter("aserve_requests", "", registry=registry)
    Gauge("site_queue", "", registry=registry)
    names = {line.split()[2] for line in read_app_metrics().decode().splitlines() if line.startswith("# TYPE")}
    assert names == {"site_queue"}


def test_counts_in_files_are_added_up(tmp_path):
    """Each process of ours has the files of its name, and a child of the app's its own; all are added up."""
    source = IN_FILES.format(folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-I", "-c", source], capture_output=True, text=True, check=True)
    assert "a_total 7.0" in done.stdout
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[-2:] == ["counter_w7.db", "counter_w8.db"] and len(names) == 3
    assert module._identify() == str(os.getpid())


def test_names_of_files_may_change(monkeypatch, tmp_path):
    """The first time values are made to be in files; later they only change their name."""
    from prometheus_client import values

    monkeypatch.setattr(module, "_pid", 0)
    monkeypatch.setattr(module, "_name", "")
    monkeypatch.setattr(module, "_why_apart", "")
    monkeypatch.setattr(values, "ValueClass", values.MutexValue)
    environ = {}
    module.name_files(environ, str(tmp_path), "w1")
    first = values.ValueClass
    assert environ == {module.VARIABLE: str(tmp_path)} and module._identify() == "w1" and first is not values.MutexValue
    module.name_files(environ, str(tmp_path), "w2")
    assert values.ValueClass is first and module._identify() == "w2"
    monkeypatch.setenv(module.VARIABLE, str(tmp_path))
    Counter("b", "", registry=None).inc()
    assert "b_total 1.0" in read_app_metrics().decode() and (tmp_path / "counter_w2.db").exists()
    module.name_files(environ, str(tmp_path), "w3", "there is no room in /a")
    with pytest.raises(OSError, match="there is no room in /a"):
        read_app_metrics()


def test_what_a_supervisor_hears(monkeypatch):
    """The text comes in a file; the reason without it comes as text, cut to fit into a message."""
    said = []
    tell = telling(lambda message, fds: said.append((message, list(fds))))
    tell(b"a 1\n", "")
    ((message, (fd,)),) = said
    assert message == {"say": "app metrics", "fault": ""} and os.pread(fd, 10, 0) == b"a 1\n"
    os.close(fd)

    def no_memory(name):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(module, "open_memory_file", no_memory)
    tell(b"a 1\n", "")
    tell(b"", "x" * 1000)
    assert said[1:] == [
        ({"say": "app metrics", "fault": "Cannot allocate memory"}, []),
        ({"say": "app metrics", "fault": "x" * 500}, []),
    ]


def test_nothing_to_read(monkeypatch):
    """Waiting callers are told so at once; else they hear the read text."""
    told = []
    metrics = AppMetrics(None, lambda *what: told.append(what))
    monkeypatch.setattr(metrics, "ask", lambda: True)
    metrics.answer()
    assert told == []
    monkeypatch.setattr(metrics, "ask", lambda: False)
    metrics.answer()
    assert told == [(b"", "")]
