"""Messages with descriptors, whole or not at all, and nobody waits."""

import contextlib
import errno
import os
import resource
import socket
import time

import pytest
from harness.interpreter import later_on_pypy

from aserve.processes.children.channel import Channel


@pytest.fixture
def pair():
    ends = Channel.pair()
    yield ends
    for end in ends:
        end.close()


def test_messages_arrive_whole_and_in_order(pair):
    one, other = pair
    one.send({"do": "drain", "stopping": True})
    one.send({"do": "a" * 60_000})
    other.send({"say": "é\udce9\U0001f600\x00"})  # as in paths and tracebacks
    assert other.receive() == ({"do": "drain", "stopping": True}, [])
    assert other.receive() == ({"do": "a" * 60_000}, [])
    assert one.receive() == ({"say": "é\udce9\U0001f600\x00"}, [])
    with pytest.raises(BlockingIOError):
        one.receive()


@pytest.mark.parametrize(
    "text",
    ["\0" * 20_000, later_on_pypy("x" * 100_000), later_on_pypy("\\" * 50_000), later_on_pypy("\udce9" * 30_000)],
)
def test_texts_that_do_not_fit(pair, text):
    """Long texts are cut at their ends, however many octets a character has; the rest is told, and so are later messages."""
    one, other = pair
    one.send({"say": "slow", "request": {"request": text, "seconds": 2.5, "end": None}})
    one.send({"say": "left"})
    message, _ = other.receive()
    told = message["request"].pop("request")
    assert message == {"say": "slow", "request": {"seconds": 2.5, "end": None}}
    assert told.endswith("...") and text.startswith(told[:-3]) and len(told) > 5000
    assert other.receive() == ({"say": "left"}, [])


@pytest.mark.parametrize("items", [[10_000] * 12_000, ["x" * 1000] * 70, [["y" * 70_000, 1]]])
def test_lists_that_do_not_fit(pair, items):
    """Long lists are cut at their ends, and so are the texts in them."""
    one, other = pair
    one.send({"say": "slow", "items": items, "number": 1})
    message, _ = other.receive()
    told = message.pop("items")
    assert message == {"say": "slow", "number": 1} and 0 < len(told) <= len(items)
    assert len(str(told)) > 5000 and str(told[0])[:5] == str(items[0])[:5]


def test_a_descriptor_arrives_as_a_new_one(pair):
    """A descriptor arrives as a new one, which programs do not inherit; the sender's is closed."""
    one, other = pair
    reading, writing = os.pipe()
    one.send({"say": "idle"}, [writing])
    with pytest.raises(OSError):
        os.fstat(writing)
    message, (received,) = other.receive()
    assert message == {"say": "idle"} and not os.get_inheritable(received)
    os.write(received, b"x")
    os.close(received)
    assert os.read(reading, 9) == b"x" and os.read(reading, 9) == b""
    os.close(reading)


@contextlib.contextmanager
def descriptors(count):
    """Leave this many file descriptors free."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = [os.dup(0) for _ in range(count + 1)]
    for fd in lowest:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(lowest), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("free_count", [0, 1])
def test_descriptors_without_room(pair, caplog, free_count):
    """A message without its descriptor is dropped, with its arrived rest; the log advises once; later messages arrive."""
    one, other = pair
    pipes = [os.pipe() for _ in range(3)]
    for _, writing in pipes[:2]:
        one.send({"do": "adopt"}, [writing, os.dup(writing)])
    one.send({"do": "drain"})
    with descriptors(free_count):
        assert other.receive() == ({"do": "drain"}, [])
    for reading, _ in pipes[:2]:
        assert os.read(reading, 9) == b""
    lost = "no file descriptor is free: a message between processes (adopt) is lost; its connection is closed; raise `ulimit -n`"
    assert [record.levelname for record in caplog.records] == ["WARNING"] and caplog.text.count(lost) == 1
    one.send({"do": "adopt"}, [pipes[2][1]])
    _, (received,) = other.receive()
    one.send({"do": "fork"}, [received])
    with descriptors(0), pytest.raises(BlockingIOError):
        other.receive()
    assert "(fork) is lost; raise `ulimit -n`" in caplog.text
    for reading, _ in pipes:
        os.close(reading)


def test_what_was_not_received(pair):
    """A message without its descriptors is told here, each time."""
    one, other = pair
    dropped = []
    other.on_dropped = dropped.append
    for number in (1, 2):
        one.send({"do": "adopt", "number": number}, [os.dup(0)])
    with descriptors(0), pytest.raises(BlockingIOError):
        other.receive()
    assert dropped == [{"do": "adopt", "number": 1}, {"do": "adopt", "number": 2}]


def test_descriptors_that_the_caller_keeps(pair):
    """The caller's descriptors stay open at a send, and at a close before."""
    one, other = pair
    reading, writing = os.pipe()
    one.send({"do": "adopt"}, [writing], is_kept=True)
    os.close(other.receive()[1][0])
    while not one.has_unsent:
        one.send({"text": "x" * 10_000})
    one.send({"do": "adopt"}, [writing], is_kept=True)
    one.close()
    for fd in (reading, writing):
        os.close(fd)


def test_messages_without_room_wait_in_order(pair):
    one, other = pair
    count = 0
    while not one.has_unsent:
        one.send({"number": count, "text": "x" * 10_000})
        count += 1
    reading, writing = os.pipe()
    one.send({"number": count}, [writing])
    received = []
    while len(received) <= count:
        message, fds = other.receive()
        received.append(message["number"])
        one.flush()
    assert received == list(range(count + 1)) and not one.has_unsent
    os.close(reading)
    os.close(fds[0])


def test_the_other_end_is_gone(pair):
    """Unread messages are read; then the end is gone, and later messages are dropped, their descriptors closed."""
    one, other = pair
    other.send({"say": "failed"})
    other.close()
    reading, writing = os.pipe()
    one.send({"do": "adopt"}, [writing])
    assert not one.has_unsent and os.read(reading, 1) == b""
    os.close(reading)
    assert one.receive() == ({"say": "failed"}, [])
    assert one.receive() is None


@pytest.fixture
def refusing(monkeypatch):
    """refusing(errno): sends of this process fail with the number; 0: not any more."""
    send_fds, number = socket.send_fds, [0]

    def send(*args):
        if number[0]:
            raise OSError(number[0], os.strerror(number[0]))
        return send_fds(*args)

    monkeypatch.setattr(socket, "send_fds", send)
    return lambda wanted: number.__setitem__(0, wanted)


@pytest.mark.parametrize("number", [errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM])
def test_the_kernel_refuses_for_a_while(pair, refusing, caplog, number):
    """A refused message is kept, with its descriptors, and arrives later; the other end is not taken for closed."""
    one, other = pair
    reading, writing = os.pipe()
    refusing(number)
    one.send({"do": "adopt"}, [writing])
    one.send({"do": "drain"})
    assert (
        one.is_heard and one.unsent and not one.has_unsent
    )  # without a wait for room: the socket is writable all the time
    refusing(0)
    one.flush()
    assert not one.unsent
    message, (received,) = other.receive()
    assert (message, other.receive()) == ({"do": "adopt"}, ({"do": "drain"}, []))
    os.write(received, b"x")
    assert os.read(reading, 9) == b"x" and caplog.text.count("waits: ") == 1
    for fd in (reading, received):
        os.close(fd)


def test_the_kernel_goes_on_refusing(pair, refusing, monkeypatch):
    """After ten seconds such messages are dropped, and their descriptors closed; later ones are sent again."""
    one, other = pair
    reading, writing = os.pipe()
    refusing(errno.ENOBUFS)
    one.send({"do": "adopt"}, [writing])
    now, dropped = time.monotonic(), []
    monkeypatch.setattr(time, "monotonic", lambda: now + 11)
    one.on_dropped = dropped.append
    one.flush()
    assert os.read(reading, 9) == b"" and one.is_heard and dropped == [{"do": "adopt"}]
    refusing(0)
    one.send({"do": "drain"})
    assert other.receive() == ({"do": "drain"}, []) and one._failing_since == 0
    os.close(reading)


def test_it_is_gone_with_something_unread(pair):
    """The kernel tells a reset, with the same meaning."""
    one, other = pair
    one.send({"do": "drain"})
    other.close()
    assert one.receive() is None


def test_its_last_words(pair):
    """The last words of a gone end are heard."""
    here, there = pair
    here.send({"do": "drain"})
    there.send({"say": "begun"})
    there.close()
    assert here.receive() == ({"say": "begun"}, [])
    assert here.receive() is None and here.receive() is None


def test_closing_with_something_unsent(pair):
    one, _ = pair
    while not one.has_unsent:
        one.send({"text": "x" * 10_000})
    reading, writing = os.pipe()
    one.send({}, [writing])
    one.close()
    assert os.read(reading, 1) == b""
    os.close(reading)
