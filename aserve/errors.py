"""Every error of ours: what went wrong, whose fault it is, what to do next.

Owns:     the exceptions that a user of aserve may meet.
Not here: errors of the C parsers (cparsers/aserve.h holds their texts and
          statuses, protocols/base.py turns them into RequestRefused).
"""

from __future__ import annotations


class AserveError(Exception):
    """Base of the errors that are not also OSErrors."""


class BindError(OSError):
    """An address could not be bound: the configuration's fault. One line, ready to print."""


class ClientDisconnected(ConnectionError):
    """The client went away: raised in the app's thread where it reads or writes."""


class AppError(AserveError):
    """The app broke PEP 3333: the app's fault. The text names the rule and the remedy."""


class ResponseTruncated(AserveError):
    """The response cannot be finished as its head promised; the connection must be aborted."""


class RequestRefused(AserveError):
    """
    A request that is answered with an error: the client's fault, or a limit of ours.

    `status` is the HTTP status code, the text names the rule or the setting.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def over_limit(status: int, what: str, limit_bytes: int, setting: str) -> RequestRefused:
    """Return the refusal of a request that crossed one of our limits, naming the setting."""
    return RequestRefused(status, f"{what} is over the limit of {limit_bytes} octets ({setting})")
