"""An app that starts processes; each path is one way, and answers with the outcome."""

import concurrent.futures
import faulthandler
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import aserve

SLEEP_SECONDS = 60.0  # far longer than any test waits

# As in a terminal, also where the tests run in the background and a shell ignores SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A test that has waited in vain asks for the stacks of the server and of its children, which inherit the handler.
faulthandler.register(signal.SIGUSR2, all_threads=True)

fork = multiprocessing.get_context("fork")


def terminate() -> object:
    """Terminate a Process at its very beginning."""
    process = fork.Process(target=time.sleep, args=(SLEEP_SECONDS,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode


def terminate_running() -> object:
    """Terminate a running Process."""
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_tell_and_sleep, args=(sender,))
    process.start()
    receiver.recv()
    process.terminate()
    process.join()
    return process.exitcode


def interrupt() -> object:
    """Send a SIGINT to a running Process."""
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_leave_when_interrupted, args=(sender,))
    process.start()
    receiver.recv()
    os.kill(process.pid, 2)
    process.join()
    return process.exitcode


def leave_pool() -> object:
    """Leave a busy Pool, and so terminate its workers."""
    with fork.Pool(2) as pool:
        pool.apply_async(time.sleep, (SLEEP_SECONDS,))
        pid = pool.apply(os.getpid)
    return pid != os.getpid()


def use_executor() -> object:
    """Let a ProcessPoolExecutor do something."""
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as executor:
        return executor.submit(pow, 2, 5).result()


def serve_itself() -> object:
    """Let a Process run a server; return the server's answer, and its exit by SIGTERM."""
    process = fork.Process(target=aserve.run, args=(_inner, "unix:own"))
    process.start()
    client = _connect("own")
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    with client, client.makefile("rb") as reply:
        body = reply.read().rpartition(b"\n")[2]
    process.terminate()
    process.join()
    return int(body) == process.pid, process.exitcode


def _inner(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"%d" % os.getpid()]


def _connect(path: str) -> socket.socket:
    deadline = time.monotonic() + 30
    while True:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(path)
            return client
        except OSError:
            client.close()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def use_subprocess() -> object:
    """Run a program to its end, terminate a second."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        process.terminate()
    return subprocess.run([sys.executable, "-c", "exit(3)"], check=False).returncode, process.returncode


def use_preexec() -> object:
    """Run a program with a function before it, for which Python forks as os.fork() does; then terminate a second."""
    with subprocess.Popen(["sleep", "60"], preexec_fn=os.setsid) as process:
        process.terminate()
    return process.returncode


def _tell_and_sleep(sender: Any) -> None:
    sender.send(None)
    time.sleep(SLEEP_SECONDS)


def _leave_when_interrupted(sender: Any) -> None:
    try:
        sender.send(None)
        for _ in range(int(SLEEP_SECONDS / 0.01)):
            time.sleep(0.01)
            # CPython 3.13.0, in a child forked by a thread, handles a signal only in a call such as this, or in an interrupted system call. The
            # signal may come before the sleep.
            signal.pthread_sigmask(signal.SIG_BLOCK, ())
    except KeyboardInterrupt:
        sys.exit(7)


# Children of os.fork() that come back into the server, or do not


def _fork(child: Any) -> object:
    """Run child() in a forked process; return its exit status, or minus the signal, when all its children are gone."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        child()
        raise Returned
    os.close(writer)
    os.read(reader, 1)  # nothing: the last process with the other end is gone
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Returned(Exception):
    """A child goes on as if it were its parent."""


def fork_and_return() -> object:
    return _fork(lambda: None)


def fork_and_raise() -> object:
    return _fork(lambda: {}["a failure of the child's"])


def fork_and_sys_exit() -> object:
    """Leave the child by sys.exit()."""
    return _fork(lambda: sys.exit(3))


def fork_and_sys_exit_text() -> object:
    """Leave the child with a message."""
    return _fork(lambda: sys.exit("a message of the child's"))


def fork_and_os_exit() -> object:
    """Leave the child by os._exit(), as documented."""
    return _fork(lambda: os._exit(4))


def fork_and_kill() -> object:
    return _fork(lambda: os.kill(os.getpid(), signal.SIGKILL))


def fork_and_write() -> object:
    """Let the child write() to the client."""
    return _fork(lambda: local.start_response("200 OK", [])(b"child"))


def daemonize() -> object:
    """Fork twice, as daemons do; both leave by sys.exit()."""

    def child() -> None:
        os.setsid()
        if os.fork():
            sys.exit()
        time.sleep(0.1)
        sys.exit()

    return _fork(child)


def print_and_fork() -> object:
    """Print something before the fork, and in the child."""
    print("before the fork", end="; ")

    def child() -> None:
        print("in the child")
        sys.exit()

    return _fork(child)


def hold() -> object:
    """Leave a living child behind; return its pid."""
    pid = os.fork()
    if not pid:
        time.sleep(SLEEP_SECONDS)
        os._exit(0)
    return pid


def wait() -> object:
    """Wait for a file, and say so by another."""
    open("waiting", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)
    return "gone"


def generate() -> Iterator[bytes]:
    """Fork within an iterable."""
    yield b"one "
    try:
        yield b"%d " % _fork(lambda: None)
    except Returned:
        yield b"child"
    yield b"%d " % _fork(lambda: sys.exit(5))
    try:
        yield b"%d" % _fork(lambda: None)
    except Returned:
        return


local = threading.local()  # the start_response of each thread's request


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Run the way of the path."""
    local.start_response = start_response
    name = environ["PATH_INFO"].strip("/")
    if name == "generate":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return generate()
    try:
        text = str(globals()[name]() if name else os.getpid())
    except Returned:
        text = "child"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
