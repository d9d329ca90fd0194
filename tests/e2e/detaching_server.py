"""A server that exchanges idle connections with another process, for test_detaching.py.

`detaching_server.py FD LOOP SETTINGS`: FD is an end of a SEQPACKET pair, SETTINGS are JSON. A line on standard input is an order, "give", "count" or
"end"; each order, and the start, is answered by a line of JSON on standard output.
"""

import asyncio
import json
import os
import pathlib
import socket
import sys
import threading
from typing import Any

import aserve

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from harness.interpreter import new_loop


def app(environ: Any, start_response: Any) -> Any:
    """Tell this process and its client; /pieces is for the event loop."""
    said = f"{os.getpid()} {environ['REMOTE_PORT']}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(said)))])
    return iter([said[:1], said[1:]]) if environ["PATH_INFO"] == "/pieces" else [said]


class Giver:
    """A server, and its end of the pair."""

    def __init__(self, channel: socket.socket, settings: dict[str, Any]) -> None:
        self._channel = channel
        self.server = aserve.Server(app, **settings)
        self.counts = {"given": 0, "adopted": 0, "refused": 0}

    async def give(self) -> None:
        """Give each idle connection to the other process."""
        for each in self.server.detach_idle():
            message = json.dumps([each.listener_index, each.peer]).encode()
            # In a thread: the pair holds few messages, and the other process may be sending, too.
            await self._loop.run_in_executor(None, socket.send_fds, self._channel, [message], [each.fd])
            os.close(each.fd)
            self.counts["given"] += 1

    def listen(self) -> None:
        """Take the other process's connections from now on, in a thread."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        while True:
            message, fds, _, _ = socket.recv_fds(self._channel, 1 << 16, 1)
            if not message:
                return
            asyncio.run_coroutine_threadsafe(self._adopt(aserve.Detached(fds[0], *json.loads(message))), self._loop)

    async def _adopt(self, detached: aserve.Detached) -> None:
        is_adopted = await self.server.adopt(detached)
        self.counts["adopted" if is_adopted else "refused"] += 1
        if not is_adopted:
            os.close(detached.fd)


async def main(channel: socket.socket, settings: dict[str, Any]) -> None:
    """Serve, and do as told."""
    giver = Giver(channel, settings)
    async with giver.server as server:
        giver.listen()
        print(json.dumps(server.addresses), flush=True)
        while True:
            order = (await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)).strip()
            if order == "give":
                await giver.give()
            elif order != "count":
                break
            print(json.dumps({**giver.counts, "open": server.connection_count}), flush=True)
        is_clean = await server.drain()
    print(json.dumps({**giver.counts, "is_clean": is_clean}), flush=True)


if __name__ == "__main__":
    loop = new_loop(sys.argv[2])
    try:
        with socket.socket(fileno=int(sys.argv[1])) as pair:
            loop.run_until_complete(main(pair, json.loads(sys.argv[3])))
    finally:
        loop.close()
