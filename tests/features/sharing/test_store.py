"""One command, one answer, or a fault within a bounded time; what is said of it, and what becomes of connections."""

from __future__ import annotations

import logging
import os
import threading
import time

import pytest
from harness.front import free_port
from harness.stores import SERVERS

from aserve.features.sharing import store as module
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import ANSWER_SECONDS, Away, Store, StoreError

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def new(store_server):
    """Make a store: new(**parts of Shared) -> Store."""
    made = []

    def new_(url=store_server.url, prefix="shop"):
        made.append(Store(Shared(url, prefix)))
        return made[-1]

    yield new_
    for store in made:
        store.end()


@pytest.fixture
def probing(monkeypatch):
    """Look for a server that is away often."""
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.01)


def clients_of(server):
    """Return how many connections the server has, but for the one that asks."""
    return server.ask("CLIENT", "LIST").count(b"id=") - 1


@pytest.mark.parametrize("store_server", SERVERS, indirect=True)
def test_asked(new):
    """Octets go there and come back; keys have the prefix."""
    store = new()
    assert store.key("cache", b"\xff:") == b"shop:cache:\xff:"
    assert store.ask("SET", store.key("a"), b"\x00\xff") == b"OK"
    assert store.ask("GET", b"shop:a") == b"\x00\xff" and store.ask("GET", b"none") is None
    assert store.run("return {KEYS[1], ARGV[1]}", [b"k"], 7) == [b"k", b"7"]


def test_scan(new):
    """Keys are found by how they begin, whatever that is."""
    store = new(prefix="shop")
    names = [b"shop:*[a]?\\:%d" % number for number in range(2000)]
    store.ask("MSET", *[word for name in names for word in (name, b"1")], b"shop:aa:1", b"1")
    found = [key for keys in store.scan(store.key("*[a]?\\", "")) for key in keys]
    assert sorted(found) == sorted(names)


def test_one_connection(new, store_server):
    """Calls one after another share one."""
    store = new()
    for _ in range(5):
        store.ask("PING")
    assert clients_of(store_server) == 1


def test_many_one_after_another(new, monkeypatch):
    """A process that runs for long makes any number of connections, one whenever the last one was quiet for long."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    store = new()
    for _ in range(120):  # the package's pool makes 100
        assert store.ask("PING") == b"PONG"


def test_threads(new, store_server):
    """Calls at the same time have one each, and keep them."""
    store, both = new(), threading.Barrier(4)

    def call():
        both.wait(20)
        store.ask("BLPOP", "none", "0.2")

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    count = clients_of(store_server)
    assert 1 <= count <= 4
    store.ask("PING")
    assert clients_of(store_server) == count


def test_few_are_kept(new, store_server, monkeypatch, wait_until):
    """What is more than that is closed."""
    monkeypatch.setattr(module, "MAX_IDLE", 0)
    store = new()
    store.ask("PING")
    wait_until(lambda: clients_of(store_server) == 0)


def test_what_was_quiet_for_long(new, store_server, monkeypatch, wait_until):
    """A firewall may have forgotten it: it is not used again."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    store = new()
    first = store.ask("CLIENT", "ID")
    assert store.ask("CLIENT", "ID") != first
    wait_until(lambda: clients_of(store_server) == 1)


def test_no_answer_of_another(new):
    """A connection on which a thread was interrupted between a command and its answer is not used again."""
    store = new()

    class Interrupt(BaseException):
        pass

    store.ask("PING")
    (kept,) = store._idle
    before = kept[1].read_response

    def interrupted(*arguments, **named):
        raise Interrupt

    kept[1].read_response = interrupted
    with pytest.raises(Interrupt):
        store.ask("ECHO", "the answer of another")
    kept[1].read_response = before
    assert store.ask("ECHO", "mine") == b"mine"


def test_refused(new, caplog):
    """What the server refuses is a fault of the call's, told once; others go on."""
    store = new()
    store.ask("SET", "text", "x")
    for _ in range(2):
        with pytest.raises(StoreError, match="refuses INCR: value is not an integer") as caught:
            store.ask("INCR", "text")
        assert not isinstance(caught.value, Away)
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.name} refuses INCR: value is not an integer or out of range"
    ]
    assert store.ask("PING") == b"PONG"


def test_a_wrong_database(new):
    """It is away, and the reason is the server's."""
    store = new()
    wrong = new(url=f"{store._maker.connection_kwargs['path']}".join(("unix://", "?db=99")))
    with pytest.raises(Away, match="DB index is out of range"):
        wrong.ask("PING")


def test_a_password(new, store_server, caplog):
    """It is said to the server, and to nobody else."""
    store_server.ask("CONFIG", "SET", "requirepass", "secret")
    named = new(url=store_server.url.replace("//", "//:secret@"))
    assert named.ask("PING") == b"PONG"
    wrong = new(url=store_server.url.replace("//", "//:secret2@"))
    with pytest.raises(Away) as caught:
        wrong.ask("PING")
    assert "secret" not in f"{caught.value}{caplog.text}{named.name}"


def test_a_port(new, store_server):
    """Over TCP it is the same."""
    port = free_port()
    assert store_server.ask("CONFIG", "SET", "port", str(port)) == b"+OK\r\n"
    assert new(url=f"redis://127.0.0.1:{port}/2").ask("SET", "k", "v") == b"OK"
    assert store_server.ask("GET", "k") == b"$-1\r\n"


def test_restarted(new, store_server):
    """Between two calls: nobody sees anything of it."""
    store = new()
    store.ask("SET", "k", "v")
    store_server.kill()
    store_server.start()
    assert store.ask("GET", "k") == b"v"


@pytest.mark.parametrize("store_server", SERVERS, indirect=True)
def test_away(new, store_server, probing, caplog, wait_until):
    """The first call says so, the others fail at once; a line says when it is back."""
    caplog.set_level(logging.INFO)
    store = new()
    store.ask("PING")
    store_server.kill()
    with pytest.raises(ConnectionError, match="is away"):
        store.ask("PING")
    with pytest.raises(Away):
        store.ask("PING")
    assert len(caplog.records) == 1 and f"{store.name} is away: " in caplog.text
    store_server.start()
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("PING") == b"PONG" and len(caplog.records) == 2


def test_one_connection_that_is_lost(new, store_server, caplog, wait_until):
    """It is the server that is asked then, and it answers."""
    store, faults = new(), []

    def call():
        with pytest.raises(Away) as caught:
            store.ask("BLPOP", "none", "20")
        faults.append(caught.value)

    def kill():
        return b"cmd=blpop" in store_server.ask("CLIENT", "LIST") and store_server.ask(
            "CLIENT", "KILL", "TYPE", "normal"
        )

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: faults or kill(), 20)
    thread.join(20)
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("PING") == b"PONG" and len(faults) == 1


def test_log_that_asks(new, store_server, probing, wait_until):
    """A handler of the app's logging may ask the store that is told of: it does not wait for itself."""
    store, heard = new(), []

    class Asking(logging.Handler):
        def emit(self, record):
            try:
                heard.append(store.ask("PING"))
            except ConnectionError:
                heard.append("away")

    handler = Asking()
    logging.getLogger("aserve").addHandler(handler)
    try:
        store._note_away(Away("it is away"))
        wait_until(lambda: len(heard) == 2, 20)
    finally:
        logging.getLogger("aserve").removeHandler(handler)
    assert heard == ["away", b"PONG"]


def test_silent(new, store_server, probing, caplog, wait_until):
    """A server that says nothing holds a call no longer than that, and the next ones not at all."""
    store = new()
    store.ask("PING")
    store_server.pause()
    begun = time.monotonic()
    with pytest.raises(Away):
        store.ask("PING")
    assert time.monotonic() - begun >= ANSWER_SECONDS
    with pytest.raises(Away):
        store.ask("SET", "k", "never sent")
    store_server.resume()
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("GET", "k") is None


def test_read_only(new, store_server, probing, caplog, wait_until):
    """A server that others have made a replica is as good as away, until it takes what is written."""
    store = new()
    assert store.ask("REPLICAOF", "127.0.0.1", "1") == b"OK"
    with pytest.raises(Away, match="read only replica"):
        store.ask("SET", "k", "v")
    store_server.ask("REPLICAOF", "NO", "ONE")
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("SET", "k", "v") == b"OK"


def test_back_and_full(new, store_server, probing, caplog, wait_until):
    """One that has no room answers, so it is back."""
    store = new()
    store_server.kill()
    with pytest.raises(Away):
        store.ask("PING")
    store_server.start("--maxmemory", "1")
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("PING") == b"PONG"


def test_no_thread(new, store_server, monkeypatch, caplog):
    """Where no thread can be had, each call looks for itself."""
    store = new()
    store_server.kill()

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        for _ in range(2):
            with pytest.raises(Away):
                store.ask("PING")
    store_server.start()
    assert store.ask("PING") == b"PONG" and caplog.text == ""


def test_two_find_it_away(new, caplog):
    """One line for both."""
    store = new(url="unix:///nowhere/at/all")
    with pytest.raises(Away) as fault:
        store.ask("PING")
    store._note_away(fault.value)
    assert len(caplog.records) == 1


def test_the_end(new):
    """No thread looks for a server that is away any more."""
    before = set(threading.enumerate())
    store = new(url="unix:///nowhere/at/all")
    with pytest.raises(Away):
        store.ask("PING")
    (looking,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "aserve-shared"]
    store.end()
    looking.join(20)
    assert not looking.is_alive()


def test_forked(new, store_server):
    """A child has connections of its own, and does not close its parent's."""
    store = new()
    mine = store.ask("CLIENT", "ID")
    pid = os.fork()
    if not pid:
        try:
            os._exit(0 if store.ask("CLIENT", "ID") != mine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.ask("CLIENT", "ID") == mine


def test_a_password_is_not_told():
    """Neither in the log nor in an exception."""
    store = Store(Shared("redis://shop:secret@127.0.0.1:1/0", "shop"))
    assert store.name == "redis://...@127.0.0.1:1/0"
