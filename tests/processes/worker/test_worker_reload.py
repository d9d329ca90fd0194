"""A worker with --reload: it tells changed files, and shows why new code does not start."""

import asyncio

import pytest
from harness.asking import get, hello
from harness.leading import Leading, lead_by

from aserve.core.errors import Fault
from aserve.core.page import Field
from aserve.lifecycle.loading import not_loaded
from aserve.lifecycle.mounts import Mounts, nothing_here
from aserve.processes.children.pages import Pages
from aserve.processes.children.role import Role
from aserve.processes.worker.worker import Worker

DRAIN = {"do": "drain", "stopping": True}
FAULT = Fault("no module 'a'", "")
EXTRA = "extra.html"


class Reloading(Leading):
    """The surroundings of a worker in slot 1, or another."""

    def __init__(self, slot=1, fault=None, spec=None, **settings):
        super().__init__(workers=1, threads=1, reload=True, reload_extra=EXTRA, **settings)
        pages = Pages(1)
        self.page = pages.page(pages.take())
        self.address = self.listeners[0].address
        plan = self.plan._replace(spec=spec)
        self.role = Role(slot, 1, plan, self.theirs, self.listeners, self.page, pages, fault=fault)

    async def start(self, app=hello):
        """Serve until ready."""
        worker = Worker(self.role, not_loaded if self.role.fault else app, asyncio.get_running_loop())
        self.running = asyncio.ensure_future(worker.run())
        await self.wait_for("ready")

    async def wait_for(self, said):
        """Wait until the worker says this; return the words."""
        while True:
            for message in self.heard():
                if message["say"] == said:
                    return message
            await asyncio.sleep(0.01)

    async def stop(self):
        self.channel.send(DRAIN)
        assert await asyncio.wait_for(self.running, 30) == 0


lead = lead_by(Reloading)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / EXTRA).write_text("")


@pytest.mark.parametrize("spec", [None, "a:app"])
async def test_a_file_changes(lead, tmp_path, spec):
    led = lead(spec=spec)
    await led.start()
    (tmp_path / EXTRA).write_text("more")
    assert await led.wait_for("changed") == {"say": "changed", "why": f"{EXTRA} has changed"}
    await led.stop()


async def test_one_worker_looks(lead, tmp_path):
    """The rest have the same code, and would all say the same."""
    led = lead(slot=2)
    await led.start()
    assert not any("reload" in task.get_coro().__qualname__.lower() for task in asyncio.all_tasks())
    led.channel.send({"do": "show fault", "why": "no module 'a'", "traceback": ""})
    while b"no module" not in await ask_for_html(led.address):
        await asyncio.sleep(0.01)
    await led.stop()


async def test_a_fault_is_shown(lead, tmp_path):
    """A browser sees the fault; from now on each Python file of the project counts."""
    led = lead()
    await led.start()
    led.channel.send({"do": "show fault", "why": "no module 'a'", "traceback": "Traceback: here"})
    while b"Traceback: here" not in await ask_for_html(led.address):
        await asyncio.sleep(0.01)
    assert (await get(led.address)).endswith(b"hello")
    (tmp_path / "a.py").write_text("")
    assert await led.wait_for("changed") == {"say": "changed", "why": "a.py has changed"}
    await led.stop()


async def ask_for_html(address):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
    octets = await reader.read()
    writer.close()
    return octets


async def test_in_place_of_an_app(lead, tmp_path):
    """Where nothing can be served, the fault is; and a missing file counts."""
    led = lead(fault=FAULT)
    await led.start()
    assert (await get(led.address)).startswith(b"HTTP/1.1 500 ")
    (tmp_path / "a.py").write_text("")
    assert await led.wait_for("changed") == {"say": "changed", "why": "a.py has changed"}
    await led.stop()
    assert led.page[Field.TICK] > 0


async def test_mounts_are_served_with_reload(lead):
    led = lead(mount="/a=b:c")
    await led.start(Mounts([("/a", hello)], nothing_here))
    assert (await get(led.address, "/a")).endswith(b"hello")
    await led.stop()
