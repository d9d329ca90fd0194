"""A child's inheritance from the server."""

import contextlib
import errno
import faulthandler
import gc
import logging
import os
import resource
import signal
import socket
import sys

import pytest
from harness.places import run_in

from aserve.core import descriptors, forks

# Python 3.12 and later warn of a fork beside threads, tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def run_in_child(function, in_thread=False):
    """Return the result of function() in a forked child, as text."""
    reader, writer = os.pipe()
    result = []

    def run():
        pid = os.fork()
        if not pid:
            try:
                os.write(writer, str(function()).encode())
            except BaseException as exc:
                os.write(writer, repr(exc).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:
            result.append(file.read().decode())
        os.waitpid(pid, 0)

    run_in(in_thread, run)
    return result[0]


@pytest.fixture
def handled():
    """Let SIGTERM and SIGUSR1 have handlers of ours, and a wake-up descriptor: (earlier one, ours, the reader)."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)

    def earlier(*_):
        """The program's own."""

    def ours(*_):
        """The event loop's."""

    before = {number: signal.signal(number, earlier) for number in (signal.SIGTERM, signal.SIGUSR1)}
    signal.signal(signal.SIGTERM, ours)
    wakeup_fd = signal.set_wakeup_fd(writer)
    yield earlier, ours, reader
    forks.disown_all_handlers()
    signal.set_wakeup_fd(wakeup_fd)
    for number, handler in before.items():
        signal.signal(number, handler)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("in_thread", [False, True])
def test_signals_are_given_back(handled, in_thread):
    """A child has the handlers from before ours, and wakes nobody; foreign ones stay."""
    earlier, ours, reader = handled
    forks.own_handlers({signal.SIGTERM: earlier})

    def look():
        os.kill(os.getpid(), signal.SIGTERM)
        is_earlier = signal.getsignal(signal.SIGTERM) is earlier, signal.getsignal(signal.SIGUSR1) is earlier
        return is_earlier, signal.set_wakeup_fd(-1), signal.pthread_sigmask(signal.SIG_BLOCK, ())

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert run_in_child(look, in_thread) == str(((True, True), -1, mask))
    assert signal.getsignal(signal.SIGTERM) is ours and signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)


def test_a_handler_that_the_app_has_changed_stays(handled):
    """A handler set in the place of ours is not ours to undo."""
    earlier, _, _ = handled
    forks.own_handlers({signal.SIGTERM: signal.SIG_DFL})
    signal.signal(signal.SIGTERM, earlier)
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is earlier) == "True"


def test_a_handler_that_is_not_pythons(handled):
    """Where the former handler was unknown to Python, the default is set."""
    forks.own_handlers({signal.SIGTERM: None})
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM)) == str(signal.SIG_DFL)


def test_a_handler_in_the_place_of_our_first(handled):
    """A child gets the handler from before our first, while another handler of ours stands there, and once the app has put our first back."""
    earlier, ours, _ = handled
    forks.own_handlers({signal.SIGTERM: earlier}, are_first=True)
    signal.signal(signal.SIGTERM, lambda *_: None)
    forks.own_handlers({signal.SIGTERM: ours})
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is earlier) == "True"
    signal.signal(signal.SIGTERM, ours)
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is earlier) == "True"
    forks.disown_handlers()
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is earlier) == "True"
    faulthandler.register(signal.SIGTERM)  # by the app: unknown to Python
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is ours) == "True"
    faulthandler.unregister(signal.SIGTERM)
    assert forks.disown_all_handlers() == {signal.SIGTERM: earlier}
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is ours) == "True"


@pytest.mark.parametrize("in_thread", [False, True])
def test_without_handlers_of_ours(handled, in_thread):
    """In a program with signal handlers nothing is changed."""
    _, ours, _ = handled
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is ours, in_thread) == "True"


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(
    ("exc", "status"),
    [
        (SystemExit(9), 9 << 8),
        (SystemExit(), 0),
        (SystemExit("a text"), 1 << 8),
        (ValueError("a fault"), 1 << 8),
        (KeyboardInterrupt(), signal.SIGINT),
    ],
)
def test_an_earlier_handler_that_raises(handled, watched, exc, status, in_thread):
    """A signal at a child's begin ends the child, as meant by the app's handler; Python would print and go on."""

    def earlier(*_):
        raise exc

    forks.own_handlers({signal.SIGTERM: earlier})
    count = len(forks.forked)
    watched().on_forked = lambda: os.kill(os.getpid(), signal.SIGTERM) or ((), ())
    statuses = []

    def run():
        pid = os.fork()
        if len(forks.forked) != count:
            os._exit(99)
        statuses.append(os.waitpid(pid, 0)[1])

    run_in(in_thread, run)
    assert statuses == [status]


# A child coming back


@pytest.fixture
def counts():
    """Let no fork of these tests count later."""
    yield
    del forks.forked[:]


@pytest.mark.usefixtures("counts")
@pytest.mark.parametrize(
    ("exc", "status"),
    [
        (None, 1),
        (ValueError("a fault"), 1),
        (SystemExit(), 0),
        (SystemExit(3), 3),
        (SystemExit(256 + 7), 7),
        (SystemExit(True), 1),
        (SystemExit("a text"), 1),
    ],
)
def test_a_child_leaves_with_its_status(exc, status, tmp_path, monkeypatch):
    """A child of the serving process ends, with the status of a program, and says so."""
    count = len(forks.forked)
    forks.end_if_forked(count)  # no child
    with open(tmp_path / "said", "w") as said:
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", said)
        monkeypatch.setattr(forks.logger, "handlers", [logging.StreamHandler(said)])
        level = forks.logger.level
        forks.logger.setLevel(logging.INFO)  # forgets the logger's memory of levels, too
        pid = os.fork()
        if not pid:
            try:
                forks.end_if_forked(count + 1)  # of the same server
                forks.end_if_forked(count, exc)
            finally:
                os._exit(99)
        forks.logger.setLevel(level)
        assert os.waitpid(pid, 0)[1] == status << 8
    text = (tmp_path / "said").read_text()
    assert text.startswith((f"process {pid}, which the app forked, ends", "a text\n"))
    assert len(forks.forked) == count


@pytest.mark.usefixtures("counts")
def test_it_leaves_by_keyboard_interrupt():
    """As for any program: the parent sees SIGINT, or, where blocked, a shell's status."""
    count = len(forks.forked)
    for is_blocked, expected in (False, signal.SIGINT), (True, (128 + signal.SIGINT) << 8):
        pid = os.fork()
        if not pid:
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK if is_blocked else signal.SIG_UNBLOCK, {signal.SIGINT})
                forks.end_if_forked(count, KeyboardInterrupt())
            finally:
                os._exit(99)
        assert os.waitpid(pid, 0)[1] == expected


@pytest.mark.parametrize("stream", ["none", "closed", "unread", "full"])
def test_the_end_of_a_process(stream, monkeypatch):
    """A process ends whatever the state of standard output, and of the last words."""
    monkeypatch.setattr(forks, "LAST_WORDS_SECONDS", 1)
    pid = os.fork()
    if not pid:
        try:
            reader, writer = os.pipe()
            sys.stdout = open(writer, "w")
            sys.stdout.write("x" * 100)
            if stream == "none":
                sys.stdout = None
            elif stream == "closed":
                sys.stdout.close()
            elif stream == "unread":
                os.close(reader)
            else:
                os.set_blocking(writer, False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(writer, b"x")
                os.set_blocking(writer, True)
            forks.end_process(7, lambda: 1 // 0)
        finally:
            os._exit(99)
    assert os.waitpid(pid, 0)[1] == (signal.SIGALRM if stream == "full" else 7 << 8)


def test_last_words_have_an_end(monkeypatch):
    """A mute child, by a taken lock or a full pipe, ends all the same."""
    monkeypatch.setattr(forks, "LAST_WORDS_SECONDS", 1)
    monkeypatch.setattr(forks.logger, "error", lambda *_: signal.pause())
    pid = os.fork()
    if not pid:
        forks.end_child()
    assert os.waitpid(pid, 0)[1] == signal.SIGALRM


# Descriptors not for a child


class FakeServer:
    """Holds these descriptors, and all sockets of these addresses."""

    def __init__(self, fds=(), bound=()):
        self.fds = list(fds)
        self.bound = [forks.local_address(sock.fileno()) for sock in bound]

    def on_forked(self):
        return self.fds, self.bound


@pytest.fixture
def watched():
    """Watch a FakeServer."""
    servers = []

    def watch(*arguments):
        servers.append(FakeServer(*arguments))
        forks.watch(servers[-1])
        return servers[-1]

    yield watch
    for server in servers:
        forks.unwatch(server)


def listen(family, address):
    """Return a listening socket, and the two ends of a connection."""
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    client = socket.socket(family)
    client.connect(listener.getsockname())
    return listener, client, listener.accept()[0]


def is_blank(file):
    """Whether a descriptor is /dev/null."""
    fd = file if isinstance(file, int) else file.fileno()
    return os.path.sameopenfile(fd, os.open(os.devnull, os.O_RDONLY))


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, ("127.0.0.1", 0)),
        (socket.AF_INET, ("0.0.0.0", 0)),
        (socket.AF_INET6, ("::1", 0)),
        (socket.AF_INET6, ("::", 0)),
        (socket.AF_UNIX, "{}/s"),
    ],
)
def test_connections_are_dropped(family, address, watched, tmp_path):
    """A child has neither a server's listener nor the ends of connections; the numbers stay taken."""
    if family == socket.AF_UNIX:
        address = address.format(tmp_path)
    try:
        listener, client, accepted = listen(family, address)
    except OSError as exc:
        assert exc.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
        pytest.skip("this machine has no IPv6")
    watched((), [listener])
    accepted.setblocking(False)
    with listener, client, accepted, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        if family == socket.AF_INET:
            datagrams.bind(listener.getsockname())  # the app's; TCP and UDP have ports of their own
        assert run_in_child(lambda: [*map(is_blank, (listener, accepted, client, datagrams))], True) == str(
            [True, True, False, False]
        )
        with pytest.raises(BlockingIOError):
            accepted.recv(1)  # the child's acts on the socket are on the parent's


def test_descriptors_are_dropped(watched):
    """Descriptors named by the server are dropped, if present; the rest is not."""
    ours, theirs = os.pipe()
    gone = 99999  # an unused number
    server = watched([ours, gone, -1])
    assert run_in_child(lambda: (is_blank(ours), is_blank(theirs), is_open(gone))) == "(True, False, False)"
    forks.unwatch(server)
    assert run_in_child(lambda: is_blank(ours)) == "False"
    os.close(ours)
    os.close(theirs)


def test_one_that_fails_is_not_all(watched):
    """A fault of one server does not leave descriptors of the next with the child."""
    ours, theirs = os.pipe()
    for server in watched(), watched([ours]), watched():
        if not server.fds:
            server.on_forked = lambda: 1 // 0
    assert run_in_child(lambda: is_blank(ours)) == "True"
    os.close(ours)
    os.close(theirs)


def test_where_descriptors_are_not_listed(watched, monkeypatch):
    monkeypatch.setattr(descriptors, "FOLDERS", ("/no/such",))
    ours, theirs = os.pipe()
    watched([ours])
    assert run_in_child(lambda: (is_blank(ours), is_blank(theirs))) == "(True, False)"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("open_max", [-1, 1 << 20, 512])
def test_sockets_where_descriptors_are_not_listed(watched, monkeypatch, open_max):
    """The connections are found all the same, by trying all possible numbers."""
    monkeypatch.setattr(descriptors, "FOLDERS", ("/no/such",))
    monkeypatch.setattr(descriptors.os, "sysconf", {"SC_OPEN_MAX": open_max}.get)
    gone = 99999  # an unused number
    listener, client, accepted = listen(socket.AF_INET, ("127.0.0.1", 0))
    watched([gone, -1], [listener])
    with listener, client, accepted:
        assert run_in_child(lambda: [*map(is_blank, (listener, accepted, client)), is_open(gone)]) == str(
            [True, True, False, False]
        )


def test_where_no_descriptor_is_left(watched):
    """A child of a process out of descriptors holds no connection, either."""
    listener, client, accepted = listen(socket.AF_INET, ("127.0.0.1", 0))
    watched((), [listener])
    reader, writer = os.pipe()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (writer + 20, limits[1]))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(reader))
        pid = os.fork()
        if not pid:
            try:
                os.write(writer, str([*map(is_open, (listener.fileno(), accepted.fileno(), client.fileno()))]).encode())
            finally:
                os._exit(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)
    os.waitpid(pid, 0)
    assert os.read(reader, 99) == b"[False, False, True]"
    for file in listener, client, accepted:
        file.close()
    os.close(reader)
    os.close(writer)


def test_a_number_that_is_taken_by_nothing(watched, monkeypatch):
    """A listed number no longer open is passed over: later numbers are dropped."""
    ours, theirs = os.pipe()
    monkeypatch.setattr(forks, "list_open", set)  # as if all were there
    watched([-1, ours])
    assert run_in_child(lambda: (is_blank(ours), is_blank(theirs))) == "(True, False)"
    os.close(ours)
    os.close(theirs)


def test_where_nothing_can_take_their_place(watched, monkeypatch):
    """Without /dev/null, or a descriptor for the file, the descriptors are closed."""
    ours, theirs = os.pipe()
    watched([ours])
    monkeypatch.setattr(forks.os, "devnull", "/no/such")
    assert run_in_child(lambda: (is_open(ours), is_open(theirs))) == "(False, True)"
    os.close(ours)
    os.close(theirs)


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_an_epoll_set_of_the_parents(watched):
    """A descriptor dropped by a child stays watched by the parent's epoll set, until the parent closes the descriptor."""
    select = pytest.importorskip("select")
    if not hasattr(select, "epoll"):
        pytest.skip("Linux only")
    ours, theirs = socket.socketpair()
    with select.epoll() as epoll, ours, theirs:
        epoll.register(ours, select.EPOLLIN)
        watched([ours.fileno()])
        assert run_in_child(lambda: is_blank(ours)) == "True"
        theirs.send(b"x")
        assert epoll.poll(0) == [(ours.fileno(), select.EPOLLIN)]


def test_a_fork_that_fails(handled, monkeypatch):
    """The trying thread has all signals again."""
    earlier, _, _ = handled
    forks.own_handlers({signal.SIGTERM: earlier})
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    forks._before()
    assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    forks._unblock()  # both interpreters call the hook then, too
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def test_a_hook_of_an_object():
    """The hook calls the object's method as long as the object is there, and does not keep the object."""

    class Noting:
        def note(self):
            noted.append(True)

    noted, noting = [], Noting()
    hook = forks.weakly(noting.note)
    hook()
    del noting
    gc.collect()
    hook()
    assert noted == [True]
