"""Calls the `access` of a gunicorn logger of the user's for each request.

Owns:     logging_access.
Thread:   any that runs the app.
Spec:     gunicorn's documentation, `logger_class`; the objects that gunicorn's workers pass to `access`.
Not here: whether it is called (gunicorn_logs.py).

A refusal by aserve, of which the app does not hear, has no line then.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from ...wsgi import WSGIApp


def logging_access(app: WSGIApp, logger: Callable[[], Any]) -> WSGIApp:
    """Return an app that calls `app`, and then the logger's `access(response, request, environ, time)`."""

    def logged(environ: Any, start_response: Any) -> Iterable[bytes]:
        response = _Response(environ, start_response, logger())
        try:
            return response.body(app(environ, response.start))
        except BaseException:
            response.end()
            raise

    return logged


class _Response:
    """What is known of a response, for `access`."""

    def __init__(self, environ: dict[str, Any], start_response: Any, logger: Any) -> None:
        self._environ, self._start_response, self._logger = environ, start_response, logger
        self._began = time.monotonic()
        self.status, self.sent = "500 Internal Server Error", 0  # if the app raises
        self.headers: list[tuple[str, str]] = []

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
        write = self._start_response(status, headers, *([exc_info] if exc_info else []))
        self.status, self.headers = status, list(headers)

        def counted(data: bytes) -> Any:
            self.sent += len(data)
            return write(data)

        return counted

    def body(self, iterable: Iterable[bytes]) -> Iterable[bytes]:
        if type(iterable) not in (list, tuple):
            return _Body(self, iterable)
        self.sent += sum(map(len, iterable))  # it is returned as it is, so that its length is known
        self.end()
        return iterable

    def end(self) -> None:
        """Call `access`."""
        passed = datetime.timedelta(seconds=time.monotonic() - self._began)
        response = SimpleNamespace(
            status=self.status,
            status_code=int(self.status[:3]),
            headers=self.headers,
            sent=self.sent,
            response_length=None,
        )
        self._logger.access(response, _request_of(self._environ), self._environ, passed)


class _Body:
    """The response's body: counts its octets, and ends the response."""

    def __init__(self, response: _Response, iterable: Iterable[bytes]) -> None:
        self._response, self._iterable = response, iterable

    def __iter__(self) -> Iterator[bytes]:
        for data in self._iterable:
            self._response.sent += len(data)
            yield data

    def close(self) -> None:
        try:
            close = getattr(self._iterable, "close", None)
            if close is not None:
                close()
        finally:
            self._response.end()


def _request_of(environ: dict[str, Any]) -> SimpleNamespace:
    """Return gunicorn's request: method, target, path, query, and fields with names in capitals."""
    names = [name for name in environ if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")]
    fields = [(name[5 * name.startswith("HTTP_") :].replace("_", "-"), environ[name]) for name in names]
    uri = environ.get("RAW_URI") or environ.get("REQUEST_URI", "")
    return SimpleNamespace(
        method=environ["REQUEST_METHOD"], uri=uri, path=environ.get("PATH_INFO", ""), query=environ.get("QUERY_STRING", ""), headers=fields,
        version=tuple(int(part) for part in environ["SERVER_PROTOCOL"].rpartition("/")[2].split(".")),
        remote_addr=(environ.get("REMOTE_ADDR", ""), environ.get("REMOTE_PORT", "")), peer_addr=environ.get("REMOTE_ADDR", ""),
    )  # fmt: skip
