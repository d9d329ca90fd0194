"""A process that answers by itself."""

from __future__ import annotations

import asyncio

import pytest
from harness.asking import get
from prometheus_client.parser import text_string_to_metric_families

from aserve.errors import BindError
from aserve.metrics.counting import Counters
from aserve.metrics.single import Single
from aserve.settings import Config


@pytest.mark.both_loops
async def test_it_answers(tmp_path):
    """On the loop, with what is in its memory, until it is closed."""
    path = str(tmp_path / "m")
    single = Single(Config(metrics=f"unix:{path}"), asyncio.get_running_loop())
    Counters(single.memory, 5)
    head, _, body = (await get(path, "/metrics")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    (limit,) = families["aserve_threads_limit"].samples
    assert (limit.labels, limit.value) == ({"worker": "1"}, 5)
    assert families["process_start_time_seconds"].samples[0].value > 1e9
    single.on_second()
    single.close()
    assert not (tmp_path / "m").exists()


async def test_an_address_that_is_taken(tmp_path):
    """It says which."""
    single = Single(Config(metrics="127.0.0.1:0"), asyncio.get_running_loop())
    port = single.listeners[0].address[1]
    with pytest.raises(BindError, match=f"127.0.0.1:{port}.*another program"):
        Single(Config(metrics=f"127.0.0.1:{port}"), asyncio.get_running_loop())
    single.close()
