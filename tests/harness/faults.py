"""Faults that must never stay unseen: a failure in an event loop's exception handler, or our own bug.

Three places can tell one, and each fails the running test, with the traceback:

- the handler of a loop run by `start_server` (`describe`); - the log of this process: asyncio and uvloop write there from any other loop, and aserve
its "please report this as a bug" (`Watch`); - the standard error of a process run by `start_process` (`faults_in`).

A test that provokes one on purpose says so: `@pytest.mark.provokes("a worker failed")`, by a regular expression for the line. Exceptions in threads,
in __del__ and in callbacks from C are warnings of pytest, and so errors already.
"""

import logging
import re
import traceback
from typing import Any

MOST_LINES = 60  # of one fault: a traceback and its cause

# In the words of asyncio, uvloop, the interpreter and aserve. A failing app is none of these.
_FAULT = re.compile(
    r"please report this as a bug"
    r"|Exception in callback|exception was never retrieved|was destroyed but it is pending"
    r"|Fatal (read |write )?error|Error on reading from the event loop self pipe"
    r"|Exception ignored|Exception in thread|Unhandled exception|Fatal Python error"
    r"|Exception in default exception handler|ResourceWarning|accept\(\) out of system resource"
)


def describe(context: dict[str, Any]) -> str:
    """Return the calls of a loop's exception handler, with the traceback."""
    exception = context.get("exception")
    lines = [str(context.get("message") or "an event loop's exception handler was called")]
    lines += [
        f"{name}: {value!r}"
        for name, value in context.items()
        if name not in ("message", "exception", "source_traceback")
    ]
    if exception is not None:
        lines += "".join(traceback.format_exception(type(exception), exception, exception.__traceback__)).splitlines()
    return "\n".join(lines)


def faults_in(log: str, provoked: tuple[str, ...] = ()) -> str:
    """Return a log's faults, each with the lines behind it; "" when there is none."""
    lines, shown = log.splitlines(), []
    for number, line in enumerate(lines):
        if _FAULT.search(line) and not any(re.search(pattern, line) for pattern in provoked):
            shown.append("\n".join(lines[number : number + MOST_LINES]))
    return "\n...\n".join(shown)


class Watch(logging.Handler):
    """Keeps the faults logged in this process."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.faults: list[str] = []
        self._formatter = logging.Formatter("%(name)s: %(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep unhandled faults of event loops, and our own bugs."""
        if record.name == "asyncio" or _FAULT.search(record.getMessage()):
            self.faults.append(self._formatter.format(record))

    def text(self, provoked: tuple[str, ...] = ()) -> str:
        """Return the faults that no test has provoked."""
        faults = list(self.faults)
        return "\n".join(one for one in faults if not any(re.search(pattern, one) for pattern in provoked))
