"""What extensions and the command ask of a server."""

import asyncio

import pytest
from harness.asking import hello

import aserve
from aserve.core.errors import Fault

PUBLIC = {
    "addresses", "urls", "failure", "connection_count", "is_draining", "statistics", "slow_requests", "start", "drain", "wait_failing",
    "set_unready", "reload_certificates", "reopen_logs", "detach_idle", "detach_waiting", "adopt", "refuse", "call_when_crowded",
}  # fmt: skip


def test_help_shows_public_names_alone():
    """What a program finds on the class is for programs; errors that a docstring names are in `aserve`."""
    assert {name for name in vars(aserve.Server) if name[0] != "_"} == PUBLIC
    assert issubclass(aserve.PatchedError, aserve.AserveError) and issubclass(aserve.LoadError, aserve.AserveError)


def test_the_facts_of_a_server():
    """Extensions and the command get them of one server: its addresses, clients that wait, requests; and it passes orders on."""

    async def main():
        async with aserve.Server(hello, "127.0.0.1:0") as server:
            inner = server._inner
            host, port = server.addresses[0]
            assert inner.urls == server.urls == inner.shown_urls == [f"http://{host}:{port}"]
            assert len(inner.listening()) == 1
            assert inner.ask("no such fact") is None and inner.ongoing(3) == [] and inner.thread_seconds(0.0) == 0
            assert inner.statistics().requests == server.statistics().requests == 0
            inner.obey("no extension knows this")
            inner.show_fault(Fault("importing a raised", ""))
            await inner.stop_accepting()

    asyncio.run(main())


def test_run_under_a_running_loop_says_what_to_write():
    """In a cell of Jupyter, or in a coroutine, the error names the form for it, and nothing is left unawaited."""

    async def main():
        with pytest.raises(RuntimeError, match=r"as in Jupyter.* write: async with aserve\.Server\(app, \.\.\.\)"):
            aserve.run(hello, "127.0.0.1:0")

    asyncio.run(main())
