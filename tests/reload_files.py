"""Our files and functions run by a SIGHUP: python tests/reload_files.py prints all; test_measures.py holds the counts to the noted numbers.

The command runs with two workers, and sys.setprofile notes each called function of the supervisor: in three seconds without an event, and from
SIGHUP until the reload is done and both old workers have ended.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

from harness.modules import PACKAGE

from aserve.command.cli import main as serve

ARGS = ("aserve.demo:app", "--workers", "2", "--bind", "127.0.0.1:0")
IDLE_SECONDS, LONGEST_SECONDS = 3.0, 60.0

Function = tuple[str, str, int]  # file below aserve/, name, line


class Noted(NamedTuple):
    """How many files and functions run, and how far both are to come down."""

    files: int
    functions: int
    goal_files: int
    goal_functions: int


NOTED = {
    "a reload": Noted(38, 215, 30, 150),
    "a reload, beyond idle seconds": Noted(32, 148, 25, 120),
    "idle seconds": Noted(18, 67, 15, 50),
}


class Lines(logging.Handler):
    """The messages of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a message."""
        self.messages.append(record.getMessage())

    def wait_for(self, *parts: str) -> None:
        """Wait until each of these stands in a line, in order."""
        limit = time.monotonic() + LONGEST_SECONDS
        while not any(all(part in message for part in parts) for message in list(self.messages)):
            assert time.monotonic() < limit, (parts, self.messages)
            logging.getLogger("aserve").addHandler(self)  # the command removes more variables at the beginning
            time.sleep(0.05)


def run() -> None:
    """Serve, and print the functions of idle seconds and of a reload as JSON."""
    called: set[Function] = set()
    found: dict[str, list[Function]] = {}
    lines = Lines()

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}/"):
            called.add((code.co_filename[len(str(PACKAGE)) + 1 :], code.co_name, code.co_firstlineno))

    def lead() -> None:
        try:
            lines.wait_for("worker 2 (pid ", "is ready")
            time.sleep(1.0)
            called.clear()
            time.sleep(IDLE_SECONDS)
            found["idle seconds"] = list(called)
            called.clear()
            os.kill(os.getpid(), signal.SIGHUP)
            lines.wait_for("SIGHUP: done in ")
            for number in (1, 2):
                lines.wait_for(f"worker {number} (pid ", "has ended")
            found["a reload"] = list(called)
            print(json.dumps(found), flush=True)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    os.register_at_fork(after_in_child=lambda: sys.setprofile(None))
    threading.Thread(target=lead, daemon=True).start()
    sys.setprofile(note)
    status = serve([*ARGS])
    sys.exit(status)


def functions() -> dict[str, set[Function]]:
    """Return the run functions, by the names of NOTED."""
    done = subprocess.run([sys.executable, __file__, "run"], capture_output=True, text=True, check=True)
    found = {name: {tuple(each) for each in those} for name, those in json.loads(done.stdout).items()}
    found["a reload, beyond idle seconds"] = found["a reload"] - found["idle seconds"]
    found["a reload"] |= found["idle seconds"]  # a second may pass meanwhile, or none
    return found


def count(found: set[Function]) -> tuple[int, int]:
    """Return the number of files and of functions."""
    return len({file for file, _, _ in found}), len(found)


def main() -> None:
    """Print each file with functions, and the counts."""
    found = functions()
    for name, noted in NOTED.items():
        files, number = count(found[name])
        for file in sorted({each[0] for each in found[name]}):
            print(f"  {file:42}  {' '.join(sorted(each[1] for each in found[name] if each[0] == file))}")
        print(
            f"{name}: {files} files, {number} functions; noted {noted.files}, {noted.functions}; goal {noted.goal_files}, {noted.goal_functions}"
        )


if __name__ == "__main__":
    run() if sys.argv[1:] == ["run"] else main()
