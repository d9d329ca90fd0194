"""A program of asyncio's: FastAPI and a WSGI admin on one event loop, in one process. `python program.py`, then Ctrl-C.

The counter stands for what your program keeps in memory. Both see it: FastAPI on the event loop, the admin in worker threads.
"""

import asyncio
import os
import signal

import flask
import uvicorn
from fastapi import FastAPI

import aserve

API_PORT = int(os.environ.get("API_PORT", "8000"))
ADMIN_BIND = os.environ.get("ADMIN_BIND", "127.0.0.1:8001")

api = FastAPI()
admin = flask.Flask(__name__)
counter = {"requests": 0}


@api.get("/")
async def count():
    counter["requests"] += 1
    return counter


@admin.get("/")
def show():
    return f"{counter['requests']} requests\n"


@admin.post("/reset")
def reset():
    # The loop's thread changes the counter, too: let it do this, and wait until it has.
    asyncio.run_coroutine_threadsafe(set_to_zero(), admin.config["loop"]).result(timeout=5)
    return "reset\n"


async def set_to_zero():
    counter["requests"] = 0


async def main():
    admin.config["loop"] = loop = asyncio.get_running_loop()
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=API_PORT))

    def stop():
        server.should_exit = True

    # uvicorn has handlers of its own. When it has stopped, it sends the signal again: without these, that would end the program at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    async with aserve.Server(admin, bind=ADMIN_BIND, threads=4) as wsgi:
        print("admin on", wsgi.addresses, flush=True)
        await server.serve()  # until a signal; leaving the block lets the admin finish what runs


if __name__ == "__main__":
    asyncio.run(main())
