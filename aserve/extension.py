"""The one extension point, by which an option adds to the engine.

Owns:     Extension, a base class whose every method is optional; Extensions, those of one server, in order; their arguments:
          ListenerContext, ServerContext.
Thread:   the methods of Extension: event loop only, but `prepare` and `on_life`, which the main thread calls without a loop. Objects that they return
          name their own threads.
Not here: the extensions (features/), the engine's use of them (server/).

A method that a class does not override is never called (`overrides`). So an option that is off costs a request nothing.

A long list: each member can be read alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from .connections.carrier import NewCarrier
from .connections.listeners import Listener
from .core.ends import Ends, Reader
from .core.errors import BindError, Fault
from .core.exchange import Exchange
from .core.guard import guard
from .core.named_tuple import NamedTuple
from .lifecycle.supervision import Supervision, SupervisorContext
from .settings import EngineSettings
from .tls.certificates import NewContext
from .workers.busy import Busy
from .workers.executor import Executor
from .workers.inline import InlineExecutor
from .wsgi import WSGIApp
from .wsgi.gateway import Before, Explain
from .wsgi.head import Headers
from .wsgi.response import CommonFields
from .wsgi.wrapping import named_as

if TYPE_CHECKING:  # most processes import statuses at the first question
    from .lifecycle.lone import Serving

logger = logging.getLogger("aserve")

REOPEN_LOGS = "reopen logs"
FORWARDED = "forwarded"  # of Extension.keeps
Say = Callable[["dict[str, Any]", Sequence[int]], None]  # a message, with descriptors
# A subcommand: takes all arguments, its name the first, and the environment; returns the exit status, or raises ConfigError.
Run = Callable[[Sequence[str], MutableMapping[str, str]], int]


class ListenerContext(NamedTuple):
    """One listener of a server, as the argument of an extension's step."""

    listener: Listener
    common_fields: CommonFields
    believes: Callable[[Any], bool]  # whether a connection's peer is one of --trusted-proxies

    @property
    def is_http(self) -> bool:
        """Whether the listener speaks HTTP, with or without TLS."""
        return self.listener.bind.protocol in ("http", "https")


S = TypeVar("S", bound=EngineSettings)


class ServerContext(NamedTuple):
    """A starting server, as the argument of an extension's `start`."""

    server: Serving
    loop: asyncio.AbstractEventLoop
    slot: int | None  # its number among the processes of a supervisor; None: there is no supervisor
    busy: Busy  # the share of its threads that are busy
    counters: Any  # memory of PAGE_WORDS (features/metrics/table.py) that a supervisor reads; None: this process answers itself
    bound: list[bytes]  # addresses of listeners, for core/forks.py: an extension adds its own
    ask: Callable[[str], Any]  # Extensions.ask
    # Say a message to the supervisor, with descriptors: see Supervision.words. None: there is no supervisor.
    say: Say | None = None
    # Have a function called at the stop, or if the extension, or another behind it, cannot start. Extensions.start sets it.
    at_stop: Callable[[Callable[[], object]], object] = lambda function: None


class AddedProtocol(NamedTuple):
    """A protocol of connections."""

    name: str  # of ALPN, which chooses it in TLS
    new_carrier: NewCarrier | None = None
    preface: bytes = b""  # the first octets, by which a trusted peer chooses it without TLS
    # The protocol ends with the handshake. Asked on the event loop for a client that offers this name and no other, which is refused without a context.
    new_context: NewContext | None = None


class Life(enum.Enum):
    """Events in the life of a process of the command, on its main thread; see Extension.on_life."""

    READ = (
        enum.auto()
    )  # the settings are read, and checked: see that what they name is there; perhaps nothing is served (--check)
    CHECKS = enum.auto()  # --check has imported the app; nothing will be bound: warn of what a start would warn of
    STARTS = enum.auto()  # the process is about to serve or to supervise; nothing is bound
    WORKERS_BEGIN = enum.auto()  # a supervisor is about to start its first worker: make shared memory now
    RELOADS = enum.auto()  # a supervisor has read its settings anew, and will start workers with them
    IMPORTS = enum.auto()  # the process is about to import the app
    IMPORTED = enum.auto()  # the process has imported the app
    FORKED = enum.auto()  # the process, forked from a mold that has imported the app, becomes a worker
    ENDS = enum.auto()  # a worker has served, and ends
    REAPED = enum.auto()  # a worker has ended, in whichever way: LifeContext.lost; told in its supervisor, behind DIED
    DIED = enum.auto()  # in the supervisor: a worker has died in the middle of requests, LifeContext.lost
    EXITS = enum.auto()  # a supervisor ends: its last worker has ended


class Lost(NamedTuple):
    """A worker process that has ended, and the requests that it was at."""

    slot: int
    pid: int
    requests: Sequence[tuple[float, str]]  # seconds so far, and "METHOD target", escaped


class LifeContext(NamedTuple):
    """The process of an event."""

    plan: Any  # processes.plan.Plan
    role: Any = None  # processes.role.Role; None: no child of a supervisor, or a spooler
    is_spooler: bool = False  # the process does jobs
    is_check: bool = False  # nothing will be served (--check): only look, with READ, IMPORTS, IMPORTED and CHECKS
    # Memory files of the previous supervisor, after an upgrade in place, by name.
    kept: Mapping[str, int] = MappingProxyType({})
    lost: Lost | None = None  # with DIED and REAPED
    # Of this process, up to FORKED and with EXITS, but for RELOADS.
    environ: MutableMapping[str, str] | None = None
    argv: list[str] | None = None  # sys.argv, with IMPORTS


class BesideContext(NamedTuple):
    """A process of the command beside the workers."""

    # The plan (processes.plan.Plan), without a look at certificates, which may just be changing, and at other programs.
    read: Callable[[], Any]
    load: Callable[[Any], object]  # imports the app of a plan
    environ: MutableMapping[str, str]


# Takes the value of the variable; returns the exit status, or raises ConfigError.
RunBeside = Callable[[str, BesideContext], int]


class Extension(Generic[S]):
    """One option of a server; override the methods that it needs. S: the settings of the engine, and its own."""

    switches: Sequence[str] = ()  # names of settings, any of which turns it on; see is_on
    # Modules of its package that it imports late. The command imports them at its start: later a file of the app's may hide what they import, --user
    # may not be able to read them, and another version may be installed.
    modules: Sequence[str] = ()
    # The data of requests that it reads; `start` may set this. "times": Exchange.arrived_at and began_at, two clock reads per request; "ids": the id in
    # logs, which is then made; "head": that of the response, in Ended.
    wants: Collection[str] = ()
    # Fields of requests that are kept, where the engine drops them: names with an underscore, which a parser of HTTP puts into Exchange.underscored;
    # FORWARDED: those in which proxies describe their client reach the app as they came, from any peer, and change nothing else.
    keeps: Sequence[str] = ()

    def __init__(self, config: S) -> None:
        """
        Make the extension from settings that turn it on.

        Raises:
            ConfigError: one of its settings is wrong.
        """
        self._config = config

    @classmethod
    def is_on(cls, config: Any) -> bool:
        """Whether the settings turn the extension on. Override it where a table of names does not say that."""
        return any(getattr(config, name) for name in cls.switches)

    @classmethod
    def is_supervised(cls, config: Any) -> bool:
        """Whether it has a part in a supervisor that starts with these settings. Override it if a reload may turn the extension on."""
        return cls.is_on(config)

    # The command, before settings are read

    @staticmethod
    def commands() -> Mapping[str, Run]:
        """Return subcommands of `aserve`, by name. Asked of the class, before settings are read; a function imports what it needs when it is called."""
        raise NotImplementedError

    @staticmethod
    def processes() -> Mapping[str, RunBeside]:
        """Return what runs processes of the command beside the workers, by the variable that names one. Asked of the class; see `commands`."""
        raise NotImplementedError

    # Requests

    def before(self, context: ListenerContext) -> Before | None:
        """
        Return a step that runs before the app for each exchange of a listener, on the app's thread; None: none for this listener.

        If C does not know the step (`is_done_in_c`), Python serves all requests of the listener.
        """
        raise NotImplementedError

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """Return an app that calls `app`, for all listeners. It runs within --request-timeout, and must not use the Response."""
        raise NotImplementedError

    def wrap_calls(self, app: WSGIApp, context: ListenerContext) -> WSGIApp:
        """Return an app that calls `app`, for one listener. It runs outside of --request-timeout; `start_response.__self__` is the Response, so Python serves all requests."""
        raise NotImplementedError

    def fields(self, is_tls: bool) -> Sequence[tuple[str, str]]:
        """Return (name, value) for every response of listeners with or without TLS, of the app or of aserve."""
        raise NotImplementedError

    def explain(self, exchange: Exchange, fault: BaseException) -> tuple[str, Headers, bytes] | None:
        """Return status, fields and body of the response for an exception of the app; None: a 500 that tells nothing. Called on the app's thread."""
        raise NotImplementedError

    # The ends of requests

    def reader(self) -> Reader | None:
        """Return the callbacks that read the ends of requests; None: this server's are not read. Called once, after `start`."""
        raise NotImplementedError

    # Connections

    def protocols(self) -> Sequence[AddedProtocol]:
        """
        Return what connections may speak beside HTTP/1.x; called at a server's start, before certificates are loaded.

        It makes files that the start reads, such as certificates, where they are missing, for which it may take a second.

        Raises:
            ConfigError: they cannot be made.
        """
        raise NotImplementedError

    # A server, from start to stop

    def start(self, context: ServerContext) -> None:
        """
        Start for a starting server, which may have stopped before.

        Raises:
            BindError: it cannot start.
        """
        raise NotImplementedError

    def on_second(self) -> None:
        """Do what is due once a second, from start to stop."""
        raise NotImplementedError

    def answers(self) -> Mapping[str, Callable[[], Any]]:
        """
        Return functions by name, which the server calls on demand: they return a fact, or carry out an order, the "do" of a supervisor's message.

        Asked for after `start`. Facts are asked for after the stop, too. REOPEN_LOGS is an order of any server: logrotate has renamed the log files.
        """
        raise NotImplementedError

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's new code cannot serve; the old code may serve meanwhile. Called on the event loop."""
        raise NotImplementedError

    # A process of the command

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """Return a context for the command and `run` to enter before binding, and to leave at the process's end. Entering may wait."""
        raise NotImplementedError

    def on_life(self, event: Life, context: LifeContext) -> None:
        """
        Act on an event in the life of a process of the command, without a server.

        A new extension object is made for each event, from the present settings; a server's own objects get no events.

        Raises:
            ConfigError, LoadError: the process cannot continue; from IMPORTS on, the worker cannot start.
        """
        raise NotImplementedError

    # A supervisor

    def bind(self) -> Sequence[Listener]:
        """
        Return its listeners in a supervisor, before the first fork; after an upgrade in place those of the previous supervisor are used.

        Raises:
            BindError: an address could not be bound.
        """
        raise NotImplementedError

    def supervise(self, context: SupervisorContext) -> Supervision:
        """Return its part in a starting supervisor. The workers have extensions of their own."""
        raise NotImplementedError


class Extensions:
    """The extensions of one server."""

    def __init__(self, extensions: Iterable[Extension[Any]] = ()) -> None:
        """`extensions`: from the client towards the app: steps run in this order, and each app layer wraps the next."""
        found = self._all = tuple(extensions)
        kept = [name for one in found for name in one.keeps]
        self.underscored = tuple(name for name in kept if name != FORWARDED)
        self.keeps_forwarded = FORWARDED in kept
        self.carriers: dict[str, NewCarrier] = {}  # by ALPN names, in the order of preference
        self.prefaces: dict[bytes, NewCarrier] = {}
        self.contexts: dict[str, NewContext] = {}
        self._answers: dict[str, Callable[[], Any]] = {}
        self._started: contextlib.ExitStack | None = None  # undoes `start`

    def add_protocols(self) -> None:
        """
        Ask all extensions for their protocols.

        Raises:
            ConfigError: see Extension.
        """
        found = [added for one in self._with("protocols") for added in one.protocols()]
        self.carriers = {added.name: added.new_carrier for added in found if added.new_carrier is not None}
        self.prefaces = {added.preface: added.new_carrier for added in found if added.preface and added.new_carrier}
        self.contexts = {added.name: added.new_context for added in found if added.new_context is not None}

    @contextlib.contextmanager
    def prepare(self) -> Iterator[None]:
        """Enter the contexts of all extensions, before binding."""
        with contextlib.ExitStack() as entered:
            for one in self._with("prepare"):
                entered.enter_context(one.prepare())
            yield

    @property
    def wants_times(self) -> bool:
        """Whether an extension reads the times of requests; valid after `start`."""
        return any("times" in one.wants for one in self._all)

    @property
    def wants_ids(self) -> bool:
        """Whether an extension reads the ids of requests; valid after `start`."""
        return any("ids" in one.wants for one in self._all)

    @property
    def sees_responses(self) -> bool:
        """Whether an extension needs each Response, which C does not make."""
        return bool(self._with("wrap_calls"))

    def fields(self, is_tls: bool) -> tuple[tuple[str, str], ...]:
        """Return the fields of responses of all extensions."""
        return tuple(field for one in self._with("fields") for field in one.fields(is_tls))

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """Return the app with the layers of all extensions; the app itself if there are none."""
        wrapped = app
        for one in reversed(self._with("wrap_app")):
            wrapped = one.wrap_app(wrapped)
        return wrapped if wrapped is app else named_as(wrapped, app)

    def wrap_calls(self, app: WSGIApp, context: ListenerContext) -> WSGIApp:
        """Return the app with the layers for one listener."""
        for one in reversed(self._with("wrap_calls")):
            app = one.wrap_calls(app, context)
        return app

    @property
    def explain(self) -> Explain | None:
        """What makes the response for an exception of the app; None: nothing does."""
        return next((one.explain for one in self._with("explain")), None)

    def wanting_python(self, context: ListenerContext) -> str:
        """Return the name of the first setting with which Python serves all requests of a listener; empty: no extension needs that."""
        for one in self._all:
            step = one.before(context) if overrides(type(one), "before") else None
            if overrides(type(one), "wrap_calls") or (step is not None and not step.is_done_in_c):
                return next(name for name in one.switches if getattr(one._config, name))
        return ""

    def before(self, context: ListenerContext) -> list[Before]:
        """Return the steps of a listener, in order."""
        steps = [one.before(context) for one in self._with("before")]
        return [step for step in steps if step is not None]

    def start(self, context: ServerContext) -> None:
        """
        Start all extensions, in order; if one fails, stop those that have started.

        Raises:
            BindError: one cannot start.
        """
        with contextlib.ExitStack() as undo:
            for one in self._all:
                if overrides(type(one), "start"):
                    one.start(context._replace(at_stop=undo.callback))
                if overrides(type(one), "answers"):
                    self._answers.update(one.answers())
            self._started = undo.pop_all()

    def new_ends(self, executor: Executor | InlineExecutor) -> Ends | None:
        """Return the Ends that pass ends of requests to the started extensions; None: none reads them."""
        readers = [reader for one in self._with("reader") if (reader := one.reader()) is not None]
        if not readers:
            return None
        wants_head = any("head" in one.wants for one in self._all)
        # Half of the pause: it may have begun some time before `arrived_at`.
        ends = Ends(readers, executor.jobs, soon=executor.pause_seconds / 2, wants_head=wants_head)
        if any(reader.ended is not None for reader in readers):
            executor.on_pause = ends.flush
        return ends

    def ask(self, name: str) -> Any:
        """Return a fact from the extension that has it; None: none has it, or they have not started."""
        answer = self._answers.get(name)
        return answer() if answer is not None else None

    def obey(self, order: str) -> None:
        """Carry out an order; do nothing if no started extension knows the order."""
        if self._started is not None:
            self.ask(order)

    def bind(self) -> list[Listener]:
        """
        Return their listeners in a supervisor.

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
        """Return their parts in a supervisor; without any, close the listeners that the previous supervisor has left."""
        found = [one.supervise(context) for one in self._with("supervise")]
        for listener in context.bound if not found else ():
            listener.close()
        return found

    def show_fault(self, fault: Fault) -> None:
        """Show to clients why the app's new code cannot serve."""
        for one in self._with("show_fault"):
            one.show_fault(fault)

    def on_second(self) -> None:
        """Call `on_second` of all, once a second. Log an exception of one, and continue with the others."""
        for one in self._with("on_second"):
            guard(one.on_second)

    def stop(self) -> None:
        """Stop the started extensions, the last first."""
        started, self._started = self._started, None
        if started is not None:
            started.close()

    def _with(self, name: str) -> list[Extension[Any]]:
        """Return the extensions that override a method, in order."""
        return [one for one in self._all if overrides(type(one), name)]


def overrides(extension: type[Extension[Any]], name: str) -> bool:
    """Whether a class overrides a method of Extension, which is called only then."""
    return getattr(extension, name) is not getattr(Extension, name)
