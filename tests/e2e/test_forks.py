"""Processes that the app starts: none of them ends the server, answers for it, or holds what is its own."""

from __future__ import annotations

import pathlib

import pytest
from conftest import has_module

APP = f"{pathlib.Path(__file__).parent / 'forking_app.py'}:app"
# Event loops, and the app on a worker or on the loop's own thread.
WAYS = [("asyncio", "4", "auto"), ("asyncio", "0", "auto")]
if has_module("uvloop"):
    WAYS = [("uvloop", "4", "auto"), ("uvloop", "0", "off"), ("asyncio", "4", "off")]


@pytest.fixture(params=WAYS, ids=["-".join(way) for way in WAYS])
def start_forking(request, start_process):
    """Start a server of the forking app."""
    loop, threads, lane = request.param

    def start(*flags):
        return start_process(APP, "--loop", loop, "--threads", threads, "--lane", lane, *flags)

    return start


def test_ends_of_children(start_forking, raw_client):
    """Processes come to the ends that the app means for them, by signals, too, and the server goes on."""
    server = start_forking()
    client = raw_client(server)
    for name, result in (
        ("terminate", "-15"),
        ("terminate_running", "-15"),
        ("interrupt", "7"),
        ("leave_pool", "True"),
        ("use_executor", "32"),
        ("use_subprocess", "(3, -15)"),
        ("use_preexec", "-15"),
    ):
        assert client.fetch("/" + name).body.decode() == result, name
    assert client.fetch("/").body == b"%d" % server.pid
    client.close()
    server.signal()
    assert server.wait() == 0
    assert server.log.count("draining") == 1
