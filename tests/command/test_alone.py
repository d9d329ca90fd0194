"""Answers of a process without workers."""

import asyncio
import json
import logging

import pytest
from harness import apps

import aserve
from aserve.command.alone import control_of
from aserve.core.footprint import Memory
from aserve.processes.monitoring.questions import NO_WORKERS


async def ask(path, **question):
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(json.dumps(question).encode() + b"\n")
    lines = (await reader.read()).splitlines()
    writer.close()
    return [json.loads(line) for line in lines]


@pytest.fixture
async def path(tmp_path):
    path = tmp_path / "control"
    async with aserve.Server(apps.hello, bind="127.0.0.1:0", threads=2) as server:
        with control_of(server, str(path)):
            yield path
    assert not path.exists()


async def test_status_of_all_interfaces(tmp_path):
    """A bind open to further machines is named as in the line of the start."""
    async with aserve.Server(apps.hello, bind=["0.0.0.0:0", "127.0.0.1:0"]) as server:
        with control_of(server, str(tmp_path / "control")):
            status, _ = await ask(tmp_path / "control", ask="status")
            assert status["text"] == "serving on {} (all interfaces), {}".format(*server.urls)


async def test_the_status_is_one_row(path):
    server, worker = await ask(path, ask="status")
    assert (
        server["text"].startswith("serving on http://127.0.0.1:")
        and server["workers_wanted"] == 0
        and server["threads"] == 2
    )
    worker = worker["worker"]
    assert (worker["slot"], worker["state"], worker["requests"], worker["waiting_seconds"]) == (0, "ready", 0, 0.0)
    assert server["warnings"] == [] and [each["queued"] for each in server["listening"]] in (
        [0],
        [],
    )  # [] where the kernel does not tell


async def test_stacks_are_of_its_threads(path):
    (found,) = await ask(path, ask="stacks")
    assert found["worker"] == 0 and "waiting for requests: " in found["text"]


@pytest.mark.parametrize("question", ["reload", "recycle", "workers"])
async def test_what_needs_a_supervisor(path, question):
    assert await ask(path, ask=question) == [{"error": NO_WORKERS}]


async def test_a_caller_that_reads_late(path, monkeypatch):
    """The loop waits for room, and nobody else waits."""
    monkeypatch.setattr("aserve.command.alone.describe_stacks", lambda: "x" * 2_000_000)
    (found,) = await ask(path, ask="stacks")
    assert len(found["text"]) == 2_000_000


async def test_balancers_orders_reach_the_server(tmp_path):
    """The server itself is told, and health checks, pings and the agent's line follow."""
    async with aserve.Server(apps.hello, bind="127.0.0.1:0", threads=1) as server:
        with control_of(server, str(tmp_path / "control")):
            for wish, why in (("maint", "in maintenance by aserve balancers"), ("ready", "")):
                (found,) = await ask(tmp_path / "control", ask="balancers", wish=wish)
                assert found == {"text": f"balancers are told: {wish}"}
                assert server.statistics().told_unready == why
                assert (await ask(tmp_path / "control", ask="status"))[0]["unready"] == why


async def test_growth_of_memory_is_told(tmp_path, monkeypatch):
    """The process's memory is looked at once a minute, and growth is told."""
    looks = []

    def memory_of(pid):
        looks.append(pid)
        return Memory(int((100 << 20) * 1.01 ** len(looks)))

    monkeypatch.setattr("aserve.core.growth.memory_of", memory_of)
    monkeypatch.setattr("aserve.command.alone.SAMPLE_SECONDS", 0.0001)
    async with aserve.Server(apps.hello, bind="127.0.0.1:0", threads=1) as server:
        with control_of(server, str(tmp_path / "control")):
            while len(looks) < 60:
                await asyncio.sleep(0.001)
            status, worker = await ask(tmp_path / "control", ask="status")
    assert worker["worker"]["growth"]["minutes"] == 40
    assert any(" has grown from " in warning["text"] for warning in status["warnings"])


async def test_a_socket_that_nobody_has_asked_for(tmp_path, caplog):
    """If the socket cannot be bound, a line says so, and the server serves."""
    async with aserve.Server(apps.hello, bind="127.0.0.1:0", threads=1) as server:
        with control_of(server, str(tmp_path / "no" / "control"), logging.WARNING):
            pass
    assert "`aserve status` cannot ask this server: cannot listen on unix:" in caplog.text
    assert "does not exist; see --control" in caplog.text
