"""The one extension point: what an option adds to the engine.

Owns:     Extension, a base class of which every method is optional; Extensions, those of one server, in their order; what each is given:
          ListenerContext, ServerContext.
Thread:   the methods of Extension: event loop only, but `ended`, `at_end` and `refused`, which say theirs, and `prepare` and `on_life`, which the main
          thread calls without a loop. What they return names its own threads.
Not here: which extensions there are (features/), what the engine does with them (server/).

A method that a class does not override is never called (`overrides`). So an option that is off costs a request nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Generic, NamedTuple, Protocol, TypeVar

from .connections.listeners import Listener
from .connections.statistics import Statistics
from .core.ends import Counting, Ended, Ends, Lines, Reader
from .core.errors import BindError, Fault, RequestRefused
from .core.exchange import Exchange
from .lifecycle.supervision import Supervision, SupervisorContext
from .settings import EngineSettings
from .workers.busy import Busy
from .workers.executor import Executor
from .workers.inline import InlineExecutor
from .wsgi import WSGIApp
from .wsgi.gateway import Before
from .wsgi.response import CommonFields
from .wsgi.wrapping import named_as

logger = logging.getLogger("aserve")

Say = Callable[["dict[str, Any]", Sequence[int]], None]  # a message, with descriptors


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
    busy: Busy  # how many of its threads are
    counters: Any  # memory, PAGE_WORDS of features/metrics/table.py, which a supervisor reads and answers for; None: this process does
    bound: list[bytes]  # where it listens, for core/forks.py: an extension adds its own addresses
    ask: Callable[[str], Any]  # Extensions.ask
    # Say a message to the supervisor, with descriptors: see Supervision.words. None: there is no supervisor.
    say: Say | None = None


class Life(enum.Enum):
    """What happens to a process of the command, on its main thread; see Extension.on_life."""

    STARTS = enum.auto()  # it is about to serve or to supervise; nothing is bound
    WORKERS_BEGIN = enum.auto()  # a supervisor will start its first worker; what workers share is made now
    RELOADS = enum.auto()  # a supervisor has read its settings anew, and will start workers by them
    IMPORTS = enum.auto()  # it is about to import the app
    IMPORTED = enum.auto()  # it has imported the app
    FORKED = enum.auto()  # it becomes a worker; the mold that it was forked from has imported the app
    ENDS = enum.auto()  # a worker has served, and ends
    REAPED = enum.auto()  # a worker has ended, in whichever way: LifeContext.lost; told in its supervisor, behind DIED
    DIED = enum.auto()  # a worker has died in the middle of requests: LifeContext.lost; told in its supervisor
    EXITS = enum.auto()  # a supervisor ends: it has no worker any more


class Lost(NamedTuple):
    """A worker process that has ended, and the requests that it was at."""

    slot: int
    pid: int
    requests: Sequence[tuple[float, str]]  # for how many seconds, and "METHOD target", escaped


class LifeContext(NamedTuple):
    """The process that it happens to."""

    plan: Any  # processes.plan.Plan
    role: Any = None  # processes.worker.Role; None: it is no child of a supervisor, or does jobs
    is_spooler: bool = False  # it does jobs
    # Memory files of the process before an upgrade in place, by their names.
    kept: Mapping[str, int] = MappingProxyType({})
    lost: Lost | None = None  # with DIED and REAPED
    environ: MutableMapping[str, str] | None = None  # of this process, with IMPORTS and FORKED


class Extension(Generic[S]):
    """One option of a server; override what it needs. S: those of the engine's settings, and its own."""

    # What it reads of requests, if it is known: `start` may set them.
    wants_times = False  # Exchange.arrived_at and began_at: they cost a request two looks at the clock
    wants_ids = False  # the name by which logs show it: it gets one
    wants_head = False  # the head of its response, in Ended
    at_end_seconds = 0.0  # `at_end` is called for requests that took at least so long
    fields: Sequence[tuple[str, str]] = ()  # of every response, whichever part of the server makes it: (name, value)
    # Whether it reads ends and refusals at all: `start` may find that nothing asks for them.
    is_reading = True
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

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """Return what is entered before anything is bound, by the command and by `run`, and left when the process ends. It may wait."""
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

    def ended(self, batch: Sequence[Ended]) -> None:
        """Read the ends of requests, in their order. Called in whichever thread ends one, one thread at a time."""
        raise NotImplementedError

    def at_end(self, exchange: Exchange) -> None:
        """Look at a request that ends just now: its response is still there. Called in the thread that ends it; it costs more than `ended`."""
        raise NotImplementedError

    def refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Read of a request that aserve has refused; `exchange` is what is known of it. Called on the event loop, or in a worker."""
        raise NotImplementedError

    def upgraded(self, exchange: Exchange) -> None:
        """Note that a request becomes a WebSocket: when that ends, so does the request."""
        raise NotImplementedError

    def counting(self) -> Counting:
        """Return what counts in `ended`, so that C can do so; asked for once, behind `start`."""
        raise NotImplementedError

    def lines(self) -> Lines:
        """Return what makes lines in `ended`, so that C can do so; asked for once, behind `start`."""
        raise NotImplementedError

    def status(self) -> Mapping[str, Callable[[], Any]]:
        """Return what it can say of this server, by names of its own: each is called when something asks for it; also after `stop`."""
        raise NotImplementedError

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's code as it is now cannot serve; code of before may serve meanwhile. Called on the event loop."""
        raise NotImplementedError

    def reopen_logs(self) -> None:
        """Go on in the files that have the names of its logs now: those of before were moved away."""
        raise NotImplementedError

    def on_second(self) -> None:
        """Called once a second, from start to stop."""
        raise NotImplementedError

    def stop(self) -> None:
        """End what `start` has begun: the server has stopped, or another extension could not start."""
        raise NotImplementedError

    def orders(self) -> Mapping[str, Callable[[], None]]:
        """Return what it does in a worker at its supervisor's word, by the word: the "do" of a message; asked for behind `start`."""
        raise NotImplementedError

    def bind(self) -> Sequence[Listener]:
        """
        Return what it listens on in a supervisor, before anything is forked; not after an upgrade in place, where the code before has.

        Raises:
            BindError: an address could not be bound.
        """
        raise NotImplementedError

    def supervise(self, context: SupervisorContext) -> Supervision:
        """Return what it does in a supervisor that begins. The workers have extensions of their own."""
        raise NotImplementedError

    def on_life(self, event: Life, context: LifeContext) -> None:
        """
        Do what it takes at this event in the life of a process of the command; no server is there yet, or any more.

        No event is told to the extension of a server, or to that of another event: each is made for its event, by the settings of then.

        Raises:
            ConfigError, LoadError: the process cannot go on; from IMPORTS on, a worker cannot start.
        """
        raise NotImplementedError


class Extensions:
    """The extensions of one server."""

    def __init__(self, extensions: Iterable[Extension[Any]] = ()) -> None:
        """`extensions`: from the client towards the app: in this order steps run, and each wraps those behind it."""
        found = self._all = tuple(extensions)
        self.fields = tuple(field for one in found for field in one.fields)
        self.underscored = tuple(name for one in found for name in one.underscored)
        self._answers: dict[str, Callable[[], Any]] = {}
        self._orders: dict[str, Callable[[], None]] = {}
        self._started, self._is_started = contextlib.ExitStack(), False

    @contextlib.contextmanager
    def prepare(self) -> Iterator[None]:
        """Enter what each wants entered before anything is bound."""
        with contextlib.ExitStack() as entered:
            for one in self._with("prepare"):
                entered.enter_context(one.prepare())
            yield

    @property
    def wants_times(self) -> bool:
        """Whether one of them reads when requests came, and were begun; known when they have started."""
        return any(one.wants_times for one in self._all)

    @property
    def wants_ids(self) -> bool:
        """Whether one of them reads the names of requests; known when they have started."""
        return any(one.wants_ids for one in self._all)

    @property
    def sees_responses(self) -> bool:
        """Whether one of them needs each Response: C makes none."""
        return bool(self._with("wrap_calls"))

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """Return the app in all that stands in front of it; the app itself if nothing does."""
        wrapped = app
        for one in reversed(self._with("wrap_app")):
            wrapped = one.wrap_app(wrapped)
        return wrapped if wrapped is app else named_as(wrapped, app)

    def wrap_calls(self, app: WSGIApp, context: ListenerContext) -> WSGIApp:
        """Return the app as a listener calls it."""
        for one in reversed(self._with("wrap_calls")):
            app = one.wrap_calls(app, context)
        return app

    def before(self, context: ListenerContext) -> list[Before]:
        """Return the steps of a listener, in their order."""
        steps = [one.before(context) for one in self._with("before")]
        return [step for step in steps if step is not None]

    def start(self, context: ServerContext) -> None:
        """
        Start them, in their order; all of them, or none.

        Raises:
            BindError: one cannot.
        """
        with contextlib.ExitStack() as undo:
            for one in self._all:
                if overrides(type(one), "start"):
                    one.start(context)
                if overrides(type(one), "stop"):
                    undo.callback(one.stop)
                if overrides(type(one), "status"):
                    self._answers.update(one.status())
                if overrides(type(one), "orders"):
                    self._orders.update(one.orders())
            self._started, self._is_started = undo.pop_all(), True

    def new_ends(self, executor: Executor | InlineExecutor) -> Ends | None:
        """Return what tells those that have started of the ends of requests; None: none of them reads these."""
        readers = [reader for one in self._all if (reader := _reader_of(one)) is not None]
        if not readers:
            return None
        # Not all of the pause: it may have begun some time before `arrived_at`.
        ends = Ends(readers, executor.jobs, soon=executor.pause_seconds / 2)
        if any(reader.ended for reader in readers):
            executor.on_pause = ends.flush
        return ends

    def upgraded(self, exchange: Exchange) -> None:
        """Note that a request becomes a WebSocket."""
        for one in self._with("upgraded"):
            one.upgraded(exchange)

    def ask(self, name: str) -> Any:
        """Return what the one says that knows it; None: none does, or they have not been started."""
        answer = self._answers.get(name)
        return answer() if answer is not None else None

    def obey(self, order: str) -> None:
        """Do what the supervisor says; nothing if none knows it: what has said so is on there, and off here."""
        if order in self._orders:
            self._orders[order]()

    def bind(self) -> list[Listener]:
        """
        Return what they listen on in a supervisor.

        Raises:
            BindError: an address could not be bound; none is.
        """
        bound: list[Listener] = []
        try:
            for one in self._with("bind"):
                bound += one.bind()
        except BindError:
            for listener in bound:
                listener.close()
            raise
        return bound

    def supervise(self, context: SupervisorContext) -> list[Supervision]:
        """Return what they do in a supervisor; what the code before listened on for others is closed."""
        found = [one.supervise(context) for one in self._with("supervise")]
        for listener in context.bound if not found else ():
            listener.close()
        return found

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's code as it is now cannot serve."""
        for one in self._with("show_fault"):
            one.show_fault(fault)

    def reopen_logs(self) -> None:
        """Go on in the files that have the names of logs now; nothing if they have not started."""
        for one in self._with("reopen_logs") if self._is_started else ():
            one.reopen_logs()

    def on_second(self) -> None:
        """Called once a second, from start to stop. What one raises is logged: the others go on."""
        for one in self._with("on_second"):
            try:
                one.on_second()
            except Exception:
                logger.exception("internal error in %s; please report this as a bug in aserve", type(one).__name__)

    def stop(self) -> None:
        """Stop those that have started, the last first; nothing if none has."""
        self._is_started = False
        self._started.close()

    def _with(self, name: str) -> list[Extension[Any]]:
        """Return those that override a method, in their order."""
        return [one for one in self._all if overrides(type(one), name)]


def _reader_of(one: Extension[Any]) -> Reader | None:
    ended, at_end, refused = (
        getattr(one, name) if overrides(type(one), name) else None for name in ("ended", "at_end", "refused")
    )
    if not one.is_reading or (ended is None and at_end is None and refused is None):
        return None
    counting = one.counting() if overrides(type(one), "counting") else None
    lines = one.lines() if overrides(type(one), "lines") else None
    return Reader(ended, at_end, one.at_end_seconds, refused, one.wants_head, counting, lines)


def overrides(extension: type[Extension[Any]], name: str) -> bool:
    """Whether a class overrides a method of Extension: only then is it called."""
    return getattr(extension, name) is not getattr(Extension, name)
