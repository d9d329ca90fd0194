"""An app that does a request's bidding with the module `uwsgi`, and notes runs of timers and signals."""

from typing import Any

from .client import fetch_once

# /: runs `do`, a line of Python; returns its value and the worker's pid. `note` writes a line with the pid into a file.
APP = """\
import os, time
import uwsgi
from uwsgidecorators import *

def note(what):
    with open("notes", "a") as file:
        file.write(f"{what} {os.getpid()}\\n")

def gate(name):
    note(f"{name}-waits")
    while not os.path.exists(name):
        time.sleep(0.005)
    note(f"{name}-open")

def app(environ, start_response):
    value = eval(bytes.fromhex(environ["QUERY_STRING"]).decode())
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{value!r} {os.getpid()}".encode()]

"""


def ask(process: Any, do: str) -> tuple[str, int]:
    """Have a worker do this; return the result, and its pid."""
    reply = fetch_once(process.address, f"/?{do.encode().hex()}")
    assert reply.status == 200
    value, _, pid = reply.body.decode().rpartition(" ")
    return value, int(pid)


def notes(process: Any) -> list[tuple[str, int]]:
    """Return the noted words, each with the pid."""
    try:
        text = (process.folder / "notes").read_text()
    except FileNotFoundError:
        return []
    return [(word, int(pid)) for word, _, pid in (line.partition(" ") for line in text.splitlines() if line.count(" "))]


def who(process: Any, word: str) -> list[int]:
    """Return the pids with a note of this word."""
    return [pid for noted, pid in notes(process) if noted == word]
