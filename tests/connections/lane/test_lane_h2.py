"""Connections of HTTP/2 in the lane: which requests stay there, and what becomes of those that do not."""

import contextlib
import os
import socket
import ssl
import time
from types import SimpleNamespace

import h2.events
import h2.settings
import pytest
from harness import apps
from harness.http2 import request
from harness.http2_client import HTTP2Client
from harness.waiting import wait_until

from aserve._cparsers import lib
from aserve.features.http2.calls import RETURN_COUNT

pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]
LARGE = b"x" * 600_000  # beyond what the lane keeps of a request


def app(environ, start_response):
    """Answer with the path, or with the body."""
    path = environ["PATH_INFO"]
    body = environ["wsgi.input"].read()
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/written":
        write(b"a")
        return [b"b"]
    return [body or f"{path} {environ['SERVER_PROTOCOL']}".encode()]


@pytest.fixture
def serve(serve_http2):
    """serve(app) -> a server and a client."""
    return serve_http2


def lane_of(server):
    return server.server._listening.lane


def test_requests_without_a_body_are_answered_in_the_lane(serve):
    """Many at once, each with its own answer."""
    server, client = serve(app)
    asked = [client.ask(request(b"GET", b"/%d" % number)) for number in range(50)]
    assert client.bodies(*asked) == [b"/%d HTTP/2.0" % number for number in range(50)]
    assert server.call(lambda: lane_of(server).request_count) == 50
    assert not server.call(lambda: len(server.server._listening.connections))  # none on the event loop


def test_a_response_that_the_lane_cannot_send_takes_the_connection_along(serve):
    """The requests beside it, and those that follow, are answered, too."""
    server, client = serve(app)
    asked = [client.ask(request(b"GET", each)) for each in (b"/1", b"/written", b"/2")]
    assert client.bodies(*asked) == [b"/1 HTTP/2.0", b"ab", b"/2 HTTP/2.0"]
    assert client.bodies(client.ask(request(b"GET", b"/3"))) == [b"/3 HTTP/2.0"]
    assert server.call(lambda: len(server.server._listening.connections)) == 1


# Large responses


def counted_bytes(server):
    """Return the octets that --response-memory counts."""
    return server.call(lambda: lane_of(server).services[0].budgets.memory.count)


def is_in_lane(server):
    """Return whether the connection is the lane's."""
    return server.call(lambda: lane_of(server).count == 1 and not server.server._listening.connections)


def body_of(size):
    """Return octets of which each has its place."""
    return b"".join(b"%07d " % number for number in range(size // 8 + 1))[:size]


def sized(environ, start_response):
    """Answer with as many octets as the path says."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body_of(int(environ["PATH_INFO"][1:]))]


def test_large_responses_stay_in_the_lane(serve):
    """Each body comes whole and in order, on both sides of what one write sends, beside small ones and behind each other."""
    server, client = serve(sized)
    server.hold_clock()
    for sizes in ([70_000], [200_000], [5, 100_000, 65_535, 1_000_000, 65_536, 2, 300_000], [0, 131_072, 131_073]):
        asked = [client.ask(request(b"GET", b"/%d" % size)) for size in sizes]
        assert client.bodies(*asked) == [body_of(size) for size in sizes]
        wait_until(lambda: counted_bytes(server) == 0)  # the client is quicker
        assert is_in_lane(server)
    client.ask(request(b"HEAD", b"/1000000"))
    assert client.bodies(client.ask(request(b"GET", b"/1"))) == [b"0"]
    assert is_in_lane(server)


def test_a_large_response_to_a_window_that_takes_all(serve):
    """The lane sends as the client reads; nothing waits for an update of a window."""
    server, client = serve(sized)
    server.hold_clock()
    client.frames.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
    client.frames.increment_flow_control_window(1 << 24)
    for size in (131_073, 8_000_000):
        asked = client.ask(request(b"GET", b"/%d" % size))
        while not client.streams[asked].is_over:
            client.receive()
        assert client.streams[asked].body == body_of(size)
    wait_until(lambda: counted_bytes(server) == 0)
    assert is_in_lane(server)


def test_small_responses_behind_a_client_that_does_not_read(serve):
    """They wait in the lane, as the large one does, and come when the client reads."""
    server, client = serve(sized)
    server.hold_clock()
    client.frames.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 26})
    client.frames.increment_flow_control_window(1 << 26)
    sizes = [30_000_000, *[20_000] * 20]
    asked = [client.ask(request(b"GET", b"/%d" % size)) for size in sizes]
    wait_until(lambda: server.call(lambda: lane_of(server).request_count) == len(sizes))
    while not all(client.streams[each].is_over for each in asked):
        client.receive()
    assert [bytes(client.streams[each].body) for each in asked] == [body_of(size) for size in sizes]
    wait_until(lambda: counted_bytes(server) == 0)


def test_a_large_response_through_a_small_socket(serve):
    """Whenever the socket has some room, the lane goes on, also where the client makes room for all of the body at first."""
    server, _ = serve(sized)
    server.hold_clock()
    with socket.socket(fileno=os.dup(lane_of(server).set.listeners[0].fd)) as listener:
        listener.setblocking(False)  # PyPy's socket changes the flag, shared by both
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)  # less than the lane sends at once
    with contextlib.closing(serve.connect(server, 4096)) as client:
        client.frames.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
        client.frames.increment_flow_control_window(1 << 24)
        asked = [client.ask(request(b"GET", b"/%d" % size)) for size in (3_000_000, 2_000_000)]
        while not all(client.streams[each].is_over for each in asked):
            client.receive()
        assert [bytes(client.streams[each].body) for each in asked] == [body_of(3_000_000), body_of(2_000_000)]
        wait_until(lambda: counted_bytes(server) == 0)
        assert not server.call(lambda: len(server.server._listening.connections))


def test_ends_of_large_responses_beside_many_requests(serve):
    """Batches that are full of requests do not put off the end of a response, which has the memory."""
    kept = []

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/9":
            kept.append(len(lane_of(server).handovers.kept))
        return sized(environ, start_response)

    server, client = serve(app, threads=1)
    server.hold_clock()
    large = client.ask(request(b"GET", b"/200000"))
    wait_until(lambda: counted_bytes(server) == 200_000)
    lane_of(server).set.arrivals_cap = 1
    client.frames.increment_flow_control_window(1 << 20)
    client.frames.increment_flow_control_window(1 << 20, large)
    asked = [client.frames.get_next_available_stream_id() + 2 * at for at in range(60)]
    for number in asked:
        client.streams[number] = type(client.streams[large])()
        client.frames.send_headers(number, request(b"GET", b"/9" if number == asked[-1] else b"/5"), end_stream=True)
    client.flush()
    assert list(map(len, client.bodies(large, *asked))) == [200_000, *[5] * 59, 9]
    assert kept == [0]


def test_a_client_that_resets_a_large_response_frees_it(serve):
    """Its body is not counted any more, the response beside it goes on, and the connection stays."""
    server, client = serve(sized)
    server.hold_clock()
    left, stays = (client.ask(request(b"GET", b"/%d" % size)) for size in (200_000, 300_000))
    wait_until(lambda: counted_bytes(server) == 500_000)
    client.frames.reset_stream(left)
    client.frames.increment_flow_control_window(1 << 20)
    client.flush()
    wait_until(lambda: counted_bytes(server) == 300_000)
    assert client.bodies(stays) == [body_of(300_000)]
    assert is_in_lane(server)


def test_the_log_of_large_responses(serve, tmp_path):
    """A line has the size, how the response has ended, and the time until the client has made room."""
    log = tmp_path / "log"
    server, client = serve(sized, access_log=str(log), access_log_format="%(U)s %(s)s %(B)s %(end)s %(D)s")
    server.hold_clock()
    slow = client.ask(request(b"GET", b"/300000"))
    left = client.ask(request(b"GET", b"/200000"))
    wait_until(lambda: counted_bytes(server) == 500_000)
    began = time.monotonic()
    client.frames.reset_stream(left)
    client.flush()
    wait_until(lambda: counted_bytes(server) == 300_000)
    seconds = time.monotonic() - began
    assert client.bodies(slow) == [body_of(300_000)]
    server.pass_seconds_until(lambda: log.read_text().count("\n") == 2)
    quick, last = (line.rsplit(" ", 1) for line in log.read_text().splitlines())
    assert (quick[0], last[0]) == ("/200000 200 200000 client_gone", "/300000 200 300000 answered")
    assert float(last[1]) / 1e6 >= seconds


def test_a_client_that_leaves_within_a_large_response(serve):
    """The response is not counted any more, and nothing is left of the connection."""
    server, client = serve(sized)
    client.ask(request(b"GET", b"/200000"))
    wait_until(lambda: counted_bytes(server) == 200_000)
    client.close()
    wait_until(lambda: counted_bytes(server) == 0 and server.call(lambda: lane_of(server).count) == 0)
    wait_until(lambda: not server.call(lambda: len(server.server._listening.connections)))


def test_a_slow_client_of_large_responses_is_the_event_loop_s(serve):
    """The event loop sends the rest of each, and --write-timeout begins; the connection returns when all is quick again."""
    server, client = serve(lambda environ, start: (app if environ["PATH_INFO"] == "/" else sized)(environ, start))
    sizes = (200_000, 100_000, 300_000)
    asked = [client.ask(request(b"GET", b"/%d" % size)) for size in sizes]
    wait_until(lambda: counted_bytes(server) == sum(sizes))
    server.pass_seconds_until(lambda: server.call(lambda: len(server.server._listening.connections) > len(sizes)))
    assert client.bodies(*asked) == [body_of(size) for size in sizes]
    for _ in range(RETURN_COUNT):
        assert client.bodies(client.ask(request(b"GET", b"/"))) == [b"/ HTTP/2.0"]
    wait_until(lambda: is_in_lane(server))


def test_a_client_that_makes_no_room_is_cut_off(serve):
    """--write-timeout holds, whoever has begun the response."""
    server, client = serve(sized, write_seconds=5)
    asked = client.ask(request(b"GET", b"/200000"))
    wait_until(lambda: counted_bytes(server) == 200_000)
    server.pass_seconds_until(lambda: counted_bytes(server) == 0)
    while not client.streams[asked].is_over:
        client.receive()
    assert client.streams[asked].reset_code is not None


def test_a_drain_waits_for_large_responses(serve):
    """The client gets all of the response, and then the end."""
    server, client = serve(sized)
    asked = client.ask(request(b"GET", b"/200000"))
    wait_until(lambda: counted_bytes(server) == 200_000)
    server.begin_drain()
    assert client.bodies(asked) == [body_of(200_000)]
    client.recv_to_end()


def test_a_lane_that_closes_ends_large_responses(serve):
    """Their clients are gone, as far as the log can tell, and nothing is counted."""
    server, client = serve(sized)
    server.hold_clock()
    client.ask(request(b"GET", b"/200000"))
    wait_until(lambda: server.call(lambda: any(large.is_kept for large in lane_of(server).handovers.kept.values())))
    kept = lane_of(server).handovers.kept
    kept[1] = SimpleNamespace(is_kept=False)  # whose worker is inside the call
    server.call(lambda: lane_of(server).handovers.end_kept())
    assert list(kept) == [1] and kept.pop(1)
    assert counted_bytes(server) == 0
    client.close()


def test_a_stream_that_leaves_keeps_its_urgency(serve):
    """The rest of an urgent response is sent first, by the lane or by the event loop."""
    server, client = serve(sized)
    asked = [client.ask(request(b"GET", b"/200000", (b"priority", value))) for value in (b"u=7", b"u=1", b"u=2")]
    wait_until(lambda: counted_bytes(server) == 600_000)
    order: list[int] = []
    client._on_event = lambda event: order.append(event.stream_id) if getattr(event, "data", b"") else None
    for number in asked:
        client.frames.increment_flow_control_window(1 << 20, number)
    client.frames.increment_flow_control_window(1 << 20)
    client.flush()
    while not all(client.streams[number].is_over for number in asked):
        client.receive()
    lasts = {number: at for at, number in enumerate(order)}
    assert sorted(asked, key=lasts.__getitem__) == [asked[1], asked[2], asked[0]]


def test_a_body_finds_the_requests_before_it_running(serve):
    """The streams that run in the lane come to the event loop as they are answered."""
    gate = apps.Gate(app)
    server, client = serve(gate)
    first = client.ask(request(b"GET", b"/1"))
    gate.wait_entered()
    second = client.ask(request(b"POST", b"/2"), LARGE)
    gate.wait_entered()
    gate.open(2)
    assert client.bodies(first, second) == [b"/1 HTTP/2.0", LARGE]


def test_a_client_that_leaves_while_its_requests_run(serve):
    """Nobody is answered, and nothing is left."""
    gate = apps.Gate(app)
    server, client = serve(gate)
    for number in range(3):
        client.ask(request(b"GET", b"/%d" % number))
        gate.wait_entered()
    client.close()
    gate.open(3)
    wait_until(lambda: server.call(lambda: lane_of(server).count) == 0)
    wait_until(lambda: not server.call(lambda: len(server.server._listening.connections)))


def test_a_stream_that_is_reset_counts_until_its_app_has_ended(serve):
    """A further request waits, as --max-streams is 1."""
    gate = apps.Gate(app)
    events: list[object] = []
    server, client = serve(gate, max_streams=1)
    client._on_event = events.append
    client.frames.reset_stream(client.ask(request(b"GET", b"/1")))
    client.flush()
    gate.wait_entered()
    second = client.ask(request(b"GET", b"/2"))
    client.frames.ping(b"in order")
    client.flush()
    while not any(isinstance(event, h2.events.PingAckReceived) for event in events):
        client.receive()
    assert gate.paths == ["/1"]
    gate.open(2)
    assert client.bodies(second) == [b"/2 HTTP/2.0"]


def test_what_comes_at_once_and_is_more_than_a_batch(serve):
    """All of it is read, though the socket tells of it once."""
    server, client = serve(app)
    for number in range(900):
        client.frames.send_headers(
            stream := client.frames.get_next_available_stream_id(), request(b"GET", b"/%060d" % number), end_stream=True
        )
        client.frames.reset_stream(stream)
    assert client.bodies(client.ask(request(b"GET", b"/last"))) == [b"/last HTTP/2.0"]


def test_an_upload_takes_the_connection_along(serve):
    """A request with a large body is Python's, beside requests without, and so are the next ones."""
    server, client = serve(app)
    first = client.ask(request(b"GET", b"/1"))
    upload = client.ask(request(b"POST", b"/2"), LARGE)
    assert client.bodies(first, upload, client.ask(request(b"HEAD", b"/3"))) == [b"/1 HTTP/2.0", LARGE, b""]
    assert server.call(lambda: len(server.server._listening.connections)) == 1


def test_idle_connections_end_by_a_goaway(serve):
    """--keep-alive is that of HTTP/1.1."""
    server, client = serve(app, keep_alive_seconds=5)
    assert client.bodies(client.ask(request(b"GET", b"/1"))) == [b"/1 HTTP/2.0"]
    server.pass_seconds_until(lambda: not server.call(lambda: lane_of(server).count))
    while not client.goaways:
        server.pass_seconds(1)
        client.receive()
    assert client.goaways[-1][1] == 0


def test_a_client_that_vanishes_is_no_fault(serve):
    """The app ends its request, and the place is free."""
    gate = apps.Gate(app)
    server, client = serve(gate)
    client.ask(request(b"GET", b"/1"))
    gate.wait_entered()
    client.close()
    gate.open()
    wait_until(lambda: not server.call(lambda: lane_of(server).count))


def test_a_health_check_takes_the_connection_along(serve):
    """The event loop answers it, though no thread may be free."""
    gate = apps.Gate(app)
    server, client = serve(gate, healthcheck_path="/up", threads=1)
    slow = client.ask(request(b"GET", b"/1"))
    gate.wait_entered()
    check = client.ask(request(b"GET", b"/up"))
    client.bodies(check)
    gate.open()
    assert client.bodies(slow) == [b"/1 HTTP/2.0"]
    assert server.call(lambda: len(server.server._listening.connections)) == 1


def test_a_request_without_a_thread_is_dropped_with_its_client(serve):
    """The app never sees a request whose stream was reset while it waited, and sees the one beside it."""
    gate = apps.Gate(app)
    server, client = serve(gate, threads=1)
    slow = client.ask(request(b"GET", b"/1"))
    gate.wait_entered()
    stays, left = client.ask(request(b"GET", b"/2")), client.ask(request(b"GET", b"/3"))
    wait_until(lambda: server.statistics().requests_waiting == 2)
    client.frames.reset_stream(left)
    client.flush()
    server.pass_seconds_until(lambda: server.statistics().requests_waiting == 1)
    gate.open(3)
    asked = [slow, stays, client.ask(request(b"GET", b"/4"))]
    assert client.bodies(*asked) == [b"/1 HTTP/2.0", b"/2 HTTP/2.0", b"/4 HTTP/2.0"]
    assert gate.paths == ["/1", "/2", "/4"]


def test_several_names_have_their_streams_in_the_lane(start_server, tls_settings, authority):
    """Handshakes of such a bind are the event loop's, and its requests the lane's."""
    more = f"b.example={tls_settings['certificate']}:{tls_settings['key']}"
    server = start_server(app, is_checked=False, http2="auto", sni=[more], **tls_settings)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with contextlib.closing(HTTP2Client(server.address, context=context)) as client:
        assert client.bodies(client.ask(request(b"GET", b"/1"))) == [b"/1 HTTP/2.0"]
        assert server.call(lambda: lane_of(server).request_count) == 1


# The way back


def leave_and_return(server, client):
    """Take the connection out of the lane, then ask for so much that it returns."""
    assert client.bodies(client.ask(request(b"POST", b"/up"), LARGE)) == [LARGE]
    assert server.call(lambda: len(server.server._listening.connections)) == 1
    for _ in range(RETURN_COUNT):
        assert client.bodies(client.ask(request(b"GET", b"/"))) == [b"/ HTTP/2.0"]
    wait_until(lambda: server.call(lambda: not server.server._listening.connections))


def test_requests_behind_an_upload_are_the_lane_s_again(serve):
    """A connection leaves and returns again and again: windows, compression and counts go along."""
    server, client = serve(app)
    for _ in range(5):
        leave_and_return(server, client)
        before = server.call(lambda: lane_of(server).request_count)
        asked = [client.ask(request(b"GET", b"/%d" % number, (b"x-field", b"known"))) for number in range(30)]
        assert client.bodies(*asked) == [b"/%d HTTP/2.0" % number for number in range(30)]
        assert server.call(lambda: lane_of(server).request_count) == before + 30
        statistics = server.statistics()
        assert statistics.connections_open == 1 and server.call(lambda: lane_of(server).count) == 1
    assert statistics.requests == 5 * (1 + RETURN_COUNT + 30)


def test_a_client_that_only_uploads_stays_on_the_event_loop(serve):
    """Each way there and back costs more than the lane saves."""
    server, client = serve(app)
    for number in range(3 * RETURN_COUNT):
        method = b"GET" if number % RETURN_COUNT else b"POST"
        client.bodies(client.ask(request(method, b"/"), LARGE if method == b"POST" else None))
        assert server.call(lambda: len(server.server._listening.connections)) == 1


def test_a_part_of_the_next_request_goes_along(serve):
    """The lane reads the rest of a frame whose beginning the event loop has read."""
    server, client = serve(app)
    assert client.bodies(client.ask(request(b"POST", b"/up"), LARGE)) == [LARGE]
    for _ in range(RETURN_COUNT - 1):
        client.bodies(client.ask(request(b"GET", b"/")))
    last = client.frames.get_next_available_stream_id()
    client.streams[last] = type(client.streams[1])()
    client.frames.send_headers(last, request(b"GET", b"/last"), end_stream=True)
    whole = client.frames.data_to_send()
    client.streams[last + 2] = type(client.streams[1])()
    client.frames.send_headers(last + 2, request(b"GET", b"/next"), end_stream=True)
    part = client.frames.data_to_send()
    client.send_octets(whole + part[:11])
    assert client.bodies(last) == [b"/last HTTP/2.0"]
    wait_until(lambda: server.call(lambda: not server.server._listening.connections))
    client.send_octets(part[11:])
    assert client.bodies(last + 2) == [b"/next HTTP/2.0"]


def test_requests_that_come_as_the_connection_returns(serve):
    """Each of a row of requests, which the client does not hold back, is answered on either side."""
    server, client = serve(app)
    for _ in range(40):
        asked = [client.ask(request(b"POST", b"/up", (b"expect", b"100-continue")), b"body")]
        asked += [client.ask(request(b"GET", b"/")) for _ in range(2 * RETURN_COUNT)]
        assert client.bodies(*asked) == [b"body", *[b"/ HTTP/2.0"] * (2 * RETURN_COUNT)]


def test_a_client_that_leaves_as_its_connection_returns(serve):
    """No connection is left, in the lane or on the event loop."""
    server, client = serve(app)
    for _ in range(20):
        with contextlib.closing(serve.connect(server)) as leaving:
            leaving.bodies(leaving.ask(request(b"POST", b"/up"), LARGE))
            for _ in range(RETURN_COUNT):
                leaving.ask(request(b"GET", b"/"))
    client.close()
    wait_until(lambda: server.call(lambda: lane_of(server).count) == 0)
    wait_until(lambda: server.call(lambda: not server.server._listening.connections))


def test_a_request_that_runs_on_keeps_the_connection(serve):
    """A stream counts until its app has ended, though the client has reset the stream."""
    gate = apps.Gate(app)
    gates = {"/slow": gate}
    server, client = serve(lambda environ, start: gates.get(environ["PATH_INFO"], app)(environ, start))
    client.bodies(client.ask(request(b"POST", b"/up"), LARGE))
    slow = client.ask(request(b"GET", b"/slow"))
    gate.wait_entered()
    client.frames.reset_stream(slow)
    for _ in range(2 * RETURN_COUNT):
        client.bodies(client.ask(request(b"GET", b"/")))
    assert server.call(lambda: len(server.server._listening.connections)) == 1
    gate.open()

    def has_returned():
        client.bodies(client.ask(request(b"GET", b"/")))
        return server.call(lambda: not server.server._listening.connections)

    wait_until(has_returned)


def test_a_drain_behind_the_return(serve):
    """A first GOAWAY asks for no more streams, the running one is answered, and the last one is named."""
    gate = apps.Gate(app)
    gates = {"/slow": gate}
    server, client = serve(lambda environ, start: gates.get(environ["PATH_INFO"], app)(environ, start))
    leave_and_return(server, client)
    slow = client.ask(request(b"GET", b"/slow"))
    gate.wait_entered()
    server.begin_drain()
    while not client.goaways:
        client.receive()
    gate.open()
    assert client.bodies(slow) == [b"/slow HTTP/2.0"]
    client.recv_to_end()
    assert [last for last, _ in client.goaways] == [(1 << 31) - 1, slow]


def test_a_connection_that_has_returned_idles_as_any(serve):
    """--keep-alive begins with the last response; its GOAWAY names the last stream."""
    server, client = serve(app, keep_alive_seconds=5)
    leave_and_return(server, client)
    server.pass_seconds_until(lambda: not server.call(lambda: lane_of(server).count))
    while not client.goaways:
        server.pass_seconds(1)
        client.receive()
    assert client.goaways[-1] == (2 * RETURN_COUNT + 1, 0)


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_connection_has_a_place_for_one_stream(serve, lane):
    """At --max-connections a connection that idles may ask, in the lane or on the event loop."""
    server, client = serve(app, max_connections=1, lane=lane)
    for path in (b"/1", b"/2"):
        assert client.bodies(client.ask(request(b"GET", path))) == [path + b" HTTP/2.0"]


def test_the_number_of_a_stream_that_has_left(serve):
    """Nothing is known of its client; a worker may ask, as its app goes on."""
    server, _ = serve(app)
    assert server.call(lambda: lib.lane_has_left(lane_of(server).set, -1)) == 0


def test_idle_connections_leave_numbers_to_streams(serve):
    """With as many connections as the lane takes, their requests are the lane's, and a further connection is the event loop's."""
    server, client = serve(app)
    client.bodies(client.ask(request(b"GET", b"/0")))
    set = lane_of(server).set

    def take_all():
        numbers = []
        while (number := lib.lane_new_carrier(set)) >= 0:
            numbers.append(number)
        return numbers

    numbers = server.call(take_all)
    assert len(numbers) == lib.LANE_CARRIERS - 1
    asked = [client.ask(request(b"GET", b"/%d" % number)) for number in range(100)]
    assert client.bodies(*asked) == [b"/%d HTTP/2.0" % number for number in range(100)]
    assert server.call(lambda: lane_of(server).request_count) == 101
    with contextlib.closing(serve.connect(server)) as other:
        assert other.bodies(other.ask(request(b"GET", b"/1"))) == [b"/1 HTTP/2.0"]
        assert server.call(lambda: len(server.server._listening.connections)) == 1
        server.call(lambda: [lib.lane_drop_carrier(set, number) for number in numbers])
        leave_and_return(server, other)
