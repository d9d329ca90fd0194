"""Large bodies to sockets: octets, turns, and clients without reads."""

import os
import socket
import threading

import pytest
from harness.interpreter import ONCE

from aserve._cparsers import ffi, lib

pytestmark = [ONCE, pytest.mark.skipif(not lib.lane_available(), reason="a pump needs Linux")]

SENT, GONE, SHORT, LATE = lib.PUMP_SENT, lib.PUMP_GONE, lib.PUMP_SHORT, lib.PUMP_LATE
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = 3_000_000  # more than a socket takes
PATIENCE_SECONDS = 20.0


class Pump:
    """A pump, with memory and clients."""

    def __init__(self, late_us=int(PATIENCE_SECONDS * 1e6)):
        self.bodies, ended = ffi.new("pump_body[]", 64), ffi.new("int32_t[]", 64)
        self.set = ffi.new("pump *", {"bodies": self.bodies, "ended": ended, "cap": 64, "late_us": late_us})
        self.owned, self.sockets, self.count = [ended], [], 0
        assert lib.pump_open(self.set) == 0

    def connect(self):
        """Return both ends of a TCP connection, the pump's not blocking."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname(), PATIENCE_SECONDS)
            ours, _ = listener.accept()
        ours.setblocking(False)
        self.sockets += [client, ours]
        return client, ours

    def add(self, ours, body=b"", head=HEAD, file_fd=-1, size=0, offset=0):
        """Let a body wait; return its number."""
        number, self.count = self.count, self.count + 1
        at = ffi.NULL if file_fd >= 0 else ffi.from_buffer(body)
        pins = ffi.from_buffer(head), at
        self.owned.append((head, body, pins))
        source = at, file_fd, offset, size or len(body)
        lib.pump_add(self.set, number, ours.fileno(), ffi.NULL, pins[0], len(head), *source, 1 << 18)
        return number

    def run(self):
        """Return the numbers of ended bodies."""
        return [self.set.ended[at] for at in range(lib.pump_run(self.set))]

    def run_until(self, number):
        """Run until a body has ended; return its fate."""
        while number not in self.run():
            pass
        return self.bodies[number].outcome

    def close(self):
        lib.pump_close(self.set)
        for each in self.sockets:
            each.close()


@pytest.fixture
def new():
    """new(...) -> a Pump, closed after the test."""
    made = []

    def make(*arguments):
        made.append(Pump(*arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def reading():
    """reading(client, count) -> a reading thread, and a list of the read octets."""
    threads = []

    def start(client, count):
        octets = []

        def read():
            left = count
            while left:
                got = client.recv(min(left, 1 << 16))
                if not got:
                    return
                octets.append(got)
                left -= len(got)

        threads.append(threading.Thread(target=read))
        threads[-1].start()
        return threads[-1], octets

    yield start
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("size", [0, 1, 5000, LARGE])
@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])
def test_a_client_that_reads(new, reading, tmp_path, size, is_file):
    pump = new()
    client, ours = pump.connect()
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(b"before" + content + b"behind")
    with open(tmp_path / "file", "rb") as file:
        thread, octets = reading(client, len(HEAD) + size)
        if is_file:
            number = pump.add(ours, file_fd=file.fileno(), size=size, offset=6)
        else:
            number = pump.add(ours, b"before" + content, size=size or 0, offset=6) if size else pump.add(ours)
        assert pump.run_until(number) == SENT and pump.set.nturns == 0
        thread.join()
    assert b"".join(octets) == HEAD + content


def test_the_kernel_takes_as_much_as_it_likes_meanwhile(new, reading):
    """Afterwards the socket has its old limit."""
    pump = new()
    client, ours = pump.connect()
    thread, _ = reading(client, len(HEAD) + 10)
    assert pump.run_until(pump.add(ours, bytes(10))) == SENT
    assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 1 << 18


@pytest.mark.parametrize("body", [b"", bytes(LARGE)])
def test_a_client_that_has_left(new, tmp_path, body):
    """That is no fault of the file."""
    pump = new()
    client, ours = pump.connect()
    (tmp_path / "file").write_bytes(bytes(LARGE))
    with open(tmp_path / "file", "rb") as file:
        number = pump.add(ours, body) if body else pump.add(ours, file_fd=file.fileno(), size=LARGE)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        assert pump.run_until(number) == GONE


def test_a_client_that_leaves_in_the_middle(new):
    """The rest of the clients have whole bodies."""
    pump = new()
    client, ours = pump.connect()
    number = pump.add(ours, bytes(20 * LARGE))
    lib.pump_wake(pump.set)
    assert pump.run() == [] and pump.bodies[number].left > 0  # the socket is full
    client.close()
    assert pump.run_until(number) == GONE


@pytest.mark.parametrize("content", [b"", b"x" * 10])
def test_a_file_that_ends_early(new, tmp_path, content):
    """How much is missing is told."""
    pump = new()
    _, ours = pump.connect()
    (tmp_path / "file").write_bytes(content)
    with open(tmp_path / "file", "rb") as file:
        number = pump.add(ours, file_fd=file.fileno(), size=25)
        assert pump.run_until(number) == SHORT
    assert (pump.bodies[number].left, pump.bodies[number].error) == (25 - len(content), 0)


def test_a_file_that_cannot_be_read(new, tmp_path):
    """The system's reason is told."""
    pump = new()
    _, ours = pump.connect()
    with open(tmp_path / "file", "wb") as file:
        number = pump.add(ours, file_fd=file.fileno(), size=25)
        assert pump.run_until(number) == SHORT and pump.bodies[number].error


def test_turns_are_four_at_a_time(new):
    """While nobody is slow, four have a turn, and the rest wait."""
    width = 0
    while width != 4:  # a turn was over before the run: the machine is busy
        pump = new()
        numbers = [pump.add(pump.connect()[1], bytes(20 * LARGE)) for _ in range(6)]
        lib.pump_wake(pump.set)
        assert pump.run() == []
        width = pump.set.width
    assert pump.set.nturns == 4
    assert [pump.bodies[number].offset > 0 for number in numbers] == [True] * 4 + [False] * 2


def test_a_full_table(new):
    """As many bodies as there is room for end, each once, also when all end in one run."""
    pump = new()
    numbers = [pump.add(pump.connect()[1], b"x") for _ in range(pump.set.cap)]
    ended = []
    while len(ended) < len(numbers):
        ended += pump.run()
    assert sorted(ended) == numbers and all(pump.bodies[number].outcome == SENT for number in numbers)


def test_clients_that_do_not_read_hold_nobody_up(new, reading):
    """Their turns end; a body behind any number of them is served, and there are more turns than before."""
    pump = new()
    stuck = [pump.add(pump.connect()[1], bytes(20 * LARGE)) for _ in range(20)]
    client, ours = pump.connect()
    reading(client, len(HEAD) + LARGE)
    assert pump.run_until(pump.add(ours, bytes(LARGE))) == SENT
    assert pump.set.width > 20 and all(pump.bodies[number].offset > 0 for number in stuck)


def test_fewer_turns_again(new, reading):
    """Each body sent in turn takes an extra turn away."""
    pump = new()
    pump.set.width = 6
    client, ours = pump.connect()
    reading(client, 5 * (len(HEAD) + 10))
    for _ in range(5):
        assert pump.run_until(pump.add(ours, bytes(10))) == SENT
    assert pump.set.width == 4


def test_a_client_that_is_late(new):
    """The body is given back, with the number of its sent octets."""
    pump = new(1)
    client, ours = pump.connect()
    content = os.urandom(20 * LARGE)
    number = pump.add(ours, content)
    assert pump.run_until(number) == LATE
    body = pump.bodies[number]
    assert body.head_left == 0 and body.left == len(content) - body.offset
    ours.shutdown(socket.SHUT_WR)
    octets = b"".join(iter(lambda: client.recv(1 << 20), b""))
    assert octets == HEAD + content[: body.offset]


def test_closing_twice_does_nothing(new):
    pump = new()
    lib.pump_close(pump.set)
    assert (pump.set.epoll_fd, pump.set.wake_fd) == (-1, -1)
