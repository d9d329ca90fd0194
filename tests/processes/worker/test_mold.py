"""A process that forks workers: its words and its forks; tests/e2e/test_preload.py has it whole."""

import errno
import gc
import os
import pathlib
import signal
import types

import pytest
from harness.asking import hello
from harness.leading import Leading, lead_by

from aserve.connections.in_flight import TABLE_BYTES
from aserve.core.memory_file import open_memory_file
from aserve.core.page import MOLD, Field
from aserve.lifecycle.load_error import LoadError
from aserve.processes.children import forked as forked_module
from aserve.processes.children.channel import Channel
from aserve.processes.children.pages import Pages
from aserve.processes.children.role import Role
from aserve.processes.worker import mold as mold_module
from aserve.processes.worker.mold import run_mold
from aserve.processes.worker.opened import Opened


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Keep out the lasting settings of a mold; and let it have opened nothing, as this process has not by itself."""
    monkeypatch.setattr(forked_module.faulthandler, "enable", lambda: None)
    monkeypatch.setattr(mold_module, "find_opened", lambda before: Opened([], [], []))
    monkeypatch.setattr(mold_module, "gc", types.SimpleNamespace(collect=gc.collect, freeze=lambda: None))


class Led(Leading):
    """A mold's surroundings: the supervisor's end of its channel, and its possible forks."""

    def __init__(self, **settings):
        super().__init__(workers=2, preload=True, **settings)
        self.pages = Pages(4)
        self.role = Role(MOLD, 1, self.plan, self.theirs, self.listeners, None, self.pages, supervisor_pid=4242)
        self.entered = []
        self.ends = []

    def tell(self, **message):
        self.channel.send(message)

    def ask_for(self, slot):
        """Tell the mold to fork a worker, whose end of the channel is the last of `ends`."""
        ours, theirs = Channel.pair()
        self.ends.append(ours)
        memory = open_memory_file("test")
        os.truncate(memory, TABLE_BYTES)
        order = {"do": "fork", "slot": slot, "generation": 7, "page": self.pages.take()}
        self.channel.send(order, [theirs.detach(), memory])

    def run(self, load=lambda: hello):
        """Be this mold; return the exit status."""
        return run_mold(self.role, load, self.entered.append)

    def close(self):
        super().close()
        for channel in self.ends:
            channel.close()


lead = lead_by(Led)


@pytest.fixture
def at_word(monkeypatch):
    """at_word(call): do this when a mold has told its readiness, or waits again."""
    calls = []
    waiting = mold_module.Mold._fork_at_word

    def wait(self, app):
        for call in calls:
            call()
        return waiting(self, app)

    monkeypatch.setattr(mold_module.Mold, "_fork_at_word", wait)
    return calls.append


def test_ready_is_told_after_the_import(lead, at_word):
    """A mold imports the app, says so, and ends at the order."""
    led = lead()
    at_word(lambda: led.tell(do="drain", stopping=False))
    assert led.run() == 0 and led.heard() == [{"say": "ready"}]
    assert led.entered == []


def test_the_supervisor_has_died(lead, at_word):
    led = lead()
    at_word(led.channel.close)
    assert led.run() == 0


def test_an_app_that_cannot_be_loaded(lead):
    """The supervisor is told why, with the app's traceback; the exit status is 1."""
    led = lead()

    def load():
        raise LoadError("no module 'a'", "Traceback: here\n")

    assert led.run(load) == 1
    assert led.heard() == [{"say": "failed", "why": "no module 'a'", "traceback": "Traceback: here\n"}]


def test_warm_up_comes_before_readiness(lead, at_word):
    seen = []

    def app(environ, start_response):
        seen.append((environ["PATH_INFO"], led.heard()))
        start_response("200 OK", [])
        return []

    led = lead(warm_up=["/a", "/b"])
    at_word(lambda: led.tell(do="drain", stopping=False))
    assert led.run(lambda: app) == 0
    assert seen == [("/a", []), ("/b", [])] and led.heard() == [{"say": "ready"}]


@pytest.mark.parametrize("when", ["at import", "at import or --warm-up"])
def test_an_unfit_mold_names_its_resources(lead, monkeypatch, when):
    """A mold tells the app's open resources by name, and ends; after a failed import, no request is tried."""
    found = [Opened([], [], [])] * ("warm" in when) + [Opened(["thread ticker", "a pipe (descriptor 9)"], [], [])]
    monkeypatch.setattr(mold_module, "find_opened", lambda before: found.pop(0))
    led = lead(warm_up=["/"])
    assert led.run() == 0 and found == []
    assert led.heard() == [{"say": "unfit", "why": f"{when}: thread ticker, a pipe (descriptor 9)"}]


def test_what_is_shared(lead, at_word, monkeypatch, caplog):
    """Shared resources that may stay are in the log."""
    caplog.set_level("INFO", "aserve")
    monkeypatch.setattr(mold_module, "find_opened", lambda before: Opened([], ["/tmp/log"], ["python"]))
    led = lead()
    at_word(lambda: led.tell(do="drain", stopping=False))
    assert led.run() == 0
    assert "opened at import, and shared by all workers: /tmp/log" in caplog.text
    assert "threads of libraries in C, at import: python; workers have those" in caplog.text


def test_without_proc_a_mold_tells_its_blind_spot(lead, at_word, monkeypatch, caplog):
    """Without /proc a mold forks, and tells its blind spot."""
    monkeypatch.setattr(mold_module, "find_opened", lambda before: Opened([], [], None))
    led = lead()
    at_word(lambda: led.tell(do="drain", stopping=False))
    assert led.run() == 0
    assert "--preload: there is no /proc, so it is not known whether libraries in C" in caplog.text


def test_a_worker_comes_of_two_forks(lead, at_word, monkeypatch):
    """A worker is the process of two forks, with its own channel, page and place, and the mold's app."""
    served = []
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(mold_module, "serve_as", lambda role, load: served.append((role, load())) or 7)
    led = lead()
    handler = lambda number, frame: None  # noqa: E731

    def load():
        signal.signal(signal.SIGHUP, handler)  # the app's own
        return hello

    at_word(lambda: led.ask_for(2))
    assert led.run(load) == 7
    ((role, app),) = served
    assert app is hello and led.entered == [role]
    assert (role.slot, role.generation, role.name, role.supervisor_pid) == (2, 7, "worker 2", 4242)
    assert role.plan is led.role.plan and len(role.in_flight) == TABLE_BYTES
    role.page[Field.REQUESTS] = 5
    assert led.pages.page(1)[Field.REQUESTS] == 5 and role.load_board is not None
    assert led.heard(led.ends[0]) == [{"say": "begun"}] and led.role.channel.fileno() == -1
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and signal.getsignal(signal.SIGHUP) is handler
    assert signal.getsignal(signal.SIGQUIT) is mold_module.early
    role.channel.close()


@pytest.fixture
def brief(monkeypatch):
    """Workers that end as soon as they have begun: they are copies of this process."""
    monkeypatch.setattr(mold_module, "serve_as", lambda role, load: os._exit(0))


@pytest.mark.usefixtures("brief")
def test_it_forks_twice(lead, at_word, wait_until):
    """Real workers tell their begin, and are nobody's children here."""
    led, children = lead(), pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    at_word(lambda: [led.ask_for(1), led.ask_for(2), led.tell(do="drain", stopping=False)])
    assert led.run() == 0
    for end in led.ends:
        wait_until(lambda end=end: led.heard(end) == [{"say": "begun"}])
    assert children.read_text() == before


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("which", [1, 2])
def test_no_process_is_left(lead, at_word, monkeypatch, which):
    """Whichever fork it is: the supervisor is told, and the mold goes on."""
    fork, here = os.fork, os.getpid()

    def fail():
        if which == 1 or os.getpid() != here:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    monkeypatch.setattr(os, "fork", fail)
    led = lead()
    at_word(lambda: [led.ask_for(1), led.tell(do="drain", stopping=False)])
    assert led.run() == 0
    why = f"it could not be forked: {os.strerror(errno.EAGAIN)}"
    assert led.heard(led.ends[0]) == [{"say": "failed", "why": why, "traceback": ""}]
    assert led.ends[0].receive() is None


@pytest.mark.usefixtures("brief")
def test_an_app_that_ignores_its_children(lead, at_word):
    """With SIGCHLD ignored nobody waits in vain."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        led = lead()
        at_word(lambda: [led.ask_for(1), led.tell(do="drain", stopping=False)])
        assert led.run() == 0
    finally:
        signal.signal(signal.SIGCHLD, before)
