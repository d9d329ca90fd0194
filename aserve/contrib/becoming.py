"""Turns a framework's command into the command `aserve`.

Owns:     words_of, become_aserve.
Thread:   the main thread, of a process with no other work.
Not here: the commands (flask.py, django/), the command aserve (command/cli.py).

The process is replaced by exec, and not only a function called: the app is for workers to import, and not for a supervisor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def words_of(spec: str, reload: bool, bind: str | None, more: Sequence[str]) -> list[str]:
    """Return the command's words after the interpreter; `bind`: in runserver's form, a port or an address with a port."""
    words = ["-m", "aserve", spec, *(["--reload"] if reload else [])]
    if bind:
        words += ["--bind", bind if ":" in bind else f"127.0.0.1:{bind}"]
    return [*words, *more]


def become_aserve(words: Sequence[str]) -> NoReturn:
    """Replace the current process by aserve, with the same environment, folder and terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - the user has typed these words
