"""Answers to metrics' readers: no client is waited for."""

import errno
import itertools
import json
import logging
import os
import selectors
import stat

import pytest
from harness.scraping import BALANCE, EVENTS, GET

from aserve.core.errors import BindError
from aserve.features import Config
from aserve.features.metrics import scrapes as module
from aserve.features.metrics.pages import FRESH_SECONDS, MetricsPages, Whence
from aserve.features.metrics.scrapes import (
    CONNECTION_SECONDS,
    FINISH_SECONDS,
    MAX_CONNECTIONS,
    MAX_LATE,
    MAX_READERS,
    MAX_REQUEST_BYTES,
    Scrapes,
    open_metrics,
    warn_of_readers,
)
from aserve.features.metrics.text import CONTENT_TYPE


def test_an_answer_closes_the_connection(answering):
    """The answer is the text, with a type; the connection closes."""
    status, fields, body = answering.ask()
    assert (status, body) == (200, b"a 1\n")
    assert fields == {
        "Content-Type": CONTENT_TYPE, "Content-Length": "4", "Cache-Control": "no-store", "Connection": "close",
    }  # fmt: skip
    assert "version=0.0.4" in CONTENT_TYPE


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /metrics?name=a HTTP/1.0\r\n\r\n", 200, b"a 1\n"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200, b""),
        (b"GET /a HTTP/1.1\r\n\r\n", 404, b"the status page is at /, aserve's metrics are at /metrics\n"),
        (b"HEAD /a HTTP/1.1\r\n\r\n", 404, b""),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405, b"ask with GET or HEAD, not POST\n"),
        (b"GET /metrics\r\n\r\n", 400, b"this is not HTTP/1.1\n"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 400, b"this is not HTTP/1.1\n"),
        (b"\x16\x03\x01\r\n\r\n", 400, b"this is not HTTP/1.1\n"),
        (b"GET /" + b"x" * MAX_REQUEST_BYTES, 431, b"a request here has at most 8192 octets\n"),
    ],
)
def test_other_requests_get_a_sentence(answering, request_, status, body):
    """Each request gets a sentence; a HEAD the length of the GET's answer."""
    found, fields, got = answering.ask(request_)
    assert (found, got) == (status, body)
    assert int(fields["Content-Length"]) >= len(body) and (fields.get("Allow") == "GET, HEAD") == (status == 405)


def test_a_request_may_come_in_pieces(answering):
    client = answering.connect()
    for octet in GET:
        client.sendall(bytes([octet]))
        answering.turn(3)
    assert answering.read(client)[0] == 200


def test_many_ask_in_the_same_moment(answering):
    """The text is made once for all."""
    assert [answering.ask()[2] for _ in range(3)] == [b"a 1\n"] * 3 and answering.made == 1
    answering.now, answering.text = FRESH_SECONDS, b"a 2\n"
    assert answering.ask()[2] == b"a 2\n"


def test_a_slow_reader(answering):
    """A long text goes out whole as the client reads, and further clients are answered meanwhile."""
    answering.text = b"a 1\n" * 1_000_000
    client = answering.connect()
    client.sendall(GET)
    answering.turn()
    assert answering.ask(b"GET /a HTTP/1.1\r\n\r\n")[0] == 404
    assert answering.read(client)[2] == answering.text


@pytest.mark.parametrize("octets", [b"", b"GET /metrics", GET], ids=["silent", "half", "reads nothing"])
def test_a_slow_client(answering, octets):
    """A client out of time is dropped, whatever the state."""
    answering.text = b"a 1\n" * 1_000_000
    client = answering.connect()
    client.sendall(octets)
    answering.turn()
    answering.now = CONNECTION_SECONDS
    answering.scrapes.on_second()
    assert answering.scrapes._connections
    answering.now += 0.1
    answering.scrapes.on_second()
    assert not answering.scrapes._connections


@pytest.mark.parametrize("octets", [b"", b"GET /metrics HTTP", GET])
def test_a_client_that_leaves(answering, octets):
    answering.text = b"a 1\n" * 1_000_000
    client = answering.connect()
    client.sendall(octets)
    answering.turn()
    client.close()
    answering.turn()
    assert not answering.scrapes._connections


def test_of_very_many_the_oldest_makes_room(answering):
    """The oldest makes room; so a new caller is answered."""
    silent = [answering.connect() for _ in range(MAX_CONNECTIONS)]
    answering.turn()
    assert len(answering.scrapes._connections) == MAX_CONNECTIONS
    assert answering.ask()[0] == 200
    assert silent[0].recv(1) == b""
    silent[1].settimeout(0)
    with pytest.raises(BlockingIOError):
        silent[1].recv(1)


def test_the_oldest_asks_just_then(answering):
    """The evicted client is not answered any more."""
    oldest = answering.connect()
    for _ in range(MAX_CONNECTIONS - 1):
        answering.connect()
    answering.turn()
    answering.connect()
    oldest.sendall(GET)
    answering.turn(1)
    assert len(answering.scrapes._connections) == MAX_CONNECTIONS
    with pytest.raises(ConnectionResetError):
        answering.read(oldest)


def test_nothing_to_read(answering):
    """A connection woken for nothing waits on."""
    client = answering.connect()
    answering.turn()
    (connection,) = answering.scrapes._connections
    answering.scrapes._advance(connection)
    client.sendall(GET)
    answering.turn()
    assert answering.read(client)[0] == 200


def test_no_descriptor_is_left(answering, monkeypatch):
    """Nobody is accepted for a second: the loop does not turn for nothing meanwhile."""

    class Full:
        def __getattr__(self, name):
            return getattr(answering.listeners[0].socket, name)

        def accept(self):
            raise OSError(errno.EMFILE, "too many open files")

    client = answering.connect()
    client.sendall(GET)
    listener = answering.listeners[0]
    answering.scrapes._accept(listener._replace(socket=Full()))
    answering.turn()
    assert not answering.scrapes._connections
    answering.scrapes.on_second()
    answering.turn()
    assert answering.read(client)[0] == 200


def test_nobody_is_there_any_more(answering):
    """A client gone before acceptance harms nobody."""
    answering.scrapes._accept(answering.listeners[0])
    assert not answering.scrapes._connections


@pytest.mark.provokes("internal error")
def test_a_bug_of_ours(answering, caplog):
    """The caller is told, and the log has the bug."""
    answering.text = None
    assert answering.ask()[0] == 500
    assert "ZeroDivisionError" in caplog.text


def test_before_another_program(answering):
    """Callers are answered first, and silent ones are not waited for; unaccepted clients wait for the next program."""
    for _ in range(2):  # the next program may not be started at first
        answering.scrapes.finish()
    answering.scrapes.on_second()
    silent, asking = answering.connect(), answering.connect()
    answering.turn()
    asking.sendall(GET)
    later = answering.connect()
    later.sendall(GET)
    answering.scrapes.finish()
    assert asking.recv(15) == b"HTTP/1.1 200 OK"
    for client in (silent, later):
        client.settimeout(0)
        with pytest.raises(BlockingIOError):
            client.recv(1)


def test_an_answer_before_another_program(answering, monkeypatch):
    """An unread answer is waited for a moment, and no longer."""
    answering.text = b"a 1\n" * 1_000_000
    answering.connect().sendall(GET)
    answering.turn()
    times = itertools.chain([0.0] * 4, itertools.repeat(FINISH_SECONDS))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    answering.scrapes.finish()
    assert next(times) == FINISH_SECONDS


def test_who_has_not_asked_yet(answering):
    """The next program answers a client anywhere within a request; the rights are the same."""
    silent, half, settled = answering.connect(), answering.connect(), answering.connect()
    half.sendall(GET[:10])
    settled.sendall(GET)
    answering.turn()
    answering.scrapes.finish()
    states = json.loads(json.dumps(answering.scrapes.describe()))
    assert len(states) == 2 and all(Whence(**state["whence"]) == Whence(is_unix=True) for state in states)
    for state in states:
        state["fd"] = os.dup(state["fd"])
    answering.scrapes.close(is_end=False)
    answering.scrapes = Scrapes([], answering.pages)
    answering.scrapes.restore(states)
    silent.sendall(GET)
    half.sendall(GET[10:])
    answering.turn()
    assert [answering.read(client)[0] for client in (silent, half, settled)] == [200] * 3
    answering.listeners[0].close()


def test_this_process_is_late(answering):
    """A caller in time is answered, although the second is seen to first."""
    client = answering.connect()
    answering.turn()
    client.sendall(GET)
    answering.now = CONNECTION_SECONDS + 1
    answering.scrapes.on_second()
    assert answering.read(client)[0] == 200


def test_its_descriptor_can_be_waited_for(answering):
    with selectors.DefaultSelector() as outer:
        outer.register(answering.scrapes, selectors.EVENT_READ)
        assert not outer.select(0)
        answering.connect().sendall(GET)
        assert outer.select(10)
        answering.turn()
        assert outer.select(0) == []


def test_a_forked_child(answering, tmp_path):
    """A child lets go without taking anything from the parent: file and connections stay."""
    client = answering.connect()
    answering.turn()
    mine = [listener._replace(socket=listener.socket.dup()) for listener in answering.listeners]
    Scrapes(mine, MetricsPages(lambda: b"", lambda: b"", lambda: b"", lambda: "off", BALANCE)).close(is_end=False)
    assert (tmp_path / "m").exists()
    client.sendall(GET)
    answering.turn()
    assert answering.read(client)[0] == 200
    answering.scrapes.close()
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(("bind", "is_exposed"), [("127.0.0.1:0", False), ("0.0.0.0:0", True), ("[::1]:0", False)])
def test_where_it_listens(caplog, bind, is_exposed):
    """The address is logged; and a warning if further machines may ask."""
    caplog.set_level(logging.INFO, "aserve")
    listeners = open_metrics(Config(metrics=bind))
    assert f":{listeners[0].address[1]}/metrics" in caplog.text
    assert ("every client that reaches" in caplog.text) == is_exposed
    for listener in listeners:
        listener.close()
    assert open_metrics(Config()) == []


def test_after_the_answer(answering):
    """Further octets of a client are dropped until the close; then the client is forgotten."""
    client = answering.connect()
    client.sendall(GET)
    answering.turn()
    client.sendall(b"more")
    answering.turn()
    assert answering.read(client)[0] == 200
    client.close()
    answering.turn()
    assert not answering.scrapes._connections


# Readers of events


def listen(answering):
    """Return a client reading events, with the first already read."""
    client = answering.connect()
    client.sendall(EVENTS)
    answering.turn()
    client.settimeout(0)
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n")
    return client


def test_events_are_made_once_for_all_readers(answering):
    """An event comes each second, made once for all readers; without readers none is made. A reader does not age."""
    answering.scrapes.on_second()
    assert answering.events == 0
    readers = [listen(answering) for _ in range(3)]
    made = answering.events
    for second in range(3):
        answering.now += CONNECTION_SECONDS
        answering.event = b'{"a":%d}' % second
        answering.scrapes.on_second()
        answering.turn()
        assert [reader.recv(1 << 16) for reader in readers] == [b'data: {"a":%d}\n\n' % second] * 3
    assert answering.events == made + 3


def test_too_many_readers(answering):
    """One more is told so; a leaving reader makes room. Ordinary clients are answered all the while, and evict no readers."""
    readers = [listen(answering) for _ in range(MAX_READERS)]
    status, fields, body = answering.ask(EVENTS)
    assert (status, fields["Retry-After"], body) == (503, "5", b"too many look at the status page already\n")
    for _ in range(2 * MAX_CONNECTIONS):
        answering.connect()
    answering.turn()
    assert answering.ask()[0] == 200
    readers[0].close()
    answering.turn()
    listen(answering)
    answering.event = b"{}"
    answering.scrapes.on_second()
    answering.turn()
    assert all(reader.recv(100) == b"data: {}\n\n" for reader in readers[1:])


def test_a_reader_that_does_not_read(answering):
    """The reader misses whole events, and is dropped after a few; the rest does not notice."""
    slow, quick = listen(answering), listen(answering)
    answering.event = b"x" * 100_000
    seconds = 0
    while len(answering.scrapes._connections) == 2:
        answering.scrapes.on_second()
        answering.turn()
        received = b""
        while not received.endswith(b"\n\n"):
            received += quick.recv(1 << 20)
            answering.turn()
        assert received == b"data: " + answering.event + b"\n\n"
        seconds += 1
    assert MAX_LATE < seconds < MAX_LATE + 20
    held = b""
    while octets := slow.recv(1 << 20):
        held += octets
    assert len(held) < 20 * len(answering.event)


def test_a_reader_that_catches_up(answering):
    """The reader goes on with the present event."""
    slow = listen(answering)
    answering.event = b"x" * 1_000_000
    for _ in range(MAX_LATE):
        answering.scrapes.on_second()
    answering.event = b"{}"
    received = b""
    while not received.endswith(b"\n\n"):
        received += slow.recv(1 << 20)
        answering.turn()
    assert received == b"data: " + b"x" * 1_000_000 + b"\n\n"
    for _ in range(MAX_LATE):
        answering.scrapes.on_second()
        answering.turn()
        assert slow.recv(100) == b"data: {}\n\n"


def test_readers_and_another_program(answering):
    """Readers with all events are not waited for; a page comes back by itself."""
    listen(answering)
    monotonic = answering.now
    answering.scrapes.finish()
    assert answering.now == monotonic


@pytest.mark.parametrize(("bind", "is_own"), [("127.0.0.1:0", True), ("0.0.0.0:0", False), ("[::1]:0", True)])
def test_whence_tells_this_machine_from_others(bind, is_own):
    """The origin of a connection is known: this machine or not, and whether strangers could have come."""
    (listener,) = open_metrics(Config(metrics=bind))
    assert module._whence(listener, ("127.0.0.1", 1)) == Whence(False, True, is_own)
    assert module._whence(listener, ("::ffff:10.0.0.1", 1, 0, 0)) == Whence(False, False, is_own)
    listener.close()


@pytest.mark.parametrize(("reach", "said"), [("local", ""), ("all", " and the status page"), ("off", "")])
def test_what_others_may_see(caplog, reach, said):
    """The warning names the open parts, also before anything is bound, with the same words."""
    (listener,) = open_metrics(Config(metrics="0.0.0.0:0", status_page=reach))
    port = listener.address[1]
    listener.close()
    assert f"can read the metrics{said};" in caplog.text
    told = [record.getMessage() for record in caplog.records]
    caplog.clear()
    warn_of_readers(Config(metrics=f"0.0.0.0:{port}", stats="127.0.0.1:1", status_page=reach))
    assert [record.getMessage() for record in caplog.records] == told


@pytest.mark.parametrize(("metrics_mode", "mode"), [(None, 0o750), ("660", 0o660)])
@pytest.mark.parametrize("setting", ["metrics", "stats", "agent_check"])
def test_which_users_may_connect(setting, metrics_mode, mode, tmp_path):
    """The umask decides, unless --metrics-mode says otherwise; --unix-mode and the like are for the app's sockets."""
    settings = {setting: f"unix:{tmp_path}/m", "unix_mode": "666", "unix_group": "1"}
    before = os.umask(0o027)
    try:
        (listener,) = open_metrics(Config(metrics_mode=metrics_mode, **settings))
    finally:
        os.umask(before)
    found = os.stat(tmp_path / "m")
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (mode, os.getegid())
    listener.close()


# --stats


def test_stats_are_told_at_once(answering, tmp_path, caplog):
    """Each client is told at once, without a word, and at the client's pace; beside the metrics, absent here."""
    caplog.set_level(logging.INFO, "aserve")
    (listener,) = open_metrics(Config(stats=f"unix:{tmp_path}/s"))
    assert listener.is_stats and f"stats, as uWSGI has them, on unix:{tmp_path}/s" in caplog.text
    scrapes = Scrapes([*answering.listeners, listener], answering.pages)
    answering.scrapes.close(is_end=False)
    answering.scrapes, metrics = scrapes, answering.address
    answering.address = f"{tmp_path}/s"
    slow = answering.connect()
    answering.turn()
    received = b""
    while octets := slow.recv(1 << 16):
        received += octets
        answering.turn()
    assert received == b"{}" * 200_000
    slow.close()
    answering.turn()
    assert not scrapes._connections
    silent = answering.connect()
    answering.turn()
    answering.now += CONNECTION_SECONDS + 1
    scrapes.on_second()
    assert not scrapes._connections and silent.recv(1)
    listener.close()
    assert metrics != answering.address


def test_stats_by_http(answering, tmp_path):
    """With http:// before the address each request gets statistics, whatever the path; a page of a foreign site, with a foreign Host, does not."""
    (listener,) = open_metrics(Config(stats=f"http://unix:{tmp_path}/s"))
    answering.scrapes.close()
    answering.scrapes, answering.address = Scrapes([listener], answering.pages), f"{tmp_path}/s"
    status, fields, body = answering.ask(b"GET / HTTP/1.1\r\n\r\n")
    assert (status, fields["Content-Type"], body) == (200, "application/json", b"{}" * 200_000)
    reply = answering.pages.answer(b"GET / HTTP/1.1\r\nHost: rebound.example", Whence(is_stats=True), True)
    assert reply.octets.startswith(b"HTTP/1.1 421 ")


def test_where_stats_are(caplog, tmp_path):
    """Open addresses are warned of, too; if one of two addresses cannot be bound, neither is."""
    caplog.set_level(logging.INFO, "aserve")
    (listener,) = open_metrics(Config(stats="0.0.0.0:0"))
    place = f"127.0.0.1:{listener.address[1]}"
    assert f"stats, as uWSGI has them, on {place}" in caplog.text
    assert f"every client that reaches http://{place} (all interfaces) can read the metrics;" in caplog.text
    with pytest.raises(BindError, match="--stats: cannot listen on"):
        open_metrics(Config(metrics=f"unix:{tmp_path}/m", stats=f"0.0.0.0:{listener.address[1]}"))
    assert not (tmp_path / "m").exists()
    listener.close()


# --agent-check


def test_the_agent_is_told_a_line(answering, tmp_path, caplog):
    """Each client is told a line, also after a word; a weight is no secret, and has no warning."""
    caplog.set_level(logging.INFO, "aserve")
    (exposed,) = open_metrics(Config(agent_check="0.0.0.0:0"))
    assert "HAProxy's agent check on " in caplog.text and "every client that reaches" not in caplog.text
    exposed.close()
    (listener,) = open_metrics(Config(agent_check=f"unix:{tmp_path}/a"))
    answering.scrapes.close(is_end=False)
    answering.scrapes, answering.address = Scrapes([listener], answering.pages), f"{tmp_path}/a"
    for word in (b"", b"app\n"):
        client = answering.connect()
        client.sendall(word)
        answering.turn()
        assert client.recv(100) == b"up ready 100%\n" and client.recv(1) == b""
