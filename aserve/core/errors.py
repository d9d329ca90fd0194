"""Every error of ours: the fact, whose fault, the next step.

Owns:     the exceptions that a user of aserve may meet.
Not here: errors of the C parsers (texts and statuses: cparsers/aserve.h; as RequestRefused: protocols/base.py).
"""

from __future__ import annotations

from .named_tuple import NamedTuple

# Exit statuses of the command.
FAILED = 1  # the app could not start, or something was left unfinished: the next start may succeed
USAGE_ERROR = 2  # a mistake in the command line or in the settings: another start does not help
DONE = "exited with status 0"  # processes/children/child.py's text for an end without a failure


class AserveError(Exception):
    """Base of the errors other than OSErrors."""

    exit_status = USAGE_ERROR  # of a command that ends by this error


class Fault(NamedTuple):
    """Why code cannot serve: one line, and the traceback of the app's own code, or ""."""

    why: str
    app_traceback: str


class BindError(OSError):
    """An address could not be bound: the configuration's fault. One line, ready to print."""


class ClientDisconnected(ConnectionError):
    """The client went away: raised in the app's thread at a read or a write."""


class AppError(AserveError, ValueError):
    """
    The app broke PEP 3333: the app's fault. The text names the rule and the remedy.

    A ValueError as well: frameworks and apps catch ValueErrors where a server refuses a field, such as a field with a line end.
    """


class ResponseTruncated(AserveError):
    """The response cannot be finished as the head promised; the connection must be aborted."""


class RequestTimeout(BaseException):
    """
    The request took longer than --request-timeout: raised anywhere in the app's thread.

    Not an Exception, like KeyboardInterrupt: `except Exception` is for errors of the guarded code.
    """

    def __str__(self) -> str:
        return "the request took longer than --request-timeout"


class WrittenOff(BaseException):
    """Raised in a worker on the return from the app after the loop has answered. The thread ends; the app never sees this."""


class WorkersStuck(AserveError):
    """More workers hang inside the app than --max-stuck allows: the process should be replaced."""


class RequestRefused(AserveError):
    """
    A request answered with an error: the client's fault, or a limit of ours.

    `status` is the HTTP status code, the text names the rule or the setting.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def app_too_late() -> RequestRefused:
    return RequestRefused(504, "the app did not answer in time")


def over_limit(status: int, what: str, limit_bytes: int, setting: str) -> RequestRefused:
    return RequestRefused(status, f"{what} is over the limit of {limit_bytes} octets ({setting})")
