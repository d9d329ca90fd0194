"""A process that answers by itself."""

import asyncio
import json
import os
import socket
import types

import pytest
from harness.asking import get
from prometheus_client.parser import text_string_to_metric_families

from aserve.connections.monitoring.statistics import Statistics
from aserve.core import growth
from aserve.core.errors import BindError
from aserve.core.footprint import Footprint, Memory, memory_of
from aserve.core.growth import SAMPLE_SECONDS
from aserve.features import Config
from aserve.features.metrics.counting import Counters
from aserve.features.metrics.single import Single

NOTHING = Statistics(*[0] * len(Statistics._fields))


def serving(**settings):
    """Return a server with such settings."""
    return types.SimpleNamespace(
        config=Config(**settings),
        shown_urls=["http://a"],
        statistics=lambda: NOTHING,
        ongoing=lambda count: [(2.5, "GET /a?b")],
        ask=lambda name: None,
        listening=lambda: [{"url": "http://a", "queued": 3, "limit": 7}],
    )


@pytest.mark.both_loops
async def test_it_answers_on_its_loop(tmp_path):
    """The loop answers, from its memory, until the end."""
    path = str(tmp_path / "m")
    server = serving(metrics=f"unix:{path}")
    single = Single(server, asyncio.get_running_loop())
    Counters(single.memory, 5)
    head, _, body = (await get(path, "/metrics")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    (limit,) = families["aserve_threads_limit"].samples
    assert (limit.labels, limit.value) == ({"worker": "1"}, 5)
    assert families["process_start_time_seconds"].samples[0].value > 1e9
    assert families["aserve_oldest_request_seconds"].samples[0].value == 2.5
    (queued,), (limit,) = (families[f"aserve_listen_queue{end}"].samples for end in ("", "_limit"))
    assert (queued.labels, queued.value, limit.value) == ({"listener": "http://a"}, 3, 7)
    assert families["aserve_worker_resident_bytes"].samples[0].value > 1 << 20 or not os.path.exists("/proc/self/statm")
    single.on_second()
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
    octets = await reader.readuntil(b"data: ")
    event = json.loads(await reader.readline())
    assert b"text/event-stream" in octets and event["now"]["threads_limit"] == 5
    assert event["text"] == "serving on http://a" and event["workers"][0]["at"] == [[2.5, "GET /a?..."]]
    writer.close()
    server.ongoing = lambda count: []
    single._lone.statuses.footprint_of = lambda pid: Footprint(None, None, None)
    assert b'aserve_oldest_request_seconds{worker="1"} 0.0\n' in single.exporter.render()
    single._lone.statuses.footprint_of = lambda pid: Footprint(Memory(7), 30, 1024)
    text = single.exporter.render()
    assert b'aserve_worker_resident_bytes{worker="1"} 7\n' in text and b"aserve_worker_unique_bytes" not in text
    assert b'aserve_worker_descriptors{worker="1"} 30\n' in text
    assert b'aserve_worker_descriptors_limit{worker="1"} 1024\n' in text
    single.close()
    assert not (tmp_path / "m").exists()


async def test_statsd_hears_once_a_second(tmp_path):
    """statsd hears the counts once a second; at the end that nobody serves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "s"))
        heard.setblocking(False)
        settings = {"statsd": f"unix:{tmp_path}/s", "statsd_prefix": "a", "metrics": "127.0.0.1:0"}
        single = Single(serving(**settings), asyncio.get_running_loop())
        Counters(single.memory, 5)
        single.on_second()
        lines = heard.recv(65536).decode().split("\n")
        assert {"a.workers:1|g", "a.threads.limit:5|g"} <= set(lines)
        single.close()
        assert "a.workers:0|g" in heard.recv(65536).decode().split("\n")


async def test_an_address_that_is_taken(tmp_path):
    single = Single(serving(metrics="127.0.0.1:0"), asyncio.get_running_loop())
    port = single.listeners[0].address[1]
    with pytest.raises(BindError, match=f"127.0.0.1:{port}.*another program"):
        Single(serving(metrics=f"127.0.0.1:{port}"), asyncio.get_running_loop())
    single.close()


async def test_what_balancers_are_told(tmp_path):
    """By the server's own facts: its threads, waiting requests, and orders."""
    now = NOTHING._replace(is_draining=False, told_unready="", workers=3, workers_busy_lately=2.0)
    server = serving(agent_check=f"unix:{tmp_path}/a", threads=4)
    server.statistics = lambda: now
    single = Single(server, asyncio.get_running_loop())

    async def told():
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/a")
        found = await reader.read()
        writer.close()
        return found

    assert await told() == b"up ready 55%\n"
    now = now._replace(workers_busy_lately=0.0)
    for _ in range(30):
        single.on_second()
    assert await told() == b"up ready 100%\n"
    now = now._replace(told_unready="the database is gone")
    assert await told() == b"up drain\n"
    single.close()


async def test_memory_that_grows(tmp_path, monkeypatch):
    single = Single(serving(metrics=f"unix:{tmp_path}/m"), asyncio.get_running_loop())
    seen = []
    monkeypatch.setattr(growth, "memory_of", lambda pid: seen.append(memory_of(pid)))
    for _ in range(2 * SAMPLE_SECONDS):
        single.on_second()
    assert len(seen) == 2 and seen[0].rss_bytes > 1 << 20
    single.close()


async def test_statsd_without_an_address(tmp_path):
    """Nobody can ask; statsd is told all the same, and warnings have the counts."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "s"))
        heard.setblocking(False)
        single = Single(serving(statsd=f"unix:{tmp_path}/s", statsd_prefix="a"), asyncio.get_running_loop())
        Counters(single.memory, 5)
        single.on_second()
        assert "a.workers:1|g" in heard.recv(65536).decode().split("\n")
        assert single.listeners == [] and single.counted()[0]["now"]["threads_limit"] == 5
        single.close()
        assert "a.workers:0|g" in heard.recv(65536).decode().split("\n")
