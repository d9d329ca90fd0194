"""A host's words to balancers, and their effect: HAProxy, nginx and Caddy with the configurations of docs/balancers.md.

PyPy's run has the words; the effect is the balancers'.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import urllib.error
import urllib.request

import pytest
from harness import apps
from harness.client import RawClient
from harness.front import DOCS, Page
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX, ONCE
from harness.process import run_command
from harness.waiting import wait_until

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, NEEDS_LINUX, pytest.mark.long_on_pypy]

PAGE = Page("balancers")


class Host:
    """One host behind a balancer: a command with its addresses."""

    def __init__(self, start, name, folder, *flags):
        self.control = str(folder / f"control-{name}")
        flags = ("--metrics", "127.0.0.1:0", "--agent-check", "127.0.0.1:0", "--control", self.control, *flags)
        # Both apps are in one file in turn: with other lengths, or Python takes the compiled first.
        self.process = start(*flags, app={"two": "two, later"}.get(name, name))
        self.metrics = int(self.process.wait_for_log(r"metrics on http://127.0.0.1:(\d+)/")[1])
        self.agent = int(self.process.wait_for_log(r"HAProxy's agent check on 127.0.0.1:(\d+)")[1])

    @property
    def line(self):
        """Return the answer to an agent check."""
        with socket.create_connection(("127.0.0.1", self.agent), 20) as client, client.makefile() as lines:
            return lines.read()

    def probe(self, path):
        """Return status and text of a path at the address of the metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def tell(self, wish):
        """Type aserve balancers."""
        return run_command("balancers", wish, "--control", self.control).stdout

    @contextlib.contextmanager
    def held(self, folder, count):
        """Let so many requests hold a thread each meanwhile."""
        clients = []
        for number in range(count):
            clients.append(RawClient(self.process.address))
            clients[-1].request(f"/wait{folder}/held{number}")
            wait_until((folder / f"held{number}.in").exists)
        yield
        for number, client in enumerate(clients):
            (folder / f"held{number}.go").touch()
            assert client.recv_response().status == 200
            client.close()


@pytest.fixture
def pair(start_workers, fronts, tmp_path):
    """Two hosts, with one worker of four threads each, and HAProxy in front of them."""
    hosts = []
    for name in ("one", "two"):
        hosts.append(Host(start_workers, name, tmp_path, "--workers", "1", "--threads", "4"))
    changes = {"inter 2s": "inter 100ms", "agent-inter 1s": "agent-inter 100ms"}
    for number, (name, host) in enumerate(zip(("one", "two"), hosts), 1):
        place = f"127.0.0.1:{host.process.address[1]} port {host.metrics} agent-port {host.agent}"
        changes[f"server {name} 10.0.0.{number}:8000"] = f"server {name} {place}"
    return (*hosts, fronts.haproxy(PAGE.block("HAProxy", "haproxy"), changes))


def shares(haproxy, count=20):
    """Return how many of so many requests each host has answered."""
    found = {b"one": 0, b"two": 0}
    for _ in range(count):
        status, _, body = haproxy.fetch("/")
        assert status == 200, (body, haproxy.log)
        found[body[:3]] += 1
    return found[b"one"], found[b"two"]


@pytest.mark.long  # the effect of a weight is HAProxy's; tests/features/metrics/test_balance.py has the weights
@ONCE
def test_a_host_whose_threads_wait_gets_less(pair, tmp_path):
    """A full host, though its CPU idles, gets less; with free threads again, its share."""
    one, two, haproxy = pair
    assert two.line == one.line == "up ready 100%\n"
    with one.held(tmp_path, 3):
        wait_until(lambda: re.fullmatch(r"up ready 3\d%\n", one.line), explain=lambda: one.line)
        wait_until(lambda: shares(haproxy)[0] <= 6, explain=lambda: haproxy.log)
        assert two.line == "up ready 100%\n" and one.probe("/ready") == (200, "ready\n")
    wait_until(lambda: one.line == "up ready 100%\n")
    wait_until(lambda: shares(haproxy)[0] >= 9, explain=lambda: one.line)


@ONCE
def test_taking_a_host_out(pair, tmp_path):
    """A command takes a host out, and back again; every asker hears of both, and no request is lost."""
    one, _, haproxy = pair
    for wish, why in (("drain", "drained by aserve balancers"), ("maint", "in maintenance by aserve balancers")):
        assert one.tell(wish) == f"balancers are told: {wish}\n"
        assert one.line == f"up {wish}\n" and one.probe("/ready") == (503, f"{why}\n")
        assert one.probe("/live") == (200, "live\n")
        wait_until(lambda: shares(haproxy) == (0, 20))
        assert one.tell("ready") == "balancers are told: ready\n"
        assert one.probe("/ready") == (200, "ready\n")
        wait_until(lambda: shares(haproxy)[0] >= 9)


def test_while_every_worker_hangs(pair):
    """The supervisor answers for hanging workers; HAProxy takes the host out, and back when they go on."""
    one, _, haproxy = pair
    (pid,) = one.process.wait_for_workers(1)
    halt(pid)
    why = "no event loop of a worker turns"
    wait_until(lambda: one.probe("/live") == one.probe("/ready") == (503, f"{why}\n"))
    assert one.line == f"stopped #{why}\n"
    wait_until(lambda: "Server app/one is DOWN" in haproxy.log, explain=lambda: haproxy.log)
    assert shares(haproxy) == (0, 20)
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: one.probe("/live") == (200, "live\n"))
    wait_until(lambda: shares(haproxy)[0] >= 9)


def test_the_end_of_a_host(pair, tmp_path):
    """From SIGTERM on a host says `drain` while it finishes; HAProxy loses no request."""
    one, _, haproxy = pair
    with one.held(tmp_path, 1):
        one.tell("drain")
        wait_until(lambda: shares(haproxy) == (0, 20))
        one.process.signal()
        wait_until(lambda: one.probe("/ready") == (503, "draining\n"))
        assert one.line == "up drain\n" and one.probe("/live") == (200, "live\n")
        assert shares(haproxy) == (0, 20)
    assert one.process.wait() == 0
    assert shares(haproxy) == (0, 20)


def test_health_checks_of_the_app_port(start_workers, tmp_path):
    """Health checks tell people's orders, too, and so do workers that begin later."""
    host = Host(start_workers, "one", tmp_path, "--workers", "1", "--healthcheck-path", "/-/health")
    host.tell("drain")

    def ready():
        client = RawClient(host.process.address)
        reply = client.fetch("/-/health/ready", "Connection: close")
        client.close()
        return reply.status, reply.body

    wait_until(lambda: ready() == (503, b"drained by aserve balancers\n"))
    (pid,) = host.process.wait_for_workers(1)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: host.process.workers not in ([], [pid]))
    host.process.wait_for_workers(1)
    wait_until(lambda: ready() == (503, b"drained by aserve balancers\n"))
    host.tell("ready")
    wait_until(lambda: ready() == (200, b"ready\n"))


def test_one_process_answers_on_its_event_loop(start_process, tmp_path):
    """Without workers the event loop answers."""
    host = Host(lambda *flags, app: start_process("hello", *flags), "one", tmp_path)
    assert host.line == "up ready 100%\n" and host.probe("/live") == (200, "live\n")
    assert host.tell("maint") == "balancers are told: maint\n" and host.line == "up maint\n"
    assert host.probe("/ready") == (503, "in maintenance by aserve balancers\n")


@ONCE
def test_nginx_loses_no_request_and_shares(start_server, fronts, tmp_path):
    """Ended and remade connections lose nothing, POST included; both hosts get their share."""
    counts = {"one": 0, "two": 0}

    def app_of(name):
        def app(environ, start_response):
            counts[name] += 1
            return apps.echo(environ, start_response)

        return app

    settings = {**PAGE.settings("nginx"), "bind": "127.0.0.1:0", "drain_delay_seconds": 0, "max_connection_requests": 3}
    changes = {}
    for number, name in enumerate(counts, 1):
        server = start_server(app_of(name), **settings)
        changes[f"server 10.0.0.{number}:8000"] = f"server 127.0.0.1:{server.address[1]}"
    nginx = fronts.nginx(PAGE.block("nginx", "nginx"), changes)
    for number in range(40):
        body = f"{number}".encode()
        status, fields, found = nginx.fetch("/", "POST", body)
        assert (status, found, fields.get("Connection")) == (200, body, "keep-alive")
    assert sum(counts.values()) == 40 and min(counts.values()) >= 10


@ONCE
def test_caddy_avoids_a_host_that_is_not_ready(start_server, fronts):
    """An unready host gets nothing; a gone one costs no request. (Both have the same app but for its count.)"""
    settings = {**PAGE.settings("Caddy"), "bind": "127.0.0.1:0", "drain_delay_seconds": 0}
    recorders = [apps.Recorder(apps.hello) for _ in range(2)]
    hosts = [start_server(recorder, **settings) for recorder in recorders]
    changes = {f"10.0.0.{number}:8000": "{}:{}".format(*host.address) for number, host in enumerate(hosts, 1)}
    caddy = fronts.caddy(PAGE.block("Caddy", "caddyfile"), {**changes, "health_interval 2s": "health_interval 50ms"})

    def shares():
        before = [recorder.count for recorder in recorders]
        assert [caddy.fetch("/")[0] for _ in range(20)] == [200] * 20, caddy.log
        return [recorder.count - count for recorder, count in zip(recorders, before)]

    wait_until(lambda: min(shares()) >= 1)
    one = hosts[0]
    one.call(lambda: one.server.set_unready("the database is gone"))
    wait_until(lambda: shares() == [0, 20], explain=lambda: caddy.log)
    one.call(lambda: one.server.set_unready(""))
    wait_until(lambda: min(shares()) >= 1, explain=lambda: caddy.log)
    one.stop()
    assert shares() == [0, 20]


def is_refused(address):
    try:
        socket.create_connection(address, 20).close()
    except ConnectionRefusedError:
        return True
    return False


@ONCE
@pytest.mark.provokes("ValueError")
def test_a_host_that_fails_is_no_host_that_is_gone(start_workers, fronts, tmp_path):
    """HAProxy takes out a host with failing connections long before its next check, and none with a failing app; later clients are answered."""
    hosts = [Host(start_workers, name, tmp_path, "--workers", "1") for name in ("one", "two")]
    changes = {"inter 2s": "inter 60s"}
    for number, (name, host) in enumerate(zip(("one", "two"), hosts), 1):
        place = f"127.0.0.1:{host.process.address[1]} port {host.metrics} agent-port {host.agent}"
        changes[f"server {name} 10.0.0.{number}:8000"] = f"server {name} {place}"
    haproxy = fronts.haproxy(PAGE.block("HAProxy", "haproxy"), changes)
    assert [haproxy.fetch("/fail")[0] for _ in range(20)] == [500] * 20
    assert min(shares(haproxy)) >= 9
    for pid in (hosts[0].process.pid, *hosts[0].process.workers):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_refused(hosts[0].process.address))  # requests accepted before are lost with the host
    wait_until(
        lambda: shares(haproxy) == (0, 20) and "Server app/one is DOWN" in haproxy.log, explain=lambda: haproxy.log
    )


@ONCE
def test_the_example_of_caddy():
    """The file of examples/caddy has the page's block."""
    path = pathlib.Path(DOCS).parent / "examples/caddy/Caddyfile"
    assert path.read_text().partition("\n")[2] == PAGE.block("Caddy", "caddyfile")


PLAIN = "frontend www\n    mode http\n    bind :80\n    default_backend app\nbackend app\n    mode http\n    server one %s\n"


@ONCE
def test_the_wait_is_for_haproxy_alone(start_server, raw_client, fronts):
    """HAProxy gets the field, and its clients do not."""
    server = start_server(apps.hello, queue_wait_header="X-Queue-Wait")
    haproxy = fronts.haproxy(PLAIN % "{}:{}".format(*server.address) + PAGE.block("The wait in a field", "haproxy"))
    assert raw_client(server).fetch().get("X-Queue-Wait") is not None
    status, fields, _ = haproxy.fetch("/")
    assert status == 200 and fields["X-Queue-Wait"] is None


@ONCE
def test_the_example_has_the_pages_lines():
    folder = pathlib.Path(DOCS).parent / "examples/haproxy"
    lines = {line.strip() for line in (folder / "haproxy.cfg").read_text().splitlines()}
    missing = [line for line in PAGE.block("HAProxy", "haproxy").splitlines() if line.strip() not in lines]
    assert missing == []
    flags = re.findall(r"--[a-z-]+", (folder / "serve.sh").read_text())
    assert set(re.findall(r"--[a-z-]+", PAGE.block("HAProxy", "sh"))) <= set(flags)
