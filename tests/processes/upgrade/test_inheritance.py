"""The state written before exec, and read afterwards; here in one process, on copies of the descriptors."""

import hashlib
import json
import os
import selectors
import signal
import socket
import stat
import time

import pytest

from aserve.connections.listeners import open_listeners
from aserve.core.descriptors import list_open
from aserve.core.page import Field, State
from aserve.features import Config
from aserve.features.metrics.table import FIRST_WORD, KEYS, PLACES
from aserve.lifecycle.supervision import HandedDown, Supervision
from aserve.processes.children.children import ENDING_SECONDS, Children
from aserve.processes.children.pages import Pages
from aserve.processes.children.poller import Clock
from aserve.processes.fleet.facts import NEVER
from aserve.processes.fleet.fleet import Fleet
from aserve.processes.fleet.plan import Plan
from aserve.processes.monitoring.overview import Overview
from aserve.processes.monitoring.status import Status
from aserve.processes.upgrade import inheritance
from aserve.processes.upgrade.inheritance import FORM, Inheritance, hand_down
from aserve.settings import VERSION, parse_bind

PLAN = Plan(
    Config(workers=3, threads=7, bind=["127.0.0.1:0"], trusted_proxies=["10.0.0.0/8"], drain_seconds=4.5), "a:app"
)


class Listening(Supervision):
    """An extension with a listener."""

    def __init__(self, bound):
        self.bound = bound

    def hand_down(self):
        return HandedDown({}, self.bound)

    def close(self, is_end):
        for listener in self.bound:
            listener.close()


class Before:
    """A supervisor's part, with a serving and a draining worker."""

    def __init__(self, tmp_path):
        self.selector = selectors.DefaultSelector()
        self.pages = Pages(4)
        self.children = Children(self.pages, self.selector, Clock())
        self.listeners = open_listeners([parse_bind("127.0.0.1:0"), parse_bind(f"uwsgi://unix:{tmp_path}/s")])
        self.extension = Listening(open_listeners([parse_bind("127.0.0.1:0")]))
        self.overview = Overview(
            self.children,
            Status(self.children, Fleet(PLAN, 3)),
            lambda context: [self.extension],
        )
        for slot in (1, 2):
            child, _ = self.children.fork(slot, PLAN)
            self.children.admit(child)
            os.pwrite(child.in_flight, b"%d" % slot, 0)
        self.children.drain(child, is_replaced=True)

    def write(self, **other):
        """Return the descriptor of a copy in which every descriptor is a copy, too."""
        # A request on its way: its message, its connection and its file.
        moves = [{"number": 7, "message": {"to": 1}, "fds": [os.dup(0), os.dup(0)], "pid": 5}]
        with hand_down(self.listeners, PLAN, 3, self.children, {signal.SIGUSR1}, self.overview, moves=moves) as fd:
            state = json.loads(os.pread(fd, 1 << 20, 0))
            assert all(os.get_inheritable(each) for each in [fd, *state["descriptors"]])
        assert not any(os.get_inheritable(each) for each in state["descriptors"])
        copies = {each: os.dup(each) for each in state["descriptors"]}
        for each in (*state["listeners"], *state["metrics"]):
            each["fd"] = copies[each["fd"]]
        for each in state["children"]:
            each["channel"] = copies[each["channel"]]
            each["in_flight"] = copies[each["in_flight"]]
        state["farewell"]["channels"] = [each["channel"] for each in state["children"]]
        state["pages"] = copies[state["pages"]]
        state["kept"] = {name: copies[fd] for name, fd in state["kept"].items()}
        for each in state["moves"]:
            for fd in each["fds"]:
                os.close(fd)
            each["fds"] = [copies[fd] for fd in each["fds"]]
        state["descriptors"] = list(copies.values())
        self.pages_fd = state["pages"]
        copy = inheritance.open_memory_file("copy")
        os.write(copy, json.dumps({**state, **other}).encode())
        return copy


@pytest.fixture
def before(system, tmp_path, monkeypatch):
    """The earlier state."""
    kept = inheritance.open_memory_file("kept")
    os.write(kept, b"kept")
    monkeypatch.setattr(inheritance, "KEPT", {"a file": kept})
    before = Before(tmp_path)
    yield before
    os.close(kept)
    for child in before.children:
        child.close()
    for listener in before.listeners:
        listener.close()
    before.overview.close(is_end=True)
    before.selector.close()


def test_all_of_it(before, system, tmp_path):
    """Listeners, settings, pages and workers are the same."""
    fd = before.write()
    found = Inheritance.read(fd, Config)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    assert found.version == VERSION and found.blocked == [signal.SIGUSR1]
    assert (found.plan, found.size, found.pages, len(found.old_workers)) == (PLAN, 3, before.pages_fd, 0)
    assert [(listener.bind, listener.inode) for listener in found.listeners] == [
        (listener.bind, listener.inode) for listener in before.listeners
    ]
    assert found.listeners[0].address == before.listeners[0].address
    assert not any(os.get_blocking(listener.socket.fileno()) for listener in found.listeners)
    assert [listener.address for listener in found.bound] == [each.address for each in before.extension.bound]
    for listener in (*found.listeners, *found.bound):
        listener.socket.close()
    assert os.pread(found.kept["a file"], 9, 0) == b"kept"
    os.close(found.kept["a file"])
    (move,) = found.moves
    assert (move["number"], move["message"], move["pid"]) == (7, {"to": 1}, 5)
    for each in move["fds"]:
        assert not os.get_inheritable(each)
        os.close(each)

    selector, pages = selectors.DefaultSelector(), Pages(0, found.pages)
    children = Children(pages, selector, Clock())
    for state in found.children:
        children.adopt(state, found.plan)
    shown = [
        [(c.pid, c.slot, c.generation, c.page_number, c.state, c.began_at, c.ready_at) for c in them]
        for them in (children, before.children)
    ]
    assert shown[0] == shown[1] and [child.state for child in children] == [State.READY, State.DRAINING]
    first, second = children
    assert [os.pread(child.in_flight, 1, 0) for child in children] == [b"1", b"2"]
    assert pages.take() == 3 and first.page[Field.PID] == first.pid
    assert first.due_at == NEVER and 0 < second.due_at - time.monotonic() <= 4.5 + ENDING_SECONDS
    drains = [system.workers_ends[second.pid].receive()[0] for _ in range(2)]
    assert drains == [{"do": "drain", "stopping": False}] * 2
    for child in children:
        child.close()
    selector.close()


def test_whose_it_is(before):
    """The file has the settings with all secrets: its user alone may open it, it has no name in any folder, and it ends with its one descriptor."""
    plan = Plan(Config(env=["PASSWORD=hunter2"]), "a:app")
    with hand_down(before.listeners, plan, 3, before.children, (), before.overview) as fd:
        status = os.fstat(fd)
        assert b"hunter2" in os.pread(fd, 1 << 20, 0)
        assert (status.st_uid, stat.S_IMODE(status.st_mode), status.st_nlink) == (os.geteuid(), 0o600, 0)
        fds = {
            each for each in list_open() if os.path.exists(f"/proc/self/fd/{each}")
        }  # without the one of the listing
        assert [each for each in fds if os.path.samestat(os.fstat(each), status)] == [fd]
    with pytest.raises(OSError, match="Bad file"):  # exec has failed
        os.fstat(fd)


@pytest.mark.parametrize("other", [{"form": 99}, {"settings": {"threads": "many"}}])
def test_another_form_gives_listeners_and_old_workers(before, system, other):
    """Then there are listeners, and workers that can be told one thing, once."""
    found = Inheritance.read(before.write(**other), Config)
    assert len(found.listeners) == 2 and (found.plan, found.size, found.pages, found.children) == (None, None, None, ())
    assert len(found.old_workers) == 2 and found.counted is not None and found.kept == {}
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(before.pages_fd)
    system.workers_ends[before.children.having(State.READY)[0].pid].close()  # nothing can be told to it
    for _ in range(2):
        found.old_workers.dismiss()
    (drains,) = before.children.having(State.DRAINING)
    received = [system.workers_ends[drains.pid].receive()[0] for _ in range(2)]
    assert received == [{"do": "drain", "stopping": False}] * 2  # the first is the old one's
    with pytest.raises(BlockingIOError):
        system.workers_ends[drains.pid].receive()
    assert [listener.address for listener in found.bound] == [each.address for each in before.extension.bound]
    found.old_workers.close()
    for each in [*found.listeners, *found.bound]:
        each.socket.close()


def test_a_form_for_each_layout():
    """Old pages are read where the words are the same: a change of the table of counts is another form."""
    layout = "\n".join([str(FIRST_WORD), *map(repr, PLACES.items()), *KEYS])
    assert (FORM, hashlib.sha256(layout.encode()).hexdigest()[:16]) == (11, "292fbb5ec1381385"), (
        "raise FORM, and note the new layout here"
    )


def test_settings_that_are_gone(before):
    """A setting unknown to this version is left out."""
    found = Inheritance.read(before.write(settings={"threads": 5, "gone": 1}), Config)
    assert found.plan == Plan(Config(threads=5), "a:app")
    for each in (*found.listeners, *found.bound):
        each.socket.close()
    for each in [found.pages, *(child[name] for child in found.children for name in ("channel", "in_flight"))]:
        os.close(each)


def test_sockets_never_block(monkeypatch):
    """A listener is shared: it must not block for a moment either, as PyPy would have it."""
    seen = []
    monkeypatch.setattr(socket, "socket", lambda fileno: seen.append((fileno, socket.getdefaulttimeout())))
    inheritance.open_socket(7)
    assert seen == [(7, 0.0)] and socket.getdefaulttimeout() is None


def test_a_listener_of_stats(tmp_path):
    """A client there gets statistics from the new code, too."""
    (listener,) = open_listeners([parse_bind(f"unix:{tmp_path}/s")])
    described = inheritance._describe_listener(listener._replace(is_stats=True))
    inherited = inheritance._open_listener({**described, "fd": os.dup(described["fd"])})
    inherited.socket.close()
    listener.close()
    assert inherited.is_stats
