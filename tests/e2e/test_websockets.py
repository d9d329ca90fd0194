"""WebSockets of real apps and clients: flask-sock, Flask-SocketIO and simple-websocket, also over TLS, behind nginx and with workers."""

import collections
import json
import ssl

import pytest
import simple_websocket
import socketio
from flask import Flask
from flask_sock import Sock
from flask_socketio import SocketIO
from harness.combining import each_once
from harness.front import Page
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess, run_command
from harness.waiting import wait_until

SITE = """\
import os
from flask import Flask
from flask_sock import Sock

app = Flask(__name__)
app.config["SOCK_SERVER_OPTIONS"] = {"ping_interval": 25}

@Sock(app).route("/pid")
def pid(ws):
    while True:
        ws.receive()
        ws.send(str(os.getpid()))
"""


def chat():
    """Return an app of flask-sock's that echoes."""
    app = Flask(__name__)

    @Sock(app).route("/echo")
    def echo(ws):
        while True:
            ws.send(ws.receive())

    @app.route("/")
    def index():
        return "index"

    return app


@pytest.fixture
def connect():
    """Connect simple-websocket's client: connect(server or URL, path)."""
    clients = []

    def connect(server, path="/echo", **options):
        url = getattr(server, "url", server)
        clients.append(simple_websocket.Client(url.replace("http", "ws", 1) + path, **options))
        return clients[-1]

    yield connect
    for client in clients:
        if client.connected:
            client.close()
        client.thread.join(30)


def ask(client, message):
    client.send(message)
    return client.receive(timeout=30)


@pytest.mark.plain
def test_flask_sock_echoes_until_closed(start_server, connect, raw_client):
    """Texts and octets, small and large, are echoed; a client's close ends the socket for the app."""
    server = start_server(chat(), is_checked=False)
    client = connect(server)
    for message in ("hello", "\N{SNOWMAN}" * 50000, bytes(range(256)) * 4096):
        assert ask(client, message) == message
    client.close()
    wait_until(lambda: not server.statistics().connections_websocket)
    assert raw_client(server).fetch().body == b"index"


@pytest.mark.one_way
def test_a_websocket_works_over_tls(start_server, connect, tls_settings, authority):
    server = start_server(chat(), is_checked=False, **tls_settings)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    client = connect(server, ssl_context=context)
    assert ask(client, "x" * 100000) == "x" * 100000


@pytest.mark.one_way
@pytest.mark.plain
def test_pings_are_answered_in_time(start_server, connect):
    """A pinging server waits for its client with a selector, and by time."""
    app = chat()
    app.config["SOCK_SERVER_OPTIONS"] = {"ping_interval": 1}
    client = connect(start_server(app, is_checked=False))
    pings, receive = [], client.ws.receive_data
    client.ws.receive_data = lambda data: (pings.append(data), receive(data))
    wait_until(lambda: pings)
    assert ask(client, "still here") == "still here"


@pytest.mark.one_way
@pytest.mark.plain
@pytest.mark.parametrize("transports", [["websocket"], ["polling", "websocket"]])
def test_flask_socketio_sends_events_both_ways(start_server, transports):
    """Events go both ways, whether the client begins with requests or with a WebSocket."""
    app = Flask(__name__)
    events = SocketIO(app, async_mode="threading")

    @events.on("say")
    def say(what):
        events.emit("said", what.upper())
        return len(what)

    server = start_server(app, is_checked=False)
    with socketio.SimpleClient() as client:
        client.connect(server.url, transports=transports)
        wait_until(lambda: client.transport == "websocket")
        assert client.call("say", "hello", timeout=30) == 5
        assert client.receive(timeout=30) == ["said", "HELLO"]
    wait_until(lambda: not server.statistics().connections_websocket)


EVENTS = """\
from flask import Flask
from flask_socketio import SocketIO

app = Flask(__name__)
events = SocketIO(app{mode})

@events.on("say")
def say(what):
    events.start_background_task(answer, what.upper())
    return events.async_mode

def answer(what):
    events.sleep(0)
    events.emit("said", what)
"""
MOVED = {
    "site.ini": "[uwsgi]\nhttp-socket = 127.0.0.1:0\nmodule = shop:app\nmaster = true\ngevent = 20\nhttp-websockets = true\n",
    "conf.py": "bind = '127.0.0.1:0'\nworker_class = 'gevent'\nwsgi_app = 'shop:app'\nworker_connections = 20\n",
}


@pytest.mark.one_way
@pytest.mark.plain
@NEEDS_LINUX
@pytest.mark.parametrize(
    ("transports", "moved"),
    each_once(
        [["websocket"], ["polling"]],
        [("site.ini", "", "gevent_uwsgi"), ("site.ini", "gevent", "gevent"), ("conf.py", "", "gevent")],
    ),
)
def test_modes_for_greenlets(tmp_path, moved, transports):
    """An app of uWSGI's or gunicorn's that chooses gevent, if installed, is served in threads."""
    name, mode, chosen = moved
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").write_text("")  # a further import would fail
    (tmp_path / "shop.py").write_text(EVENTS.format(mode=f", async_mode={mode!r}" if mode else ""))
    (tmp_path / name).write_text(MOVED[name])
    process = ServerProcess(["--uwsgi-ini" if name == "site.ini" else "--gunicorn-conf", name], tmp_path, {}, ["env"])
    try:
        with socketio.SimpleClient() as client:
            client.connect("http://{}:{}".format(*process.address), transports=transports)
            for what in ("hello", "again"):
                found = client.call("say", what, timeout=30)
                assert found == chosen, (found, process.log)
                assert client.receive(timeout=30) == ["said", what.upper()]
        assert f"Socket.IO's mode {chosen} runs in threads here" in process.log
        process.signal()
        assert process.wait(40) == 0
    finally:
        process.end()


@pytest.mark.one_way
@pytest.mark.plain
def test_a_websocket_works_behind_nginx(start_server, connect, fronts):
    server = start_server(chat(), is_checked=False, trusted_proxies="127.0.0.1")
    nginx = fronts.nginx(
        Page("websockets").block("Behind nginx", "nginx"),
        {"127.0.0.1:8000": "{}:{}".format(*server.address)},
    )
    client = connect(nginx.url)
    assert ask(client, "hello") == "hello"
    assert nginx.fetch("/")[2] == b"index"


@pytest.mark.long_on_pypy
def test_a_reload_moves_websockets_to_new_workers(start_workers, connect, tmp_path):
    """A worker tells its number of WebSockets. Clients of replaced workers see the end, and connect anew to the next; nobody waits for
    --drain-timeout.
    """
    control = str(tmp_path / "control")
    server = start_workers("--workers", "2", "--drain-timeout", "60", "--control", control, app=SITE)
    before = set(server.wait_for_workers(2))
    clients = [connect(server, "/pid") for _ in range(4)]
    found = collections.Counter(int(ask(client, "who?")) for client in clients)
    assert set(found) <= before

    def counted():
        workers = json.loads(run_command("status", "--json", "--control", control, check=True).stdout)["workers"]
        return {worker["pid"]: worker["websockets"] for worker in workers if worker["websockets"]} == found

    wait_until(counted, 30)
    server.signal(1)
    for client in clients:
        with pytest.raises(simple_websocket.ConnectionClosed):
            client.receive(timeout=30)
    wait_until(lambda: len(server.workers) == 2 and not before & set(server.workers), 30)
    assert int(ask(connect(server, "/pid"), "who?")) in set(server.workers)
    assert server.stop() == 0
