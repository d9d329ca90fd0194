"""The values that Python gives to C, and gets from C: each by its name.

Owns:     EngineParts and ServiceParts, which native/engine.c reads; PlainState, which native/request.c makes.
Thread:   any; the tuples never change.
Not here: arrivals (lane_memory.py); the state that C shares with the executor (workers/executor.py) and with the ends of requests (core/ends.py, Parts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ...core.named_tuple import NamedTuple

if TYPE_CHECKING:
    from ...core.ends import Ended, EndsParts
    from ...core.log_once import LogOnce
    from ...workers.executor import Executor
    from ...wsgi import WSGIApp
    from .native import Native


class ServiceParts(NamedTuple):
    """One listener's requests: engine_service of native/engine.h."""

    app: WSGIApp | None  # None: no request is plain
    base: dict[str, Any]  # environ
    status_prefix: str
    is_front: bool
    removal: LogOnce | bool | None  # see Plain
    drop: LogOnce | None
    is_trusting: bool
    id_field: bytes | None


class PlainState(NamedTuple):
    """A plain request at one moment, before the request is promoted: native/request.c, `new_state`."""

    fd: int
    listener: int
    vars: bytes
    own_count: int
    flags: int
    modifier1: int
    body: bytes | None
    arrived_at: float
    began_at: float
    thread_id: int
    keep_alive: bool
    is_begun: bool  # the app runs the request
    is_inside: bool  # the worker is inside the app
    head: bytes  # the app's part of the head, if start_response was called
    code: int
    length: int
    sent_bytes: int  # for this and the next two see BegunResponse.adopt
    is_full: bool
    unsent: bytes | None
    made_id: bytes  # the request's name, if C has made one


class EngineParts(NamedTuple):
    """All that an engine needs: engine of native/engine.h. The first eight: addresses in the process, and a size in octets."""

    set: int
    poll: int
    look: int
    reply: int
    send: int
    wake: int
    parse_array: int
    lane_bytes: int
    owner: Native
    executor: Executor
    service_parts: list[ServiceParts]
    connections: dict[int, Any]  # Connection, by descriptor
    ends_parts: EndsParts | None
    runs: dict[int, Any] | None  # Run, by thread
    written_off: type[BaseException]
    overdue: Any
    forked: list[Any]
    new_input: Callable[[bytes], Any]
    respond: Callable[..., Any] | None
    tail: bytes  # the end of each head
    tls_tail: bytes  # the same, of listeners of TLS
    health_path: bytes | None
    takes_times: bool
    ended: type[Ended]
    state: type[PlainState]
