"""One command, one answer, or a fault within a bounded time; the words about faults, and the fate of connections."""

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
    """Look often for an absent server."""
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.01)


def clients_of(server):
    """Return the server's number of connections, without the asking one."""
    return server.ask("CLIENT", "LIST").count(b"id=") - 1


@pytest.mark.parametrize("store_server", SERVERS, indirect=True)
def test_asked_octets_come_back(new):
    """Octets come back unchanged; keys have the prefix."""
    store = new()
    assert store.key("cache", b"\xff:") == b"shop:cache:\xff:"
    assert store.ask("SET", store.key("a"), b"\x00\xff") == b"OK"
    assert store.ask("GET", b"shop:a") == b"\x00\xff" and store.ask("GET", b"none") is None
    assert store.run("return {KEYS[1], ARGV[1]}", [b"k"], 7) == [b"k", b"7"]


def test_a_scan_finds_keys_by_prefix(new):
    store = new(prefix="shop")
    names = [b"shop:*[a]?\\:%d" % number for number in range(2000)]
    store.ask("MSET", *[word for name in names for word in (name, b"1")], b"shop:aa:1", b"1")
    found = [key for keys in store.scan(store.key("*[a]?\\", "")) for key in keys]
    assert sorted(found) == sorted(names)


def test_one_connection_serves_calls_in_turn(new, store_server):
    store = new()
    for _ in range(5):
        store.ask("PING")
    assert clients_of(store_server) == 1


def test_many_one_after_another(new, monkeypatch):
    """A long process makes any number of connections, one whenever the last was quiet for long."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    store = new()
    for _ in range(120):  # the package's pool makes 100
        assert store.ask("PING") == b"PONG"


def test_threads_have_a_connection_each(new, store_server):
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
    """Surplus connections are closed."""
    monkeypatch.setattr(module, "MAX_IDLE", 0)
    store = new()
    store.ask("PING")
    wait_until(lambda: clients_of(store_server) == 0)


def test_what_was_quiet_for_long(new, store_server, monkeypatch, wait_until):
    """A firewall may have forgotten a quiet connection: it is not used again."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    store = new()
    first = store.ask("CLIENT", "ID")
    assert store.ask("CLIENT", "ID") != first
    wait_until(lambda: clients_of(store_server) == 1)


def test_no_answer_of_another(new):
    """A connection interrupted between a command and its answer is not used again."""
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


def test_a_refused_command_is_the_calls_fault(new, caplog):
    """A command refused by the server is a fault of the call's, told once; other calls go on."""
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
    """The store is away, for the server's reason."""
    store = new()
    wrong = new(url=f"{store._maker.connection_kwargs['path']}".join(("unix://", "?db=99")))
    with pytest.raises(Away, match="DB index is out of range"):
        wrong.ask("PING")


def test_a_password_is_told_to_nobody_else(new, store_server, caplog):
    """The password goes to the server, and to nobody else."""
    store_server.ask("CONFIG", "SET", "requirepass", "secret")
    named = new(url=store_server.url.replace("//", "//:secret@"))
    assert named.ask("PING") == b"PONG"
    wrong = new(url=store_server.url.replace("//", "//:secret2@"))
    with pytest.raises(Away) as caught:
        wrong.ask("PING")
    assert "secret" not in f"{caught.value}{caplog.text}{named.name}"


def test_a_port_works_like_a_socket(new, store_server):
    port = free_port()
    assert store_server.ask("CONFIG", "SET", "port", str(port)) == b"+OK\r\n"
    assert new(url=f"redis://127.0.0.1:{port}/2").ask("SET", "k", "v") == b"OK"
    assert store_server.ask("GET", "k") == b"$-1\r\n"


def test_a_restarted_server_is_not_noticed(new, store_server):
    store = new()
    store.ask("SET", "k", "v")
    store_server.kill()
    store_server.start()
    assert store.ask("GET", "k") == b"v"


@pytest.mark.parametrize("store_server", SERVERS, indirect=True)
def test_an_absent_store_fails_calls_at_once(new, store_server, probing, caplog, wait_until):
    """The first call says so, later ones fail at once; a line tells the return."""
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
    """The server is asked then, and answers."""
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
    """A handler of the app's logging may ask the store in question: it does not wait for itself."""
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


def test_a_silent_store_holds_one_call(new, store_server, probing, caplog, wait_until):
    """A silent server holds a call no longer than the limit, and the next ones not at all."""
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


def test_a_read_only_store_is_away(new, store_server, probing, caplog, wait_until):
    """A server made a replica is as good as away, until it takes writes."""
    store = new()
    assert store.ask("REPLICAOF", "127.0.0.1", "1") == b"OK"
    with pytest.raises(Away, match="read only replica"):
        store.ask("SET", "k", "v")
    store_server.ask("REPLICAOF", "NO", "ONE")
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("SET", "k", "v") == b"OK"


def test_back_and_full(new, store_server, probing, caplog, wait_until):
    """A full server answers, so it is back."""
    store = new()
    store_server.kill()
    with pytest.raises(Away):
        store.ask("PING")
    store_server.start("--maxmemory", "1")
    wait_until(lambda: "is back, after" in caplog.text, 20)
    assert store.ask("PING") == b"PONG"


def test_no_thread_means_each_call_looks(new, store_server, monkeypatch, caplog):
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
    store = new(url="unix:///nowhere/at/all")
    with pytest.raises(Away) as fault:
        store.ask("PING")
    store._note_away(fault.value)
    assert len(caplog.records) == 1


def test_the_end_stops_all_looks(new):
    """No thread looks for an absent server any more."""
    before = set(threading.enumerate())
    store = new(url="unix:///nowhere/at/all")
    with pytest.raises(Away):
        store.ask("PING")
    (looking,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "aserve-shared"]
    store.end()
    looking.join(20)
    assert not looking.is_alive()


def test_a_forked_child_has_its_own_connections(new, store_server):
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
