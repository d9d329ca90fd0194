"""A control socket whose answers a test says, on the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from typing import Any


class FakeControl:
    """Answers each question from `answers`, by its name; silent while `gate` is closed."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = str(path)
        self.answers: dict[str, list[dict[str, Any]]] = {}
        self.questions: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._server: asyncio.AbstractServer | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> FakeControl:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.stop()
        await asyncio.sleep(0)  # a just accepted client has a writer
        for writer in self._writers:  # a transport that outlives its loop is an error, whenever PyPy finds it
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._on_call, self.path)

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        with contextlib.suppress(FileNotFoundError):  # Python 3.13 removes it itself
            pathlib.Path(self.path).unlink()

    def asked(self, name: str) -> list[dict[str, Any]]:
        """Return the questions of this name so far."""
        return [question for question in self.questions if question["ask"] == name]

    async def _on_call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if not line:  # the caller has left
            return
        question = json.loads(line)
        self.questions.append(question)
        with contextlib.suppress(asyncio.CancelledError):  # the test ends
            await self.gate.wait()
        for message in self.answers.get(question["ask"], []):
            writer.write(json.dumps(message).encode() + b"\n")
