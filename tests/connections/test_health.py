"""Health checks: their requests and answers, the connection behind, and its other requests."""

import pytest
from harness.asking import hello
from harness.fakes import FakeConnection
from harness.responses import parse

from aserve.connections.health import HealthPaths, answer
from aserve.core.exchange import Exchange, RpcCall
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import CommonFields

PATH = "/-/health"
BASE = build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=None)


def exchange_of(vars, **attributes):
    exchange = Exchange("\0".join(text for pair in vars.items() for text in pair), len(vars))
    exchange.connection = FakeConnection(BASE)
    for name, value in attributes.items():
        setattr(exchange, name, value)
    return exchange


def http(path, method="GET"):
    """Return the vars of a request over HTTP."""
    return {
        "REQUEST_METHOD": method,
        "REQUEST_URI": path,
        "PATH_INFO": path.partition("?")[0],
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }


# Their requests


@pytest.mark.parametrize(
    ("vars", "probe"),
    [
        (http("/-/health"), "ready"),
        (http("/-/health/ready"), "ready"),
        (http("/-/health/live"), "live"),
        (http("/-/health/live?x=1"), "live"),
        (http("/-/health/live", "HEAD"), "live"),
        (http("/-/health/live", "POST"), ""),
        (http("/-/health/live", "get"), ""),
        (http("/-/health/"), ""),
        (http("/-/health/lively"), ""),
        (http("/-/healthy"), ""),
        (http("/a/-/health"), ""),
        (http("/a?/-/health"), ""),
        ({**http("/"), "HTTP_REFERER": "http://a/-/health/live"}, ""),
        (http("/"), ""),
    ],
)
def test_only_get_and_head_of_the_paths_are_checks(vars, probe):
    """GET and HEAD of the three paths are checks; similar requests are the app's."""
    assert HealthPaths(PATH).probe_of(exchange_of(vars)) == probe


@pytest.mark.parametrize(
    ("vars", "attributes", "probe"),
    [
        ({"PATH_INFO": "/-/health/live"}, {}, "live"),
        ({"REQUEST_METHOD": "HEAD", "DOCUMENT_URI": "/-/health"}, {}, "ready"),
        ({"REQUEST_METHOD": "PUT", "DOCUMENT_URI": "/-/health"}, {}, ""),
        ({"SCRIPT_NAME": "/app", "PATH_INFO": "/app/-/health/live"}, {"is_mounted": True}, "live"),
        ({"SCRIPT_NAME": "/app", "PATH_INFO": "/app/-/health/live"}, {}, ""),
        ({"PATH_INFO": "/-/health/live"}, {"rpc": RpcCall(2, [], "")}, ""),
        ({"PATH_INFO": "/-/health/live"}, {"body": object()}, "live"),
    ],
)
def test_which_requests_of_front_servers(vars, attributes, probe):
    """The path is the app's PATH_INFO, however a front server tells it; a call is no request; no body is opened."""
    assert HealthPaths(PATH).probe_of(exchange_of(vars, is_from_front=True, **attributes)) == probe


# Their answers


@pytest.mark.parametrize(
    ("probe", "warning", "line", "retry", "body"),
    [
        ("live", "", "HTTP/1.1 200 OK", None, b"live\n"),
        ("live", "draining", "HTTP/1.1 200 OK", None, b"live\n"),
        ("ready", "", "HTTP/1.1 200 OK", None, b"ready\n"),
        ("ready", "draining", "HTTP/1.1 503 Service Unavailable", "10", b"draining\n"),
    ],
)
def test_answers_are_lines_without_caching(probe, warning, line, retry, body):
    """A check gets a line of text that no cache keeps; with 503, a Retry-After."""
    found = parse(answer(probe, warning, exchange_of(http(PATH)), CommonFields("s")))
    assert (found[0], found[2]) == (line, body)
    fields = dict(found[1])
    assert fields["Cache-Control"] == "no-store" and fields.get("Retry-After") == retry
    assert fields["Content-Type"].startswith("text/plain") and fields["Content-Length"] == str(len(body))


# On a connection of the event loop


LIVE = b"GET /-/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
READY = LIVE.replace(b"live", b"ready")
GET = b"GET /of-the-app HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def asked(new):
    """Return harness, connection and transport of a server with health checks."""
    harness, connection, transport = new(healthcheck_path=PATH)
    harness.service.ends = harness.log
    return harness, connection, transport


def bodies_of(octets):
    found = []
    while octets:
        _, fields, rest = parse(octets)
        length = int(dict(fields)["Content-Length"])
        found.append(rest[:length])
        octets = rest[length:]
    return found


def test_no_worker_is_asked(asked):
    """The loop answers by itself, without a line in the log; the connection stays for the app's next request."""
    harness, connection, transport = asked
    for _ in range(3):
        connection.data_received(LIVE)
        harness.loop.turn()
        assert bodies_of(transport.received()) == [b"live\n"]
        assert harness.executor.jobs == [] and harness.log.codes == [] and not transport.is_closing()
        assert harness.service.request_count == 0
    connection.data_received(GET)
    harness.executor.run()
    assert bodies_of(transport.received()) == [b"/of-the-app"] and harness.log.codes == [200]
    assert harness.service.request_count == 1


def test_without_the_setting(new):
    """Without a set path, the app has all paths."""
    harness, connection, transport = new()
    connection.data_received(LIVE)
    harness.executor.run()
    assert bodies_of(transport.received()) == [b"/-/health/live"]


def test_ready_goes_by_the_warning(asked):
    """A drain makes ready 503 at once, and live stays so."""
    harness, connection, transport = asked
    harness.service.is_draining = True
    for octets, status in ((READY, b"503 "), (LIVE, b"200 ")):
        connection.data_received(octets)
        harness.loop.turn()
        assert transport.received()[9:13] == status


def test_pipelined_checks_have_their_turn(asked):
    harness, connection, transport = asked
    connection.data_received(GET + LIVE + READY + GET + LIVE)
    while harness.executor.jobs or harness.loop.soon:
        harness.loop.turn()
        harness.executor.run()
    octets = [b"/of-the-app", b"live\n", b"ready\n", b"/of-the-app", b"live\n"]
    assert bodies_of(transport.received()) == octets and harness.log.codes == [200, 200]


def test_very_many_pipelined(asked):
    """However many come at once, the stack does not grow with them."""
    harness, connection, transport = asked
    connection.data_received(LIVE * 3000)
    while harness.loop.soon:
        harness.loop.turn()
    assert bodies_of(transport.received()) == [b"live\n"] * 3000


@pytest.mark.parametrize(
    ("octets", "line", "connection_field"),
    [
        (b"GET /-/health HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 OK", "close"),
        (b"GET /-/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"HTTP/1.1 200 OK", "keep-alive"),
        (b"HEAD /-/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 OK", "close"),
    ],
)
def test_whether_the_connection_stays(asked, octets, line, connection_field):
    """The connection stays by the client's choice, as with the app's responses; HEAD has no body."""
    harness, connection, transport = asked
    connection.data_received(octets)
    harness.loop.turn()
    reply = transport.received()
    _, fields, body = parse(reply)
    assert reply.startswith(line) and dict(fields)["Connection"] == connection_field
    assert body == (b"" if octets.startswith(b"HEAD") else b"ready\n")
    assert ("write_eof" in transport.calls) is (connection_field == "close")


@pytest.mark.parametrize("body", ["buffer", "stream"])
def test_with_a_body(new, body):
    """A body is not read; behind it comes the next request, or the connection closes before."""
    harness, connection, transport = new(healthcheck_path=PATH, body=body)
    head = LIVE[:-2] + b"Content-Length: 5\r\n\r\n"
    connection.data_received(head + b"he")
    harness.loop.turn()
    connection.data_received(b"llo" + READY)
    harness.loop.turn()
    harness.loop.turn()
    expected = [b"live\n", b"ready\n"] if body == "buffer" else [b"live\n"]
    assert bodies_of(transport.received()) == expected
    assert ("write_eof" in transport.calls) is (body == "stream")


def test_a_client_that_has_gone(asked):
    """A client may leave between question and answer."""
    harness, connection, transport = asked
    connection.data_received(LIVE)
    transport.lose()
    harness.loop.turn()
    assert connection.connection.exchange is None and harness.log.codes == []


# In the lane


@pytest.mark.one_way
def test_health_checks_in_a_batch(start_server, raw_client):
    """Checks leave the lane for the event loop, with or without a body; requests beside them are served in the lane, similar ones too."""
    server = start_server(hello, is_checked=False, threads=0, lane="auto", healthcheck_path=PATH)
    lane = server.server._listening.lane
    plain, similar, probe, begun = (raw_client(server) for _ in range(4))

    def act():
        plain.send(GET)
        similar.send(GET.replace(b"Host: a", b"Host: a\r\nReferer: http://a/-/health"))
        probe.send(READY)
        begun.send(LIVE.replace(b"Host: a", b"Host: a\r\nContent-Length: 3") + b"a")
        lane.submit_arrivals(lane.wait(1000))
        lane.executor.run()

    server.call(act)
    assert [client.recv_response().body for client in (plain, similar, probe)] == [b"hello", b"hello", b"ready\n"]
    begun.send(b"bc" + GET)
    assert [begun.recv_response().body for _ in range(2)] == [b"live\n", b"hello"]
    statistics = server.statistics()
    assert (statistics.connections_open, statistics.connections_in_lane, statistics.requests) == (4, 2, 3)
