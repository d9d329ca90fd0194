"""A framework's command becomes the command `aserve`.

Owns:     words_of, become_aserve.
Thread:   the main thread, of a process that nothing else runs in.
Not here: the commands (flask.py, django/), everything that aserve does then (command/cli.py).

The process is replaced, and not only a function called: what the framework has imported is of no use to a supervisor, which imports
the app in its workers, and must not have it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def words_of(spec: str, reload: bool, bind: str | None, more: Sequence[str]) -> list[str]:
    """Return the command's words behind the interpreter; a bind is what runserver takes, a port or an address with one."""
    words = ["-m", "aserve", spec, *(["--reload"] if reload else [])]
    if bind:
        words += ["--bind", bind if ":" in bind else f"127.0.0.1:{bind}"]
    return [*words, *more]


def become_aserve(words: Sequence[str]) -> NoReturn:
    """Run this in place of the current process, with its environment, folder and terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - words that the user has typed
