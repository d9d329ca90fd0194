"""The screen of `aserve top`, driven as by a person, against a fake control socket.

A screen is textual's work, which takes ten seconds a test on PyPy: its run has one screen that shows all, one that asks, and the command itself
(e2e/test_top.py).
"""

import asyncio
import contextlib
import time

import pytest
from harness.fake_control import FakeControl
from harness.interpreter import ONCE
from harness.terminal import text_of

pytest.importorskip("textual", reason="the screen needs textual, which this interpreter has not")

from textual.widgets import DataTable

from aserve.features.control import top_screen
from aserve.features.control.top_screen import Confirming, NoAnswer, TextScreen, Top, ask

pytestmark = pytest.mark.long_on_pypy

WORKER = {
    "slot": 1, "pid": 11, "generation": 1, "state": "ready", "seconds": 60.0, "requests": 7, "connections": 3, "running": 1,
    "waiting": 0, "threads_busy": 1, "silent_seconds": 0.4, "rss_bytes": 50 << 20, "pss_bytes": 40 << 20,
    "uss_bytes": 30 << 20, "at": [[2.5, "GET /a[b]"]],
}  # fmt: skip
SECOND = {**WORKER, "slot": 2, "pid": 12, "at": [[42.0, "GET /slow"]]}
SERVER = {
    "version": "1", "python": "cpython 3", "pid": 10, "seconds": 5.0, "text": "serving on x", "threads": 4,
    "workers_wanted": 2, "workers_ready": 2,
}  # fmt: skip
STATUS = [SERVER, {"worker": WORKER}, {"worker": SECOND}]


@pytest.fixture
async def server(tmp_path, monkeypatch):
    monkeypatch.setattr(top_screen, "EVERY_SECONDS", 0.2)
    async with FakeControl(tmp_path / "control") as server:
        server.answers["status"] = STATUS
        yield server


@contextlib.asynccontextmanager
async def watching(server, size=(80, 24)):
    """Run the screen; `until` waits for its text."""
    app = Top(server.path)
    app.animation_level = "none"  # scrolling would be drawn sixty times a second
    async with app.run_test(size=size) as pilot:
        yield pilot, Until(pilot)


class Until:
    def __init__(self, pilot):
        self._pilot = pilot

    async def __call__(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, text_of(self._pilot.app)
            await self._pilot.pause(0.05)

    async def shows(self, *texts):
        await self(lambda: all(text in text_of(self._pilot.app) for text in texts))

    async def hides(self, text):
        await self(lambda: text not in text_of(self._pilot.app))


def colours_of(app, text):
    (line,) = (strip for strip in app.screen._compositor.render_strips() if text in strip.text)
    return {
        segment.style.color.name for segment in line if segment.style and segment.style.color and segment.text.strip()
    }


async def test_what_it_shows(server):
    """The head, both tables, the keys; a target is no markup."""
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        await until.shows(
            "aserve 1 on cpython 3, pid 10",
            "serving on x",
            "2 of 2 workers ready",
            "GET /a[b]",
            "old request",
            "q quit",
        )
        shown = text_of(pilot.app)
        for key in ("s stacks", "r reload", "c recycle", "+ one more", "- one less", "q quit"):
            assert key in shown.splitlines()[-1]
        await pilot.press("q")
    assert pilot.app.return_code == 0


@ONCE
async def test_slow_requests_have_their_table(server):
    """Slow requests have a table, as soon as there is one; a key there shows the stacks of its worker."""
    async with watching(server, size=(120, 30)) as (pilot, until):
        await until.shows("GET /slow")
        assert "slow requests" not in text_of(pilot.app)
        slow = {
            "at": 1.0, "worker": 2, "seconds": 9.5, "queue_seconds": 1.0, "end": None, "status": None, "request": "GET /late",
            "where": "File here",
        }  # fmt: skip
        server.answers["status"] = [{**SERVER, "slow": [slow]}, *STATUS[1:]]
        await until.shows("slow requests", "GET /late", "File here")
        await pilot.press("tab", "tab", "s")
        await until(lambda: server.asked("stacks") == [{"ask": "stacks", "worker": 2}])


@ONCE
async def test_what_needs_a_look_is_coloured(server):
    """The row of the worker, and of the request; also where the cursor is."""
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        await until.shows("  11 ready", "  12 ready")
        plain, bad = colours_of(pilot.app, "  11 ready"), colours_of(pilot.app, "  12 ready")
        assert len(plain) == len(bad) == 1 and plain != bad
        await pilot.press("down")
        await until(lambda: pilot.app.screen.query_one("#workers", DataTable).cursor_row == 1)
        assert colours_of(pilot.app, "  12 ready") == bad
        server.answers["status"] = [{**SERVER, "text": "degraded: bad", "workers_ready": 1}, *STATUS[1:]]
        await until.shows("degraded: bad")
        assert colours_of(pilot.app, "degraded: bad") == bad


@ONCE
async def test_it_asks_anew(server):
    """The numbers move, rows come and go, and the chosen row stays chosen."""
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        await pilot.press("down")
        server.answers["status"] = [*STATUS, {"worker": {**WORKER, "slot": 3, "pid": 13, "at": []}}]
        await until.shows("   13 ready")
        assert pilot.app.screen.query_one("#workers", DataTable).cursor_row == 1
        server.answers["status"] = STATUS[:2]
        await until.hides("12 ready")
        await until(lambda: pilot.app.screen.query_one("#workers", DataTable).cursor_row == 0)


@ONCE
async def test_another_size_has_more_columns(server):
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        assert "oldest request " not in text_of(pilot.app)
        await pilot.resize_terminal(120, 40)
        await until.shows("oldest request ")


@ONCE
async def test_many_workers_scroll(server):
    """The tables share the screen, and each scrolls; the chosen row is in sight after the next answer, too."""
    many = [{"worker": {**WORKER, "slot": slot, "pid": 100 + slot}} for slot in range(1, 33)]
    server.answers["status"] = [SERVER, *many]
    async with watching(server) as (pilot, until):
        await until.shows(" 101 ready", "oldest requests")
        await pilot.press("ctrl+end")
        await until.shows(" 132 ready")
        count = len(server.questions)
        await until(lambda: len(server.questions) > count + 2)
        assert " 132 ready" in text_of(pilot.app)


@ONCE
async def test_nobody_answers_and_rows_stay(server):
    """Without an answer the screen says so, goes on asking, and keeps its rows; at first it has nothing to show."""
    server.stop()
    async with watching(server) as (pilot, until):
        await until.shows("no server answers at")
        await server.start()
        await until.shows("GET /slow")
        await until.hides("no server answers")
        server.stop()
        await until.shows("no answer for")
        assert "GET /slow" in text_of(pilot.app)
        await server.start()
        await until.hides("no answer for")


@ONCE
async def test_a_silent_server_holds_nothing(server, monkeypatch):
    """The screen turns while it waits for an answer, and tells its age."""
    monkeypatch.setattr("aserve.features.control.top.LATE_SECONDS", 0.1)
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        server.gate.clear()
        await until.shows("asking again; what you see is from before")
        await pilot.press("q")
    assert pilot.app.return_code == 0


@ONCE
async def test_stacks_of_the_chosen_row(server):
    """Stacks are of the chosen worker, of the chosen request's, or of all; they scroll, and are no markup."""
    lines = "".join(f"  line {number}\n" for number in range(60))
    server.answers["stacks"] = [
        {"worker": 2, "pid": 12, "text": lines},
        {"worker": 1, "pid": 11, "text": "at GET /a[b]\x1b[2J:\n"},
    ]
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        for keys, question, title in (
            (["s"], {"ask": "stacks", "worker": 1}, "stacks of worker 1"),
            (["a"], {"ask": "stacks"}, "stacks of all workers"),
            (["down", "s"], {"ask": "stacks", "worker": 2}, "stacks of worker 2"),
            (["up", "tab", "s"], {"ask": "stacks", "worker": 2}, "stacks of worker 2"),  # the oldest request is its
        ):
            server.questions.clear()
            await pilot.press(*keys)
            await until.shows(title, "at GET /a[b]?[2J:")
            assert server.asked("stacks") == [question]
            shown = text_of(pilot.app)
            assert shown.index("--- worker 1 (pid 11)") < shown.index("--- worker 2 (pid 12)")
            await pilot.press("end")
            await until.shows("line 59")
            await pilot.press("q")
            await until(lambda: not isinstance(pilot.app.screen, TextScreen))


@ONCE
async def test_stacks_that_do_not_come(server):
    """The reason takes the stacks' place; while they are awaited, the screen says so."""
    server.answers["stacks"] = [{"error": "there is no worker 1"}]
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        server.gate.clear()
        await pilot.press("s")
        await until.shows("asking ...")
        server.gate.set()
        await until.shows("there is no worker 1")


@ONCE
async def test_stacks_of_a_server_without_workers(server):
    """The single process has no number; and with no row, all are meant."""
    server.answers["status"] = [{**SERVER, "workers_wanted": 0}, {"worker": {**WORKER, "slot": 0}}]
    async with watching(server) as (pilot, until):
        await pilot.press("s")
        await until(lambda: server.asked("stacks") == [{"ask": "stacks"}])
        await pilot.press("q")
        await until.shows("   11 ready")
        await pilot.press("s")
        await until(lambda: len(server.asked("stacks")) == 2)
        assert server.asked("stacks")[1] == {"ask": "stacks"}
        await pilot.press("q", "c")
        await until.shows("recycle: choose the row of a worker")


@ONCE
async def test_a_reload_asks_for_confirmation(server):
    """A reload asks for a confirmation; its end is shown, and the screen is alive until then."""
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        await pilot.press("r")
        await until.shows("All workers are replaced")
        await pilot.press("n")
        await until(lambda: not isinstance(pilot.app.screen, Confirming))
        assert server.asked("reload") == []
        for answer in ({"text": "done in 1.0 s"}, {"error": "nothing was reloaded: [broken]"}):
            server.questions.clear()
            server.answers["reload"] = [answer]
            server.gate.clear()
            await pilot.press("r")
            await until(lambda: isinstance(pilot.app.screen, Confirming))
            await pilot.press("y")
            await until.shows("reload ...")
            server.gate.set()
            await until.shows(f"reload: {next(iter(answer.values()))}")
            assert len(server.asked("reload")) == 1


async def test_a_recycling_asks_for_confirmation(server):
    server.answers["recycle"] = [{"text": "worker 1 is replaced: pid 17 serves"}]
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        await pilot.press("c")
        await until.shows("Recycle worker 1?")
        await pilot.press("y")
        await until.shows("recycle 1: worker 1 is replaced: pid 17 serves")
        assert server.asked("recycle") == [{"ask": "recycle", "worker": 1}]


@ONCE
async def test_more_or_fewer_workers(server):
    server.answers["workers"] = [{"text": "workers: 3; before: 2"}]
    async with watching(server) as (pilot, until):
        await until.shows("GET /slow")
        for key, change in (("plus", 1), ("minus", -1)):
            server.questions.clear()
            await pilot.press(key)
            await until.shows(f"workers {change:+}: workers: 3; before: 2")
            assert server.asked("workers") == [{"ask": "workers", "change": change}]


# Asking


async def test_ask_returns_the_whole_answer(server):
    assert await ask(server.path, {"ask": "status"}, 60) == STATUS


@pytest.mark.parametrize(
    ("answer", "why"),
    [([], "the server ended, or was upgraded, before it answered"), ([{"error": "not now"}], "not now")],
)
async def test_no_answer_is_one_reason(server, answer, why):
    server.answers["status"] = answer
    with pytest.raises(NoAnswer, match=why):
        await ask(server.path, {"ask": "status"})


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b'{"version": ', "the server ended, or was upgraded, before it answered"),
        (b"[" * 100_000 + b"\n", "what answers there is not aserve's control socket"),
        (b"HTTP/1.1 400 Bad Request\r\n", "what answers there is not aserve's control socket"),
    ],
    ids=["half an answer", "deep", "another server"],
)
async def test_what_is_no_answer(tmp_path, octets, why):
    """The server was killed amid its answer, or the socket is not --control's."""

    async def on_call(reader, writer):
        await reader.readline()
        writer.write(octets)
        writer.close()

    server = await asyncio.start_unix_server(on_call, str(tmp_path / "control"))
    with pytest.raises(NoAnswer, match=why):
        await ask(str(tmp_path / "control"), {"ask": "status"})
    server.close()


async def test_nobody_to_ask(server, tmp_path):
    """There is no such socket, or nothing comes in time."""
    with pytest.raises(NoAnswer, match=r"no server answers at .*no.* \(No such file or directory\)"):
        await ask(str(tmp_path / "no"), {"ask": "status"})
    server.gate.clear()
    with pytest.raises(NoAnswer, match=r"nothing within 0\.01 s"):
        await ask(server.path, {"ask": "status"}, 0.01)
    server.gate.set()


def test_run_top_starts_the_screen(monkeypatch):
    ran = []
    monkeypatch.setattr(Top, "run", lambda self: ran.append(self._path))
    top_screen.run_top("/run/control")
    assert ran == ["/run/control"]
