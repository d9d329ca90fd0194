"""The screen of `aserve top`: asks a running server each second, and acts on keys.

Owns:     run_top; asking without blocking; the screen, its keys.
Thread:   event loop only.
Not here: the texts (top.py), the answers (processes/answers.py), the other commands (ask.py).

The only user of textual, an optional dependency, which only `aserve top` needs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Static

from ...core.json_text import read_object
from .ask import ENDED, NO_ANSWER, show_stacks
from .top import Looks, Message, Table, head_of, printable, requests_table, slow_table, workers_table

EVERY_SECONDS = 1.0  # a worker writes its numbers as often
# How long a status may take. Guess: normally milliseconds, and a hundred times that on a machine short of memory.
STATUS_SECONDS = 5.0
# The server waits two seconds for a worker's stacks (processes/answers.py).
STACKS_SECONDS = 10.0

BAD = "bold red"
WARNING = "bold yellow"


class NoAnswer(Exception):
    """The server has not answered, or has refused; the text says why."""


def run_top(path: str) -> None:
    """Show the server at this control socket, until the user quits."""
    Top(path).run()


async def ask(path: str, question: Message, seconds: float | None = None) -> list[Message]:
    """
    Return the whole answer of a server.

    Raises:
        NoAnswer: there is none within `seconds`, or it is a refusal.
    """
    try:
        octets = await asyncio.wait_for(_exchange(path, json.dumps(question).encode() + b"\n"), seconds)
        answer: list[Message] = [read_object(line) for line in octets.splitlines()]
    except asyncio.TimeoutError:
        raise NoAnswer(f"nothing within {seconds:g} s") from None
    except OSError as exc:
        raise NoAnswer(f"no server answers at {path!r} ({exc.strerror})") from None
    except ValueError:
        raise NoAnswer(NO_ANSWER if octets.endswith(b"\n") else ENDED) from None
    if not answer:
        raise NoAnswer(ENDED)
    for message in answer:
        if "error" in message:
            raise NoAnswer(message["error"])
    return answer


async def _exchange(path: str, octets: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(octets)
        return await reader.read()
    finally:
        writer.close()


class TextScreen(ModalScreen[None]):
    """A long text, such as stacks, shown when it has arrived."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "back", key_display="q")]

    def __init__(self, title: str, text: Awaitable[str]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._shown = Static("asking ...", id="text")

    def compose(self) -> ComposeResult:
        """See textual."""
        yield Static(Text(self._title), id="title")
        with VerticalScroll():
            yield self._shown
        yield Footer()

    def on_mount(self) -> None:
        """Focus the text, and fill it."""
        self.query_one(VerticalScroll).focus()
        self.run_worker(self._fill())

    async def _fill(self) -> None:
        try:
            text = Text(printable(await self._text))
        except NoAnswer as fault:
            text = Text(printable(str(fault)), style=BAD)
        self._shown.update(text)


class Confirming(ModalScreen[bool]):
    """A question before an action."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "yes"),
        Binding("n,escape,q", "dismiss(False)", "no", key_display="n"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """See textual."""
        with Vertical():
            yield Static(Text(self._text))
        yield Footer()


class Lines(DataTable[Text]):
    """A table with selectable rows, which keeps its scroll position."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", cursor_foreground_priority="renderable", cell_padding=0)
        self._slots: list[int] = []

    @property
    def chosen_slot(self) -> int:
        """Return the worker of the chosen row; 0: there is none."""
        return self._slots[min(self.cursor_row, len(self._slots) - 1)] if self._slots else 0

    def fill(self, table: Table, width: int) -> None:
        """Show a table, for a width in columns."""
        self._slots = [row.slot for row in table.rows]
        if [column.width for column in self.ordered_columns] != [width]:
            self.clear(columns=True)
            self.add_column("", width=width)  # one column with aligned text: DataTable's own columns cannot grow
        self.ordered_columns[0].label = Text(" ".join(table.heads))
        while self.row_count > len(table.rows):
            self.remove_row(self.ordered_rows[-1].key)
        for index, row in enumerate(table.rows):
            text = Text(" ".join(row.cells), style=WARNING if row.needs_look else "")
            if index == self.row_count:
                self.add_row(text)
            else:
                self.update_cell_at(Coordinate(index, 0), text)


class Watching(Screen[None]):
    """The live view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stacks(False)", "stacks"),
        Binding("a", "stacks(True)", "stacks of all"),
        Binding("r", "reload", "reload"),
        Binding("c", "recycle", "recycle"),
        Binding("plus", "workers(1)", "one more", key_display="+"),
        Binding("minus", "workers(-1)", "one less", key_display="-"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._looks = Looks()
        self._failure: str | None = None
        # Kept here, and not queried: an answer may come after the screen's end.
        self._head, self._message = Static(id="head"), Static(id="message")
        self._workers, self._requests, self._slow = Lines("workers"), Lines("requests"), Lines("slow")

    def compose(self) -> ComposeResult:
        """See textual."""
        yield from (self._head, self._workers, self._requests, self._slow, self._message)
        yield Footer()

    # Asking

    def on_mount(self) -> None:
        """Begin to ask, and to paint."""
        self.run_worker(self._go_on_asking())
        self.set_interval(EVERY_SECONDS, self._paint)  # also while no answer comes

    async def _go_on_asking(self) -> None:
        while True:
            asked_at = time.monotonic()
            try:
                answer = await ask(self._path, {"ask": "status"}, STATUS_SECONDS)
                self._looks.add(time.monotonic(), answer)
                self._failure = None
            except NoAnswer as fault:
                self._failure = str(fault)
            self._paint()
            await asyncio.sleep(max(asked_at + EVERY_SECONDS - time.monotonic(), 0))

    async def _do(self, name: str, question: Message) -> None:
        self._message.update(Text(f"{name} ..."))
        try:
            (answer,) = await ask(self._path, question)
            self._message.update(Text(f"{name}: {printable(answer['text'])}"))
        except NoAnswer as fault:
            self._message.update(Text(f"{name}: {printable(str(fault))}", style=BAD))

    # Showing

    def on_resize(self) -> None:
        """Paint for the new size."""
        self._paint()

    def _paint(self) -> None:
        with self.app.batch_update():
            lines = head_of(self._looks, time.monotonic(), self._path, self._failure)
            self._head.update(Text("\n").join(Text(line.text, style=WARNING if line.is_bad else "") for line in lines))
            width = self.app.size.width - 1  # for the scroll bar
            self._workers.fill(workers_table(self._looks, width), width)
            self._requests.fill(requests_table(self._looks, width), width)
            slow = slow_table(self._looks, width)
            self._slow.display = bool(slow.rows)  # only with --slow-request
            self._slow.fill(slow, width)

    # Keys

    def action_stacks(self, of_all: bool) -> None:
        """Show the stacks of the chosen worker, or of all."""
        slot = 0 if of_all else self._chosen_slot()
        question: Message = {"ask": "stacks", "worker": slot} if slot else {"ask": "stacks"}
        title = f"stacks of worker {slot}" if slot else "stacks of all workers"
        self.app.push_screen(TextScreen(title, self._stacks(question)))

    def _chosen_slot(self) -> int:
        table = next((table for table in (self._requests, self._slow) if self.focused is table), self._workers)
        return table.chosen_slot

    async def _stacks(self, question: Message) -> str:
        answer = await ask(self._path, question, STACKS_SECONDS)
        return "\n".join(map(show_stacks, sorted(answer, key=lambda message: message["worker"])))

    def action_reload(self) -> None:
        """Replace all workers, after a confirmation."""
        text = "Reload? All workers are replaced by new ones, which read code and settings anew."
        self._confirm(text, "reload", {"ask": "reload"})

    def action_recycle(self) -> None:
        """Replace the chosen worker, after a confirmation."""
        slot = self._chosen_slot()
        if not slot:
            self._message.update(Text("recycle: choose the row of a worker", style=BAD))
            return
        text = f"Recycle worker {slot}? Its successor starts, then it ends what it has begun, and leaves."
        self._confirm(text, f"recycle {slot}", {"ask": "recycle", "worker": slot})

    def _confirm(self, text: str, name: str, question: Message) -> None:
        def on_answer(is_meant: Any) -> None:
            if is_meant:
                self.run_worker(self._do(name, question))

        self.app.push_screen(Confirming(f"{text}\n\ny: yes   n: no"), on_answer)

    def action_workers(self, change: int) -> None:
        """Add or remove workers."""
        self.run_worker(self._do(f"workers {change:+}", {"ask": "workers", "change": change}))


class Top(App[None]):
    """The program."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "aserve top"
    CSS = """
    #head { height: auto; padding: 0 0 1 0; }
    Lines { overflow-x: hidden; scrollbar-size-vertical: 1; }
    Lines, Lines:focus { background: $background; background-tint: $background 0%; }
    Lines > .datatable--cursor { background: $background; }
    Lines:focus > .datatable--cursor { background: $panel-lighten-2; }
    #workers { height: auto; max-height: 60%; }
    #requests { height: 1fr; margin: 1 0 0 0; }
    #slow { height: auto; max-height: 30%; margin: 1 0 0 0; }
    #message { height: auto; max-height: 8; overflow-y: auto; }
    TextScreen { background: $background; }
    TextScreen #title { text-style: bold; padding: 0 0 1 0; }
    TextScreen #text { height: auto; }
    Confirming { align: center middle; }
    Confirming Vertical { width: 60; height: auto; border: round $warning; background: $background; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True)  # users try it first
    ]

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def get_default_screen(self) -> Watching:
        """See textual."""
        return Watching(self._path)
