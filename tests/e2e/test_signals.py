"""Each signal's effect: during the import and afterwards, on one process, a supervisor, a worker and a mold."""

import os
import signal

import pytest
from harness.interpreter import first_on_pypy
from harness.process import ServerProcess

# Its import waits for a file `go`.
APP = """
import os, sys, time

print(f"importing {os.getpid()}:0", file=sys.stderr, flush=True)
while not os.path.exists("go"):
    time.sleep(0.005)

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""
# coverage.py's handler, with `sigterm = true`: it restores the former handler, and sends itself the signal. Its request is running then.
PUTTING_BACK = """
import os, signal, sys, time

def f(number, frame):
    print("the app cleans up", file=sys.stderr, flush=True)
    signal.signal(number, before)
    os.kill(os.getpid(), number)

before = signal.signal(signal.SIGTERM, f)

def app(environ, start_response):
    print("the request has begun", file=sys.stderr, flush=True)
    while not os.path.exists("go"):
        time.sleep(0.005)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"finished"]
"""
WITHOUT_MEANING = [signal.SIGUSR2, signal.SIGTTIN, signal.SIGTTOU]  # to one process
UNSEEN = [signal.SIGWINCH, signal.SIGURG]


class Importing(ServerProcess):
    """A server whose app is being imported."""

    begun = r"importing (\d+:0)"

    def go(self):
        """Let the import end, and wait until the app is served."""
        (self.folder / "go").touch()
        host, _, port = self.wait_for_log(r"serving on http://([^\s,]+)")[1].rpartition(":")
        self.address = host, int(port)

    def send(self, *numbers, pid=0):
        """Send signals, to this process or to another of its own."""
        for number in numbers:
            os.kill(pid or self.pid, number)


@pytest.fixture
def start(tmp_path):
    """Start a server that waits in the import of its app."""
    (tmp_path / "own.py").write_text(APP)
    running = []

    def start(*flags):
        running.append(Importing(["own:app", "--pid-file", "pid", *flags], tmp_path, {}))
        return running[-1]

    yield start
    for process in running:
        process.end()
        assert not process.faults(), process.log


@pytest.mark.parametrize("number", first_on_pypy([signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]))
def test_an_import_is_ended_by_a_signal(start, tmp_path, number):
    """A signal for the end of a process ends it at once, with a line, and leaves no pid file."""
    server = start()
    assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
    server.send(number)
    assert server.wait() == 128 + number
    assert f"aserve: {number.name}: ending before it has served\n" in server.log and not (tmp_path / "pid").exists()


def test_one_process_answers_every_signal(start, raw_client, wait_until, tmp_path):
    """Signals during the import are obeyed or answered after the import, as later ones are; the last, SIGHUP, drains."""
    server = start("--access-log", "log")
    for times in (1, 2):
        server.send(*WITHOUT_MEANING, *UNSEEN, signal.SIGUSR1)
        server.go()
        for number in WITHOUT_MEANING:
            line = f"{number.name}: nothing was done: without --workers there is one process"
            wait_until(lambda line=line, times=times: server.log.count(line) == times, 30, lambda: server.log)
        wait_until(lambda times=times: server.log.count("was reopened") == times, 30, lambda: server.log)
        assert raw_client(server).fetch().status == 200
    server.send(signal.SIGHUP)
    assert server.wait() == 0 and "SIGHUP: draining" in server.log


def test_a_hangup_during_the_import(start):
    """SIGHUP drains one process as soon as it serves."""
    server = start()
    server.send(signal.SIGHUP)
    server.go()
    assert server.wait() == 0 and "SIGHUP: draining" in server.log


def test_one_process_ends_at_once(start):
    """SIGQUIT ends one process at once, with a line."""
    server = start()
    server.go()
    server.send(signal.SIGQUIT)
    assert server.wait() == 128 + signal.SIGQUIT and "SIGQUIT: leaving at once" in server.log


@pytest.mark.parametrize("flags", [(), ("--preload",)], ids=["", "preload"])
def test_a_supervisor_obeys_every_signal(start, raw_client, wait_until, flags):
    """Signals during the first worker's import are obeyed at once or afterwards."""
    server = start("--workers", "2", "--access-log", "log", *flags)
    server.send(signal.SIGTTIN, *UNSEEN, signal.SIGUSR1, signal.SIGHUP)
    server.go()
    server.wait_for_log("SIGTTIN: the number of workers is 3 now")
    server.wait_for_log("SIGHUP: done in")
    server.send(signal.SIGTTOU, *UNSEEN, signal.SIGUSR1, signal.SIGUSR2)
    server.wait_for_log("SIGTTOU: the number of workers is 2 now")
    server.wait_for_log("upgraded from")
    assert raw_client(server).fetch().status == 200
    server.send(signal.SIGTERM)
    assert server.wait(60) == 0


@pytest.mark.parametrize("number", first_on_pypy([signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]))
@pytest.mark.parametrize("flags", [(), ("--preload",)], ids=["", "preload"])
def test_a_supervisor_ends_during_the_import(start, number, flags):
    """A supervisor in the import has nothing to finish."""
    server = start("--workers", "2", *flags)
    server.send(number)
    assert server.wait() == (128 + number if number == signal.SIGQUIT else 0)
    assert f"{number.name}: " in server.log and "Traceback" not in server.log


@pytest.mark.parametrize("flags", [(), ("--preload",)], ids=["", "preload"])
def test_a_worker_survives_every_signal(start, raw_client, wait_until, flags):
    """A worker leaves signals to the supervisor; SIGTERM replaces the worker, also from during its import. A mold ignores all."""
    left = [*WITHOUT_MEANING, *UNSEEN, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM]
    server = start("--workers", "1", *flags)
    server.send(*left, pid=int(server.url.partition(":")[0]))
    server.go()
    if not flags:
        server.wait_for_log("worker 1 is to be replaced: .*it was sent SIGTERM")
        server.wait_for_log("is ready(?s:.)*is ready")
    pid = int(raw_client(server).fetch().body)
    server.send(*left, pid=pid)
    wait_until(lambda: int(raw_client(server).fetch().body) != pid, 30, lambda: server.log)
    server.send(signal.SIGTERM)
    assert server.wait(60) == 0
    assert "killed by" not in server.log


@pytest.mark.parametrize("flags", [(), ("--workers", "1")], ids=["alone", "workers"])
def test_an_app_may_put_back_what_was_there(start_process, raw_client, tmp_path, flags):
    """A handler of the app's that sends the signal to the former handler lets the server drain."""
    (tmp_path / "own.py").write_text(PUTTING_BACK)
    server = start_process("own:app", *flags)
    client = raw_client(server)
    client.request()
    server.wait_for_log("the request has begun")
    pid = server.pid
    if flags:
        pid = int(server.wait_for_log(r"worker 1 \(pid (\d+)\) is ready")[1])
    os.kill(pid, signal.SIGTERM)
    server.wait_for_log("the app cleans up")
    server.wait_for_log("SIGTERM: draining" if not flags else "worker 1 .* drains: ")
    (tmp_path / "go").touch()
    assert client.recv_response().body == b"finished"
    if flags:
        server.signal()
    assert server.wait() == 0
