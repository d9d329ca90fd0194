"""The end of a server: running requests are finished, idle connections closed, nothing is left."""

import os
import signal
import threading
import time

import pytest
from harness import apps
from harness.combining import long
from harness.interpreter import NEEDS_LINUX, first_on_pypy
from harness.workers import APP

pytestmark = pytest.mark.any_parser

# In its own process: signals


@pytest.fixture
def running(start_process, raw_client, tmp_path, wait_until):
    """Start a server with one request inside its app: (process, client, let_through)."""

    def start(*flags):
        process = start_process("steered", *flags)
        client = raw_client(process)
        client.request(f"/wait{tmp_path}/gate")
        wait_until((tmp_path / "gate.in").exists)
        return process, client, (tmp_path / "gate.go").touch

    return start


@pytest.mark.parametrize("number", first_on_pypy([signal.SIGTERM, signal.SIGINT]))
def test_a_signal_drains_the_server(running, raw_client, number):
    """SIGTERM and SIGINT: the running request is finished with `Connection: close`, then exit status 0."""
    process, client, let_through = running()
    idle = raw_client(process)
    assert idle.fetch().status == 200
    process.signal(number)
    assert idle.recv_to_end() == b""
    process.wait_for_log("draining")
    with pytest.raises(OSError):
        raw_client(process)
    let_through()
    reply = client.recv_response()
    assert (reply.status, reply.get("Connection"), reply.body) == (200, "close", b"hello\n")
    assert client.recv_to_end() == b""
    client.close()
    assert process.wait() == 0
    assert "Traceback" not in process.log


def test_a_second_signal_ends_at_once(running):
    """A second signal, not the echo of the first, ends the process at once."""
    process, client, _ = running()
    began = time.monotonic()
    process.signal()
    process.wait_for_log("draining")
    process.signal()  # within half a second: the same wish
    noticed = time.monotonic()
    if noticed < began + 0.4:  # or the machine is too busy for an echo
        while time.monotonic() < noticed + 0.6:
            assert process.process.poll() is None
            time.sleep(0.05)
        process.signal()
    assert process.wait() == 128 + signal.SIGTERM
    assert client.is_closed()


def test_drain_has_an_end(running):
    """An app beyond --drain-timeout is left behind; the exit status says so."""
    process, client, _ = running("--drain-timeout", "0.5")
    process.signal()
    assert process.wait() == 1
    assert client.is_closed()
    assert "threads still inside the app at the end: " in process.log


@pytest.mark.long_on_pypy
def test_request_whose_client_left(running, tmp_path):
    """A running request is finished even if its client has gone."""
    process, client, let_through = running()
    client.close()
    process.signal()
    process.wait_for_log("draining")
    let_through()
    assert process.wait() == 0
    assert (tmp_path / "gate.out").exists()  # without waiting, its worker would be killed before


# In this process: the same without signals


@pytest.mark.also_inline
def test_idle_connections_are_closed_at_once(start_server, raw_client):
    server = start_server(apps.hello)
    client = raw_client(server)
    client.fetch()
    server.wait_until_known(1)
    server.begin_drain()
    assert client.recv_to_end() == b""
    server.stop()
    assert server.is_clean


def test_stream_is_finished(start_server, raw_client):
    """A streamed response is sent to its end, then the connection closes."""
    more = threading.Event()

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        yield b"one"
        assert more.wait(30)
        yield b"two"

    server = start_server(app)
    client = raw_client(server)
    client.request()
    head = client.recv_head()
    server.begin_drain()
    more.set()
    assert head.status == 200
    assert b"".join(client.recv_chunks()) == b"onetwo"
    assert client.recv_to_end() == b""
    client.close()
    server.stop()
    assert server.is_clean


def test_drain_under_load(start_server, raw_client):
    """Each answered request was answered whole, whenever the drain began."""
    for _ in range(5):
        server = start_server(apps.several_chunks)
        counts, faults = [], []

        def load(server=server, counts=counts, faults=faults):
            client = raw_client(server)
            count = 0
            try:
                while True:
                    reply = client.fetch()
                    assert reply.body == b"one two three"
                    count += 1
            except client.Truncated as exc:
                if exc.octets:
                    faults.append(exc)
            except OSError:
                pass  # the connection was closed when the request was sent
            client.close()
            counts.append(count)

        threads = [threading.Thread(target=load, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        server.wait_until_known(8)
        server.stop()
        for thread in threads:
            thread.join()
        assert server.is_clean
        assert not faults


# With --workers

WAIT = """\
import os, time
open({0!r} + ".in", "w").close()
while not os.path.exists({0!r} + ".go"):
    time.sleep(0.01)
"""


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.provokes("has crashed", "degraded", "has ended after")
@pytest.mark.parametrize(
    ("bind", "flags"), [long(("127.0.0.1:0", [])), ("unix:{}/s", []), ("127.0.0.1:0", ["--preload"])], ids=str
)
def test_while_the_only_worker_starts(start_workers, raw_client, tmp_path, wait_until, bind, flags):
    """A client that waits while a successor of the only worker, or its mold, imports the app is served; then all ends, with status 0."""
    binds = ["--bind", bind.format(tmp_path)] if "unix" in bind else []
    process = start_workers("--workers", "1", *binds, *flags)
    pids = process.wait_for_workers(1 + len(flags))
    process.write_app(WAIT.format(str(tmp_path / "gate")) + APP.format(version="two"))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until((tmp_path / "gate.in").exists)
    process.wait_for_log(r"worker 1 .* has crashed")
    client = raw_client(str(tmp_path / "s") if "unix" in bind else process.address)
    client.request()
    process.signal()
    process.wait_for_log("clients wait, and no worker serves")
    (tmp_path / "gate.go").touch()
    assert client.recv_response().body.startswith(b"two")
    client.close()
    assert process.wait(30) == 0


def test_request_under_way_is_served(start_server, raw_client):
    """A request with octets received before the drain is still served."""
    server = start_server(apps.echo)
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12")
    server.wait_until_known(1)
    server.wait_until_receiving()
    server.begin_drain()
    client.send(b"345")
    reply = client.recv_response()
    assert (reply.body, reply.get("Connection")) == (b"12345", "close")
    client.close()
    server.stop()
    assert server.is_clean
