"""The request body: whole, in memory or spooled; or live, read while coming in.

Threads here are driven by events: a feeder waits until the reader asks (`on_wanted`, `on_low`), never for a time.
"""

import os
import tempfile
import threading

import pytest
from harness.descriptors import none_stays_open

from aserve.core import body as body_module
from aserve.core.body import BufferedBody, LiveBody
from aserve.core.budgets import BodySpace, Budget
from aserve.core.errors import ClientDisconnected, RequestRefused

TEXT = b"one\ntwo\n\nfour"


def is_on_disk(body):
    try:
        body.open().fileno()
    except OSError:
        return False
    return True


# BufferedBody


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_new_body_is_empty(is_chunked):
    """Nothing fed: nothing to read, and the end at once."""
    body = BufferedBody(10, is_chunked)
    assert body.length == 0 and body.is_chunked is is_chunked and not body.is_live
    assert body.open().read() == b""
    body.close()


@pytest.mark.parametrize(
    ("pieces", "is_spooled"),
    [
        ([b"x" * 10], False),
        ([b"x" * 9, b"x"], False),
        ([b"x" * 11], True),
        ([b"x" * 10, b"x"], True),
        ([b"x"] * 11, True),
        ([b"x" * 11, b"x" * 11], True),
    ],
)
def test_the_memory_boundary(pieces, is_spooled):
    """Exactly the limit stays in memory; one octet over goes to a file, whole and in order."""
    body = BufferedBody(10, False)
    for piece in pieces:
        body.feed(piece)
    assert is_on_disk(body) is is_spooled
    assert body.length == len(b"".join(pieces))
    assert body.open().read() == b"".join(pieces)
    body.close()


def test_no_memory_at_all():
    """A limit of 0 spools from the first octet."""
    body = BufferedBody(0, False)
    assert not is_on_disk(body)
    body.feed(b"x")
    assert is_on_disk(body) and body.open().read() == b"x"
    body.close()


@pytest.mark.parametrize("memory_bytes", [5, 100])
def test_the_file_object(memory_bytes):
    """PEP 3333 "Input and Error Streams": read, readline, readlines and iteration; the end is the end."""
    body = BufferedBody(memory_bytes, False)
    body.feed(TEXT)
    assert body.open().read(5) == b"one\nt" and body.open().read(5) == b"one\nt"
    assert body.open().readline() == b"one\n"
    assert body.open().readlines() == list(body.open()) == [b"one\n", b"two\n", b"\n", b"four"]
    stream = body.open()
    assert stream.read() == TEXT and stream.read() == stream.read(1) == stream.readline() == b""
    body.close()


def test_nothing_is_left_on_disk(tmp_path, monkeypatch):
    """The spooled file has no name while alive, and no descriptor once closed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    body = BufferedBody(1, False)
    body.feed(b"xy")
    fd = body.open().fileno()
    assert list(tmp_path.iterdir()) == []
    body.close()
    body.close()
    with pytest.raises(OSError, match=r"[Bb]ad file"):
        os.fstat(fd)


def test_all_of_it_beside_a_reader():
    """The octets of a body in memory are there while a worker reads, undisturbed."""
    body = BufferedBody(100, False)
    body.feed(TEXT)
    file = body.open()
    assert file.read(3) == b"one" and body.octets == TEXT and file.read() == TEXT[3:]


def test_an_app_may_close_its_input():
    """A framework closing wsgi.input does not disturb us."""
    for memory_bytes in (1, 100):
        body = BufferedBody(memory_bytes, False)
        body.feed(b"xy")
        body.open().close()
        body.close()


def test_a_full_disk_is_an_error(monkeypatch, caplog):
    """The file system's words are in the log, and the client may come again."""

    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    body = BufferedBody(1, False)
    with pytest.raises(RequestRefused, match="no room for the request body now") as caught:
        body.feed(b"xy")
    assert caught.value.status == 503 and "No space left on device" in caplog.text
    body.close()


@pytest.mark.parametrize(
    ("octets", "files", "length", "status"), [(20, 1, 20, 0), (20, 1, 21, 413), (20, 0, 11, 503), (10, 9, 11, 413)]
)
def test_the_budget_of_all_bodies(octets, files, length, status):
    """Octets on the disk are counted, and refused without room; a closed body counts no longer."""
    space = BodySpace(Budget(octets), Budget(files), "aserve-test-")
    body = BufferedBody(10, False, space)
    if status:
        with pytest.raises(RequestRefused) as caught:
            for _ in range(length):
                body.feed(b"x")
        assert caught.value.status == status
    else:
        for _ in range(length):
            body.feed(b"x")
        assert body.open().read() == b"x" * length and space.octets.count == length and space.files.count == 1
    body.close()
    assert space.octets.count == space.files.count == 0


def test_what_others_have_is_missing():
    """A body without room only because of more bodies may come again later, and then finds room."""
    space = BodySpace(Budget(20), Budget(2), "aserve-test-")
    first, second = BufferedBody(5, False, space), BufferedBody(5, False, space)
    first.feed(b"x" * 15)
    with pytest.raises(RequestRefused, match="try again later") as caught:
        second.feed(b"y" * 6)
    second.close()
    assert caught.value.status == 503 and first.open().read() == b"x" * 15
    first.close()
    third = BufferedBody(5, False, space)
    third.feed(b"z" * 20)
    assert third.open().read() == b"z" * 20
    third.close()


def test_a_disk_that_takes_a_piece_in_parts(monkeypatch):
    """A shortened write goes on; nothing is left in a buffer, where the app would meet a full disk."""
    body = BufferedBody(1, False)
    body.feed(b"ab")
    file = body._spool.file

    class Short:
        fileno, close = file.fileno, file.close

        def write(self, octets):
            return file.write(octets[:2])

    body._spool.file = Short()
    body.feed(b"cdefg")
    assert os.fstat(file.fileno()).st_size == 7 and body.open().read() == b"abcdefg"
    assert body.open().readline() == b"abcdefg"
    body.close()


def test_open_file_descriptors_do_not_grow():
    """A hundred spooled bodies leave no descriptor behind."""
    with none_stays_open():
        for _ in range(100):
            body = BufferedBody(1, False)
            body.feed(b"xy")
            body.close()


# LiveBody, fed before the read


def live(*pieces, is_complete=True, high_bytes=1 << 16):
    body = LiveBody(high_bytes, False)
    for piece in pieces:
        body.feed(piece)
    if is_complete:
        body.feed_end()
    return body


def test_a_live_body_is_its_own_file_object():
    """The app gets the body itself, with a count of received octets."""
    body = LiveBody(10, True)
    assert body.open() is body and body.is_live and body.is_chunked
    body.feed(b"abc")
    assert body.length == 3 and not body.is_complete
    body.feed_end()
    assert body.is_complete


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((), TEXT),
        ((-1,), TEXT),
        ((None,), TEXT),
        ((0,), b""),
        ((1,), b"o"),
        ((13,), TEXT),
        ((14,), TEXT),
    ],
)
def test_read_returns_as_much_as_asked(size, expected):
    """`read` returns the asked number of octets, fewer only at the end."""
    assert live(TEXT).read(*size) == expected


def test_reads_go_on_to_the_end():
    body = live(TEXT[:6], TEXT[6:])
    assert [body.read(5) for _ in range(4)] == [TEXT[:5], TEXT[5:10], TEXT[10:], b""]
    assert body.read() == body.readline() == b"" and body.readlines() == []


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((), b"one\n"),
        ((-1,), b"one\n"),
        ((None,), b"one\n"),
        ((0,), b""),
        ((2,), b"on"),
        ((3,), b"one"),
        ((4,), b"one\n"),
        ((5,), b"one\n"),
    ],
)
def test_readline_ends_behind_the_first_lf(size, expected):
    assert live(TEXT).readline(*size) == expected


def test_the_last_line_needs_no_end():
    """The end of the body ends a line."""
    body = live(b"a\nb")
    assert [body.readline(), body.readline(), body.readline()] == [b"a\n", b"b", b""]


@pytest.mark.parametrize(
    ("hint", "count"), [((), 4), ((-1,), 4), ((None,), 4), ((0,), 4), ((1,), 1), ((4,), 1), ((5,), 2)]
)
def test_readlines_stops_at_the_hint(hint, count):
    lines = [b"one\n", b"two\n", b"\n", b"four"]
    assert live(TEXT).readlines(*hint) == lines[:count]


def test_iteration_gives_the_lines():
    assert list(live(TEXT)) == [b"one\n", b"two\n", b"\n", b"four"]


def test_what_has_come_can_be_read_before_an_error():
    """Octets from before the fault are the app's; beyond, the app meets ClientDisconnected."""
    body = live(b"a\nbc", is_complete=False)
    body.feed_error("gone")
    assert body.readline() == b"a\n" and body.read(1) == b"b"
    for read in (body.read, body.readline, lambda: body.read(2), lambda: list(body)):
        with pytest.raises(ClientDisconnected, match="gone"):
            read()
    assert body.read(1) == b"c" and body.read(0) == b""


def test_a_refused_body():
    """A refused rest does the same; the client's answer is kept, unless the body was complete."""
    why = RequestRefused(413, "too large")
    body = live(b"ab", is_complete=False)
    body.refuse(why)
    assert body.read(2) == b"ab" and body.refusal is why
    with pytest.raises(ClientDisconnected, match="too large"):
        body.read()
    body = live(b"ab")
    body.refuse(why)
    assert body.read() == b"ab" and body.refusal is None


def test_an_error_after_the_end_is_none():
    """A client may leave once the body is complete."""
    body = live(b"abc")
    body.feed_error("gone")
    assert body.read() == b"abc" and body.read() == b""


def test_on_wanted_is_called_once_at_the_first_read():
    """The app's first read asks for the body (RFC 9110 10.1.1); reading nothing does not."""
    body = live(b"abc")
    calls = []
    body.on_wanted = lambda: calls.append(1)
    assert body.read(0) == body.readline(0) == b"" and calls == []
    body.read(1)
    body.read(1)
    assert calls == [1]


def test_on_wanted_of_two_readers():
    """Where a second thread of the app has asked between two steps of a first, neither fails."""
    calls = []

    class Shared(LiveBody):
        """A question of `on_wanted` is asked by the second thread as soon as this thread has looked."""

        looks = [lambda: calls.append(1)]
        on_wanted = property(lambda self: self.looks.pop() if self.looks else None, lambda self, value: None)

    body = Shared(10, is_chunked=False)
    body.feed(b"abc")
    assert body.read(3) == b"abc"
    assert calls == [1]


def test_on_low_tells_when_there_is_room_again():
    """A full body is full until a read below the mark; `on_low` tells once."""
    body = live(b"x" * 9, is_complete=False, high_bytes=10)
    calls = []
    body.on_low = lambda: calls.append(body.is_full)
    assert not body.is_full
    body.feed(b"xx")
    assert body.is_full
    body.read(1)
    assert body.is_full and calls == []  # still at the mark
    body.read(1)
    assert not body.is_full and calls == [False]
    body.read(1)
    assert calls == [False]


def test_without_on_low_nobody_is_told():
    """A body behind another exchange has nobody to tell yet."""
    body = live(b"x" * 10, is_complete=False, high_bytes=10)
    assert body.read(5) == b"x" * 5
    body = live(b"x" * 10, is_complete=False, high_bytes=10)
    body.close()


def test_close_drops_all_octets():
    """After close, present and later octets are dropped, and never fill the body."""
    body = live(b"x" * 20, is_complete=False, high_bytes=10)
    calls = []
    body.on_low = lambda: calls.append(1)
    body.close()
    assert calls == [1] and not body.is_full
    body.feed(b"y" * 20)
    assert body.length == 40 and not body.is_full
    body.feed_end()
    assert body.read() == b""
    body.close()
    assert calls == [1]


# LiveBody, fed while read


class Feeder(threading.Thread):
    """Feed one piece each time when asked; then tell the end, or the fault."""

    def __init__(self, body, pieces, error=None):
        super().__init__(daemon=True)
        self.body, self.pieces, self.error = body, list(pieces), error
        self.asked = threading.Semaphore(0)
        body.on_wanted = self.asked.release
        self.start()

    def run(self):
        self.asked.acquire()
        for piece in self.pieces:
            self.body.feed(piece)
        if self.error is None:
            self.body.feed_end()
        else:
            self.body.feed_error(self.error)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda body: body.read(), TEXT),
        (lambda body: body.read(len(TEXT)), TEXT),
        (lambda body: body.read(len(TEXT) + 1), TEXT),
        (lambda body: body.read(5), TEXT[:5]),
        (lambda body: body.readline(), b"one\n"),
        (lambda body: body.readline(2), b"on"),
        (lambda body: body.readlines(), [b"one\n", b"two\n", b"\n", b"four"]),
        (lambda body: list(body), [b"one\n", b"two\n", b"\n", b"four"]),
    ],
)
def test_a_reader_waits(read, expected):
    """A reader waits until the answer is full, whatever the call."""
    body = LiveBody(1 << 16, False)
    feeder = Feeder(body, [TEXT[at : at + 1] for at in range(len(TEXT))])
    assert read(body) == expected
    feeder.join()


def test_a_reader_that_must_not_wait():
    """Such a reader gets the present octets, and is asked before a wait."""
    body = live(b"abc", is_complete=False)
    body.before_wait = lambda called: 1 / 0
    assert body.read(2) == b"ab"
    with pytest.raises(ZeroDivisionError):
        body.read(2)


def test_a_reader_in_a_child(monkeypatch):
    """A forked process gets the present octets, and would wait for later octets in vain."""
    body = LiveBody(1 << 16, False)
    body.feed(b"abc")
    monkeypatch.setattr(body_module, "forked", [None])
    assert body.read(2) == b"ab"
    with pytest.raises(ClientDisconnected, match="own process"):
        body.read(2)


@pytest.mark.parametrize("pieces", [[], [b"ab"]])
def test_a_waiting_reader_meets_the_error(pieces):
    """A leaving client wakes the waiting reader."""
    body = LiveBody(1 << 16, False)
    feeder = Feeder(body, pieces, error="gone")
    with pytest.raises(ClientDisconnected, match="gone"):
        body.read(3)
    feeder.join()


def _end(body):
    body.feed(b"ab")
    body.feed_end()


@pytest.mark.parametrize(
    ("end", "found"),
    [
        (lambda body: body.feed_error("gone"), ["gone", "gone"]),
        (lambda body: body.refuse(RequestRefused(413, "too large")), ["too large", "too large"]),
        (LiveBody.feed_end, [b"", b""]),
        (_end, [b"", b"ab"]),
    ],
)
def test_two_readers_wait(wait_until, end, found):
    """An app may read in two threads: each meets the end, with the rest of the second."""
    body, read = LiveBody(1 << 16, False), []

    def reader():
        try:
            read.append(body.read())
        except ClientDisconnected as exc:
            read.append(str(exc))

    threads = [threading.Thread(target=reader, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(body._ready._waiters) == 2)
    end(body)
    for thread in threads:
        thread.join(5)
    assert sorted(read) == found


@pytest.mark.parametrize("high_bytes", [0, 1, 10])
@pytest.mark.parametrize("size", [25, -1])
def test_a_read_larger_than_the_mark_does_not_deadlock(high_bytes, size):
    """A read beyond the mark raises the mark: the client is read until the read is answered."""
    body = LiveBody(high_bytes, False)
    asked = threading.Semaphore(0)
    body.on_wanted = body.on_low = asked.release

    def feed():  # as the event loop does: a full body pauses the client until there is room
        asked.acquire()
        for _ in range(6):
            body.feed(b"12345")
            if body.is_full:
                asked.acquire()
        body.feed_end()

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    whole = b"12345" * 6
    assert body.read(size) == whole[: size if size > 0 else None]
    assert body.read() == (whole[size:] if size > 0 else b"")
    feeder.join()


class Searched(bytearray):
    """Counts the octets searched for a line's end."""

    count = 0

    def find(self, what, start=0, end=None):
        self.count += max(len(self) - start, 0)
        return super().find(what, start, end)


class FedByWaiting:
    """In place of the condition: a wait for more feeds the body."""

    def __init__(self, feed):
        self.wait = feed
        self.notify_all = lambda: None

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return None


@pytest.mark.parametrize("size", [-1, 1 << 20])
def test_a_long_line_is_searched_once(size):
    """Each octet is looked at once, however often a reader is woken within one line."""
    body = LiveBody(1 << 16, False)
    body._buffer = Searched()
    pieces = [b"x" * 1000] * 200 + [b"\nrest"]
    body._ready = FedByWaiting(lambda: body.feed(pieces.pop(0)))
    assert body.readline(size) == b"x" * 200_000 + b"\n"
    assert body._buffer.count == 200_005
    assert body.readline(2) == b"re" and body.read(2) == b"st"


def test_a_full_body_without_on_low_waits_for_more():
    """A reader beyond the mark also waits when nobody pauses the client."""
    body = LiveBody(1, False)
    body.feed(b"ab")
    feeder = Feeder(body, [b"c"])
    assert body.read(3) == b"abc"
    feeder.join()
