"""What a server keeps of its requests, by its settings."""

from __future__ import annotations

import asyncio
import mmap
import types

import pytest

from aserve.connections.statistics import Statistics
from aserve.core import error_log
from aserve.core.errors import BindError, RequestRefused
from aserve.core.exchange import Exchange
from aserve.features import Config
from aserve.metrics.counting import read_words
from aserve.metrics.table import PAGE_WORDS, PLACES
from aserve.records import Records
from aserve.workers.busy import Busy
from aserve.workers.inline import InlineExecutor

NOTHING = Statistics(*[0] * len(Statistics._fields))


def serving(statistics=NOTHING, **settings):
    """Return a server with such settings, that does so much."""
    return types.SimpleNamespace(
        config=Config(**settings), statistics=lambda: statistics, thread_seconds=lambda now: 3.0
    )


async def test_nothing():
    """Then nobody is told of requests, and nothing is looked up once a second."""
    records = Records(serving(), asyncio.get_running_loop(), Busy(1))
    assert records.new_log(InlineExecutor()) is None and not records.wants_times and records.bound == []
    records.flush()
    records.on_second()
    records.reopen()
    records.close()


async def test_the_access_log(tmp_path):
    """It is written once a second, and goes on in a new file when it is told to."""
    records = Records(serving(access_log=str(tmp_path / "log")), asyncio.get_running_loop(), Busy(1))
    log = records.new_log(InlineExecutor())
    assert log is not None and not records.wants_times
    log.write_refused(types.SimpleNamespace(remote_addr="10.0.0.1"), None, RequestRefused(400, "why"))
    records.flush()
    records.on_second()
    assert "10.0.0.1" in (tmp_path / "log").read_text()
    (tmp_path / "log").unlink()
    records.reopen()
    assert (tmp_path / "log").exists()
    records.close()


async def test_counters_of_a_worker(monkeypatch):
    """They are in the memory that it is given, and it listens nowhere: its supervisor does."""
    memory = mmap.mmap(-1, PAGE_WORDS * 8)
    busy = Busy(1)
    server = serving(NOTHING._replace(connections_running=4), metrics="127.0.0.1:1")
    records = Records(server, asyncio.get_running_loop(), busy, memory)
    assert records.wants_times and records.bound == []
    monkeypatch.setattr(error_log, "lost_lines", lambda: 5)
    busy.look(50.0, 0, 0, counted_seconds=3.0)
    records.on_second()
    assert read_words(memory)[PLACES["aserve_requests_in_flight"]] == 4
    assert read_words(memory)[PLACES["aserve_threads_busy_seconds_total"]] == 3_000_000
    assert read_words(memory)[PLACES["aserve_error_log_lines_lost_total"]] == 5
    records.close()


async def test_both_of_one_process(tmp_path):
    """Both are told of what waits at the end, the listener's address is known, and the end closes all of it."""
    server = serving(metrics=f"unix:{tmp_path}/m", access_log=str(tmp_path / "log"))
    records = Records(server, asyncio.get_running_loop(), Busy(1))
    assert len(records.bound) == 1 and records.counted()[0]["minute"]["requests"] == 0
    executor, exchange = InlineExecutor(), Exchange("", 0)
    log = records.new_log(executor)
    executor.jobs.append((print, "a job"))
    exchange.connection = types.SimpleNamespace(remote_addr="10.0.0.1")
    log.write(exchange)
    assert not sum(read_words(records._single.memory)[: PLACES["aserve_response_body_bytes_total"]])
    records.flush()
    records.on_second()
    assert sum(read_words(records._single.memory)[: PLACES["aserve_response_body_bytes_total"]]) == 1
    log.write(exchange)
    records.close()
    assert (tmp_path / "log").read_text().count("10.0.0.1") == 2
    assert not (tmp_path / "m").exists()
    records.close()


async def test_stats_count_too(tmp_path):
    """Who has only them has counters."""
    records = Records(serving(stats=f"unix:{tmp_path}/s"), asyncio.get_running_loop(), Busy(1))
    assert records.wants_times and len(records.bound) == 1
    records.close()


async def test_an_address_that_cannot_be(tmp_path):
    """The log is closed again; the address is named."""
    server = serving(metrics=f"unix:{tmp_path}/no/m", access_log=str(tmp_path / "log"))
    with pytest.raises(BindError, match="no/m"):
        Records(server, asyncio.get_running_loop(), Busy(1))


async def test_balancers_alone(tmp_path):
    """Who asks for a weight only has nothing counted, and no times taken."""
    path = f"unix:{tmp_path}/a"
    records = Records(serving(agent_check=path), asyncio.get_running_loop(), Busy(1))
    assert records.new_log(InlineExecutor()) is None and not records.wants_times and len(records.bound) == 1
    records.flush()
    records.on_second()
    assert records.counted() == ({}, {})
    records.close()
    memory = mmap.mmap(-1, PAGE_WORDS * 8)  # of a worker: its supervisor answers
    records = Records(serving(agent_check=path), asyncio.get_running_loop(), Busy(1), memory)
    assert records.bound == []
    records.close()
