"""The one extension point: what an option adds to the engine.

Owns:     Extension, a base class of which every method is optional; Extensions, those of one server, in their order; what each is given:
          ListenerContext, ServerContext.
Thread:   the methods of Extension: event loop only. What they return names its own threads.
Not here: which extensions there are (features/), what the engine does with them (server/).

A method that a class does not override is never called: Extensions collects, at the start, the methods that are overridden. So an option that
is off costs a request nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Generic, NamedTuple, Protocol, TypeVar

from .connections.listeners import Listener
from .connections.statistics import Statistics
from .settings import EngineSettings
from .wsgi import WSGIApp
from .wsgi.gateway import Before
from .wsgi.response import CommonFields
from .wsgi.wrapping import named_as


class ListenerContext(NamedTuple):
    """One listener of a server, for what an extension puts there."""

    listener: Listener
    common_fields: CommonFields
    believes: Callable[[Any], bool]  # whether the peer of a connection is one of --trusted-proxies

    @property
    def is_http(self) -> bool:
        """Whether it speaks HTTP, with or without TLS."""
        return self.listener.bind.protocol in ("http", "https")


S = TypeVar("S", bound=EngineSettings)


class Serving(Protocol):
    """What an extension may ask of its server."""

    config: EngineSettings

    @property
    def urls(self) -> list[str]:
        """Where it listens."""

    def listening(self) -> list[dict[str, Any]]:
        """Return how many clients wait in the kernel; see connections/listen_queue.py."""

    def statistics(self) -> Statistics:
        """Return what it is doing."""

    def slow_requests(self) -> list[dict[str, Any]]:
        """Return the last that were slow; see SlowRequests.last."""

    def thread_seconds(self, now: float) -> float:
        """Return for how long threads have been with the requests that have not ended."""

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """Return so many of the requests that it is at, the oldest first: for how many seconds, and "METHOD target"."""


class ServerContext(NamedTuple):
    """A server that starts, for what an extension does while it serves."""

    server: Serving
    loop: asyncio.AbstractEventLoop
    slot: int | None  # its number among the processes of a supervisor; None: there is no supervisor


class Extension(Generic[S]):
    """One option of a server; override what it needs. S: those of the engine's settings, and its own."""

    wants_times = False  # it reads Exchange.arrived_at and began_at: they cost a request two looks at the clock
    # Fields with an underscore that a parser of HTTP puts into Exchange.underscored.
    underscored: Sequence[str] = ()

    def __init__(self, config: S) -> None:
        """
        Make it as the settings want it; only if it is on.

        Raises:
            ConfigError: a setting of it is wrong.
        """
        self._config = config

    @staticmethod
    def is_on(config: Any) -> bool:
        """Whether the settings turn it on."""
        raise NotImplementedError

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """Return an app that calls `app`, for all listeners. It runs within the time limit of a request, and may not see its Response."""
        raise NotImplementedError

    def wrap_calls(self, app: WSGIApp, context: ListenerContext) -> WSGIApp:
        """Return an app that calls `app`, for one listener. It stands outside of the time limit; `start_response.__self__` is the Response."""
        raise NotImplementedError

    def before(self, context: ListenerContext) -> Before | None:
        """Return a step that sees each exchange of a listener before the app does; None: of this listener it needs none."""
        raise NotImplementedError

    def start(self, context: ServerContext) -> None:
        """
        Begin to work for a server that starts; it may be one that has stopped before.

        Raises:
            BindError: it cannot; what it has begun, it has undone.
        """
        raise NotImplementedError

    def on_second(self) -> None:
        """Called once a second, from start to stop."""
        raise NotImplementedError

    def stop(self) -> None:
        """End what `start` has begun: the server has stopped, or another extension could not start."""
        raise NotImplementedError


class Extensions:
    """The extensions of one server."""

    def __init__(self, extensions: Iterable[Extension[Any]] = ()) -> None:
        """`extensions`: from the client towards the app: in this order steps run, and each wraps those behind it."""
        found = self._all = tuple(extensions)
        self.wants_times = any(one.wants_times for one in found)
        self.underscored = tuple(name for one in found for name in one.underscored)
        self._wrapping, self._wrapping_calls, self._before, self._on_second = (
            [one for one in found if _overrides(one, name)]
            for name in ("wrap_app", "wrap_calls", "before", "on_second")
        )
        self._started = contextlib.ExitStack()

    @property
    def sees_responses(self) -> bool:
        """Whether one of them needs each Response: C makes none."""
        return bool(self._wrapping_calls)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """Return the app in all that stands in front of it; the app itself if nothing does."""
        wrapped = app
        for one in reversed(self._wrapping):
            wrapped = one.wrap_app(wrapped)
        return wrapped if wrapped is app else named_as(wrapped, app)

    def wrap_calls(self, app: WSGIApp, context: ListenerContext) -> WSGIApp:
        """Return the app as a listener calls it."""
        for one in reversed(self._wrapping_calls):
            app = one.wrap_calls(app, context)
        return app

    def before(self, context: ListenerContext) -> list[Before]:
        """Return the steps of a listener, in their order."""
        steps = [one.before(context) for one in self._before]
        return [step for step in steps if step is not None]

    def start(self, context: ServerContext) -> None:
        """
        Start them, in their order; all of them, or none.

        Raises:
            BindError: one cannot.
        """
        with contextlib.ExitStack() as undo:
            for one in self._all:
                if _overrides(one, "start"):
                    one.start(context)
                if _overrides(one, "stop"):
                    undo.callback(one.stop)
            self._started = undo.pop_all()

    def on_second(self) -> None:
        """Called once a second, from start to stop."""
        for one in self._on_second:
            one.on_second()

    def stop(self) -> None:
        """Stop those that have started, the last first; nothing if none has."""
        self._started.close()


def _overrides(one: Extension[Any], name: str) -> bool:
    return getattr(type(one), name) is not getattr(Extension, name)
