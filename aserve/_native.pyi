"""What native/module.c has: the plain request on CPython. Absent elsewhere."""

from typing import Any

def make_counts(places: Any, ends: list[Any], /) -> tuple[list[tuple[int, int]], float]: ...
def make_head(
    prefix: str, status: str, headers: list[tuple[str, str]], cap: int = 4096, /
) -> tuple[bytes, int, int] | None:
    """Return an app's part of a head of at most `cap` octets: octets, code, Content-Length or -1; None: not plain."""

def make_environ(
    base: dict[str, Any], is_front: bool, vars: bytes, own_count: int, addr: str, port: str, section: int, /
) -> tuple[dict[str, Any] | None, int]:
    """
    Return an environ without wsgi.input and wsgi.early_hints, or None: not plain; and where its field section has its place.

    `section` is the place that the last request of the same connection had; 0 at first.
    """

def make_lines(program: Any, ends: list[Any], /) -> tuple[bytes, list[bool]]:
    """
    Return the lines of these ends, and for each whether it has one; it has none if Python has to make it.

    An end: vars, is_from_front, addr, changes of the vars or None, made id or b"", status, size, is_gone, arrived_at, began_at, ended_at, thread_id.
    """

def take_out(vars: bytes, own_count: int, what: int, /) -> tuple[bytes, bytes | None] | None:
    """
    Return a vars block without some of its pairs, and the request's name if it was among them; None: not plain.

    `what`: 1: the fields in which proxies describe their client; 2: X-Request-ID; or both.
    """

def forget() -> None:
    """Let go of the field sections and the names that `make_environ` has kept."""

class Engine:
    """The leader's loop of one lane: native/engine.h."""

    tail: bytes
    is_draining: bool
    progress: int
    plain_count: int
    promoted_count: int
    waiting: int
    ends_waiting: int

    def __init__(self, parts: Any, /) -> None:
        """`parts`: EngineParts of connections/lane/seam.py."""

    def work(self) -> bool: ...
    def run(self, request: Any, /) -> None: ...
    def submit(self, count: int, /) -> None: ...
    def spill(self) -> None: ...
    def promote_all(self) -> None: ...
    def put_ends(self) -> None: ...
    def take_counts(self) -> tuple[list[tuple[int, int]], float]: ...
    def running(self, arrived_before: float, /) -> dict[int, Any]:
        """Promote the requests that run and that arrived before (those without a time: only if it is infinity); return the exchanges of all that run and are promoted, by thread."""
    def know(self, fd: int, addr: str, port: str, /) -> None: ...
    def peer_of(self, fd: int, /) -> tuple[str, str] | None: ...
