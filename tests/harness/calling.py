"""Call a WSGI app as a server does, without one."""

import io
from typing import Any, NamedTuple

from aserve.wsgi import FileWrapper

from .client import Reply


class Answer(NamedTuple):
    """An app's answer."""

    status: str
    fields: list[tuple[str, str]]
    body: bytes
    iterable: Any

    @property
    def code(self) -> int:
        """The number of the status."""
        return int(self.status[:3])

    get = Reply.get


def call(app: Any, path: str = "/", method: str = "GET", **environ: Any) -> Answer:
    """Call the app, read its result, and close that."""
    started: list[Any] = []
    written: list[bytes] = []

    def start_response(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started[:] = [status, list(fields)]
        return written.append

    whole = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": "",
        "wsgi.input": io.BytesIO(), "wsgi.file_wrapper": FileWrapper, **environ,
    }  # fmt: skip
    iterable = app(whole, start_response)
    try:
        chunks = list(iterable)
    finally:
        if hasattr(iterable, "close"):
            iterable.close()
    return Answer(started[0], started[1], b"".join([*written, *chunks]), iterable)
