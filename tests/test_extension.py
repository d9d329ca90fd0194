"""The additions of an option to the engine: only overridden methods are called, and in the order of the features."""

import contextlib
import time
import types

import pytest
from harness import apps
from harness.extensions import new_context
from harness.fakes import FakeConnection

from aserve.core.ends import Reader
from aserve.core.errors import BindError, RequestRefused
from aserve.core.exchange import Exchange
from aserve.extension import FORWARDED, REOPEN_LOGS, AddedProtocol, Extension, Extensions, ListenerContext
from aserve.features import Config
from aserve.lifecycle.supervision import Supervision, SupervisorContext
from aserve.workers.inline import InlineExecutor
from aserve.wsgi.gateway import Before


class Wrapper:
    """An app around another."""

    def __init__(self, inner, name):
        self.inner, self.name = inner, name


class Nothing(Extension):
    """An extension without overrides: each method would raise."""


class Named(Extension):
    """An extension around the app, and around the calls of each listener; `is_late`: without a step."""

    def __init__(self, name, is_late=False):
        self.name, self.is_late = name, is_late

    def wrap_app(self, app):
        return Wrapper(app, self.name)

    def wrap_calls(self, app, context):
        return Wrapper(app, f"{self.name} at {context.listener}")

    def before(self, context):
        return None if self.is_late else Step()


class Step(Before):
    """A step."""


class Timed(Extension):
    """An extension with a wish for the arrivals of requests."""

    wants = ["times"]


class Reading(Extension):
    """A reader of the ends of requests, from many at once."""

    def __init__(self):
        self.read = []

    def start(self, context):
        self.wants = ["times", "ids", "head"]  # known only now

    def reader(self):
        return Reader(self, refused=self.write_refused)

    def write(self, batch):
        self.read += [each[3] for each in batch]

    def write_refused(self, connection, exchange, why):
        self.read.append(why.status)

    def answers(self):
        return {"read": lambda: list(self.read), REOPEN_LOGS: lambda: self.read.append("another file")}


class Watching(Extension):
    """A reader of ended requests of two seconds or more, and of WebSockets."""

    def __init__(self):
        self.seen = []

    def reader(self):
        see = self.seen.append
        return Reader(at_end=(2.0, see), upgraded=lambda exchange: see("a WebSocket"))


class Native(Reading):
    """An extension with counts by C."""

    def reader(self):
        counting = types.SimpleNamespace(write=self.write, places=(1,), thread_seconds=3.0, add=print)
        return Reader(counting)


class Timer(Extension):
    """An extension with work while the server serves."""

    def __init__(self, name, log, can_start=True):
        self.name, self.log, self.can_start = name, log, can_start

    def start(self, context):
        if not self.can_start:
            raise BindError(self.name)
        self.log.append(f"{self.name} starts at {context.slot}")
        context.at_stop(lambda: self.log.append(f"{self.name} stops"))

    def on_second(self):
        self.log.append(f"{self.name} ticks")


CONFIG = Config()
SERVER = new_context(slot=2)
CONTEXT = ListenerContext("a listener", None, lambda connection: False)


def test_nothing():
    """An unasked extension costs no request a step."""
    for extensions in (Extensions(), Extensions([Nothing(CONFIG)])):
        assert (
            extensions.wrap_app(apps.hello) is apps.hello and extensions.wrap_calls(apps.hello, CONTEXT) is apps.hello
        )
        assert extensions.before(CONTEXT) == [] and not extensions.sees_responses and not extensions.wants_times
        extensions.start(SERVER)
        extensions.on_second()
        extensions.obey(REOPEN_LOGS)
        assert extensions.new_ends(InlineExecutor()) is None and not extensions.wants_ids
        assert extensions.ask("anything") is None
        extensions.stop()


def test_the_order():
    """The first extension wraps the later, and has the first step; an extension may have no step for a listener."""
    extensions = Extensions([Named("first"), Nothing(CONFIG), Named("second", is_late=True)])
    outer = extensions.wrap_app(apps.hello)
    assert (outer.name, outer.inner.name, outer.inner.inner) == ("first", "second", apps.hello)
    outer = extensions.wrap_calls(apps.hello, CONTEXT)
    assert (outer.name, outer.inner.name) == ("first at a listener", "second at a listener")
    assert [type(step) for step in extensions.before(CONTEXT)] == [Step] and extensions.sees_responses


def test_the_name_of_the_app():
    """The log names the app, and not the extensions in front."""
    outer = Extensions([Named("first")]).wrap_app(apps.hello)
    assert (outer.__module__, outer.__qualname__) == (apps.__name__, "hello")
    assert Extensions([Named("first")]).wrap_app(Wrapper(None, "")).__qualname__ == "Wrapper"


def test_times():
    """Times are taken for any reader of times."""
    assert Extensions([Nothing(CONFIG), Timed(CONFIG)]).wants_times


def test_fields():
    """The fields of all extensions, in the order of the extensions."""

    class Adding(Extension):
        def __init__(self, *names):
            self.names = names

        def fields(self, is_tls):
            return [(name, "1") for name in self.names if is_tls or name != "TLS"]

    first, second = Adding("A"), Adding("B", "TLS")
    second.keeps = ["a_b", FORWARDED]
    extensions = Extensions([first, Nothing(CONFIG), second])
    assert extensions.fields(is_tls=False) == (("A", "1"), ("B", "1")) and extensions.underscored == ("a_b",)
    assert extensions.fields(is_tls=True) == (("A", "1"), ("B", "1"), ("TLS", "1"))
    assert extensions.keeps_forwarded and not Extensions([first]).keeps_forwarded


def test_protocols():
    """The certificates of all extensions, asked for at each start: later certificates are for further names."""
    asked = []

    class Adding(Extension):
        def __init__(self, *added):
            self.added = added

        def protocols(self):
            asked.extend(self.added)
            return self.added

    added = AddedProtocol("b", Wrapper, b"B"), AddedProtocol("a", Wrapper), AddedProtocol("c", new_context=Nothing)
    extensions = Extensions([Nothing(None), Adding(*added[:2]), Adding(added[2])])
    assert extensions.carriers == extensions.prefaces == extensions.contexts == {}
    for _ in range(2):
        extensions.add_protocols()
        assert list(extensions.carriers) == ["b", "a"] and list(extensions.prefaces) == [b"B"]
        assert extensions.contexts == {"c": Nothing}
    assert asked == [*added, *added]


def test_a_listener():
    """An extension hears whether a listener speaks HTTP."""
    for protocol, is_http in [("http", True), ("https", True), ("uwsgi", False), ("scgi", False)]:
        listener = types.SimpleNamespace(bind=types.SimpleNamespace(protocol=protocol))
        assert ListenerContext(listener, None, lambda connection: False).is_http is is_http


def test_from_start_to_stop():
    """Extensions start in order and stop in reverse, at each start and stop of the server."""
    log = []
    extensions = Extensions([Timer("first", log), Nothing(CONFIG), Timer("second", log)])
    extensions.stop()
    for _ in range(2):
        log.clear()
        extensions.start(SERVER)
        extensions.on_second()
        extensions.stop()
        extensions.stop()
        assert log == [
            "first starts at 2", "second starts at 2", "first ticks", "second ticks", "second stops", "first stops"
        ]  # fmt: skip


class Listener:
    """A closable thing."""

    is_closed = False

    def close(self):
        self.is_closed = True


class Supervising(Extension):
    """An extension with work in a supervisor, and in a worker at the supervisor's word."""

    def __init__(self, *bound):
        self.bound = bound
        self.obeyed = []

    def answers(self):
        return {"go": lambda: self.obeyed.append("go")}

    def bind(self):
        if not self.bound:
            raise BindError("taken")
        return self.bound

    def supervise(self, context):
        return Supervision()


def test_a_supervisor():
    """Listeners are bound for all extensions or for none; inherited listeners without an owner are closed."""
    first, second = Listener(), Listener()
    extensions = Extensions([Nothing(None), Supervising(first), Supervising(second)])
    assert extensions.bind() == [first, second]
    context = SupervisorContext(None, {}, None, None, [first])
    assert len(extensions.supervise(context)) == 2 and not first.is_closed
    assert Extensions([Nothing(None)]).supervise(context) == [] and first.is_closed
    with pytest.raises(BindError, match="taken"):
        Extensions([Supervising(second), Supervising()]).bind()
    assert second.is_closed


def test_orders():
    """Words are obeyed by started extensions; an unknown word is nobody's."""
    one = Supervising()
    extensions = Extensions([one])
    extensions.obey("go")
    extensions.start(new_context())
    extensions.obey("go")
    extensions.obey("stay")
    assert one.obeyed == ["go"]


def test_one_that_cannot_start():
    """Earlier extensions stop again, and later extensions do not start."""
    log = []
    extensions = Extensions([Timer("first", log), Timer("second", log, can_start=False), Timer("third", log)])
    with pytest.raises(BindError, match="second"):
        extensions.start(SERVER)
    assert log == ["first starts at 2", "first stops"]
    extensions.stop()
    assert len(log) == 2


def ended(code, seconds):
    """Return a request of so many seconds."""
    exchange = Exchange("", 0)
    exchange.connection = FakeConnection()
    exchange.arrived_at = time.monotonic() - seconds
    exchange.response = types.SimpleNamespace(code=code, sent_bytes=0, head=b"")
    return exchange


def test_ends_of_requests():
    """Each end is read by each reader, in the reader's way; a waiting end is told when requests pause."""
    reading, watching, executor = Reading(), Watching(), InlineExecutor()
    extensions = Extensions([reading, Nothing(CONFIG), watching])
    extensions.start(SERVER)
    ends = extensions.new_ends(executor)
    assert extensions.wants_times and extensions.wants_ids
    executor.jobs.append((print, "a job"))
    slow = ended(201, 3600.0)
    for exchange in (ended(200, 0.0), slow):
        ends.write(exchange)
    ends.write_upgraded(slow)
    assert reading.read == [] and watching.seen == [slow, "a WebSocket"]
    executor.on_pause()
    ends.write_refused(FakeConnection(), None, RequestRefused(413, "large"))
    extensions.obey(REOPEN_LOGS)
    assert extensions.ask("read") == reading.read == [200, 201, 413, "another file"]
    extensions.stop()
    assert extensions.ask("read") and extensions.ask("other") is None


def test_nothing_waits_for_one_that_sees_each():
    """Then no pause of the requests is looked for."""
    executor = InlineExecutor()
    assert Extensions([Watching()]).new_ends(executor).parts[4] == 2.0 and executor.on_pause is None


def test_what_c_counts():
    """Counts of C go to the named place."""
    ends = Extensions([Native()]).new_ends(InlineExecutor())
    assert ends.parts[6] == (1,) and ends.thread_seconds == 3.0


def test_what_is_prepared():
    """Contexts are entered before anything is bound, in order, and left in reverse."""
    log = []

    class Preparing(Extension):
        """An extension with a preparation."""

        def __init__(self, name):
            self.name = name

        @contextlib.contextmanager
        def prepare(self):
            log.append(f"{self.name} in")
            yield
            log.append(f"{self.name} out")

    with Extensions([Preparing("a"), Nothing(CONFIG), Preparing("b")]).prepare():
        log.append("bound")
    assert log == ["a in", "b in", "bound", "b out", "a out"]


def test_logs_that_are_not_open():
    """SIGUSR1 may come before a server's start, and after a failed start: there is nothing to go on with."""
    log = []

    class Logging(Extension):
        """An extension with a log."""

        def start(self, context):
            log.append("opened")

        def answers(self):
            return {REOPEN_LOGS: lambda: log.append("reopened")}

    extensions = Extensions([Logging(CONFIG)])
    extensions.obey(REOPEN_LOGS)
    extensions.start(SERVER)
    extensions.obey(REOPEN_LOGS)
    extensions.stop()
    extensions.obey(REOPEN_LOGS)
    assert log == ["opened", "reopened"]


@pytest.mark.provokes("internal error;")
def test_a_second_that_fails(caplog):
    """The rest have their turn; the log names the faulty extension."""
    log = []

    class Broken(Timer):
        """An extension with a mistake."""

        def on_second(self):
            raise KeyError("x")

    extensions = Extensions([Broken("first", log), Timer("second", log)])
    extensions.start(SERVER)
    extensions.on_second()
    assert log[-1] == "second ticks" and "bug in aserve" in caplog.text
