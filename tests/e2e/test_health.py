"""Health checks over sockets: answered whatever the app does, on every way of serving."""

import signal

import pytest
from harness import apps, sidecars
from harness.interpreter import NEEDS_LINUX

PATH = "/-/health"
LIVE, READY = f"{PATH}/live", f"{PATH}/ready"


@pytest.fixture
def start(start_server):
    """Start a server with health checks: start(app, **settings)."""

    def start_it(app=apps.hello, **settings):
        return start_server(app, **{"healthcheck_path": PATH, **settings})

    return start_it


def ask(raw_client, server, target=READY, *fields, **options):
    """Return status and body of a response on a fresh connection."""
    client = raw_client(server)
    reply = client.fetch(target, *fields, "Connection: close", **options)
    assert client.recv_to_end() == b""
    return reply.status, reply.body


@pytest.mark.also_inline
def test_the_app_sees_no_health_check(start, raw_client):
    """The app sees no health check; similar paths, and methods besides GET and HEAD, are the app's."""
    app = apps.Recorder(apps.hello)
    server = start(app)
    for target, body in ((LIVE, b"live\n"), (READY, b"ready\n"), (PATH, b"ready\n"), (f"{LIVE}?x", b"live\n")):
        assert ask(raw_client, server, target) == (200, body)
        assert ask(raw_client, server, target, method="HEAD") == (200, b"")
    assert app.count == 0
    for target in (f"{PATH}/", f"{PATH}y", f"{LIVE}ly", f"/x{LIVE}", f"/?{LIVE}"):
        assert ask(raw_client, server, target) == (200, b"hello\n")
    assert ask(raw_client, server, LIVE, method="POST", body=b"x") == (200, b"hello\n")
    assert app.count == 6


@pytest.mark.parametrize("count", [1, 3])
def test_every_thread_is_busy(start, raw_client, wait_until, count):
    """Both checks are answered while the app has every thread; ready is 503 while requests wait too long."""
    gate = apps.Gate()
    server = start(gate, threads=count, healthcheck_max_wait_seconds=0.05)
    running = [raw_client(server) for _ in range(count)]
    for client in running:
        client.request()
        gate.wait_entered()
    assert ask(raw_client, server, LIVE) == (200, b"live\n")
    assert ask(raw_client, server, READY) == (200, b"ready\n")
    waiting = raw_client(server)
    waiting.request()
    wait_until(lambda: ask(raw_client, server, READY)[0] == 503)
    status, why = ask(raw_client, server, PATH)
    assert status == 503 and why.startswith(b"requests wait for ") and b"--healthcheck-max-wait (0.05 s)" in why
    assert ask(raw_client, server, LIVE) == (200, b"live\n")
    gate.open(count + 1)
    assert [client.recv_response().status for client in (*running, waiting)] == [200] * (count + 1)
    assert ask(raw_client, server, READY) == (200, b"ready\n")
    assert gate.paths == ["/"] * (count + 1)


@pytest.mark.also_inline
def test_while_it_drains(start, raw_client):
    """Within --drain-delay a server is not ready from the first moment, and lives; requests are served."""
    server = start(drain_delay_seconds=2)
    kept = raw_client(server)
    assert kept.fetch(READY).status == 200
    server.begin_drain()
    assert ask(raw_client, server, READY) == (503, b"draining\n")
    assert ask(raw_client, server, LIVE) == (200, b"live\n")
    assert (kept.fetch(READY).status, kept.fetch(LIVE).status) == (503, 200)
    reply = raw_client(server).fetch(READY)
    assert int(reply.get("Retry-After")) > 0 and reply.get("Cache-Control") == "no-store"
    assert raw_client(server).fetch("/").body == b"hello\n"


def test_after_the_drain_delay(start, raw_client):
    """A connection with a begun question gets its answer while running requests are finished."""
    gate = apps.Gate()
    server = start(gate)
    running, asking = raw_client(server), raw_client(server)
    running.request()
    gate.wait_entered()
    octets = f"GET {READY} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    asking.send(octets[:5])
    server.wait_until_receiving()
    server.begin_drain()
    asking.send(octets[5:])
    reply = asking.recv_response()
    assert (reply.status, reply.body, reply.get("Connection")) == (503, b"draining\n", "close")
    gate.open()
    assert running.recv_response().status == 200


@pytest.mark.also_inline
@pytest.mark.parametrize("scheme", sidecars.PROTOCOLS)
def test_front_servers_may_ask_too(start, raw_client, scheme):
    """Whatever names the path: PATH_INFO, or nginx's DOCUMENT_URI. The reply has the form of the protocol."""
    app = apps.Recorder(apps.hello)
    server = start(app, bind=f"{scheme}://127.0.0.1:0")
    for vars in ({"PATH_INFO": LIVE}, {"DOCUMENT_URI": LIVE}, {"SCRIPT_NAME": "/app", "PATH_INFO": LIVE}):
        client = raw_client(server)
        client.send(sidecars.encode(scheme, {"REQUEST_METHOD": "GET", **vars}))
        octets = client.recv_to_end()
        assert octets.startswith(b"Status: 200 OK\r\n" if scheme == "scgi" else b"HTTP/1.1 200 OK\r\n")
        assert octets.endswith(b"\r\n\r\nlive\n")
    assert app.count == 0
    client.close()
    client = raw_client(server)
    client.send(sidecars.encode(scheme, {"REQUEST_METHOD": "GET", "PATH_INFO": f"{LIVE}ly"}))
    assert client.recv_to_end().endswith(b"hello\n") and app.count == 1


@pytest.mark.long_on_pypy
@pytest.mark.also_inline
def test_health_checks_over_tls(start, raw_client, tls_settings):
    server = start(**tls_settings)
    client = raw_client(server)
    assert [client.fetch(target).body for target in (LIVE, "/", READY)] == [b"live\n", b"hello\n", b"ready\n"]


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("peers", ["127.0.0.1", "10.0.0.0/8"])
def test_health_checks_through_proxies(start, raw_client, peers):
    """A proxy's or a stranger's word on its client changes nothing."""
    server = start(trusted_proxies=peers, forwarded_fields="x-forwarded-for,x-forwarded-prefix")
    fields = ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-Prefix: /app")
    assert ask(raw_client, server, LIVE, *fields) == (200, b"live\n")


@pytest.mark.long_on_pypy
@pytest.mark.plain
def test_a_signal_makes_it_not_ready(start_process, raw_client, tmp_path, wait_until):
    """SIGTERM makes a server not ready at once, though requests hang in the app."""
    process = start_process("steered", "--healthcheck-path", PATH, "--drain-delay", "3", "--threads", "1")
    client = raw_client(process)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    assert ask(raw_client, process, READY) == (200, b"ready\n")
    process.signal(signal.SIGTERM)
    wait_until(lambda: ask(raw_client, process, READY) == (503, b"draining\n"))
    assert ask(raw_client, process, LIVE) == (200, b"live\n")
    (tmp_path / "gate.go").touch()
    assert client.recv_response().status == 200
    client.close()
    assert process.wait() == 0


@pytest.mark.long_on_pypy
@pytest.mark.plain
@NEEDS_LINUX
def test_each_worker_is_not_ready(start_workers, raw_client, wait_until):
    """SIGTERM makes each worker not ready within --drain-delay, while workers accept and serve on."""
    process = start_workers("--workers", "2", "--healthcheck-path", PATH, "--drain-delay", "600")
    pids = process.wait_for_workers(2)
    kept = {}
    while len(kept) < len(pids):
        client = raw_client(process)
        kept[int(client.fetch("/").body.split()[1])] = client
    assert {client.fetch(READY).status for client in kept.values()} == {200}
    process.signal(signal.SIGTERM)
    for client in kept.values():
        wait_until(lambda client=client: client.fetch(READY).status == 503)
        assert client.fetch(LIVE).status == 200 and client.fetch("/").status == 200
    for _ in range(10):
        assert ask(raw_client, process, READY) == (503, b"draining\n")
        assert ask(raw_client, process, "/")[0] == 200
    assert process.workers == pids
    assert process.stop(signal.SIGQUIT) == 128 + signal.SIGQUIT
