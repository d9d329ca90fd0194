"""Frames of HTTP/2 in C, without a connection around.

Beside this file: a session's use of events (tests/features/http2), the library h2 on the same octets (test_http2_differential.py), HPACK
(test_http2_hpack.py).
"""

import struct

import pytest
from harness.http2 import request
from harness.http2_engine import Peer
from harness.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PRIORITY_UPDATE,
    RESET,
    SETTINGS,
    WINDOW,
    frame,
    setting,
)

from aserve._cparsers import ffi, lib
from aserve.connections.progress import LINGER_SECONDS
from aserve.protocols import http2

METHOD, SCHEME, AUTHORITY, PATH = request()
PINGS = frame(PING, 0, 0, bytes(8))
OK = b"HTTP/1.1 200 OK\r\nX: y"
CONNECT = [(b":method", b"CONNECT"), (b":protocol", b"websocket"), *request()[1:]]
UPGRADE = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"


def update(stream_id, count):
    return frame(WINDOW, 0, stream_id, struct.pack("!I", count))


# Requests


@pytest.mark.parametrize(
    ("fields", "head"),
    [
        (request(b"GET", b"/a?b"), b"GET /a?b HTTP/1.1\r\nhost: a"),
        (request(b"OPTIONS", b"*"), b"OPTIONS * HTTP/1.1\r\nhost: a"),
        (request(b"PUT", b"/", (b"x-a", b"1"), (b"x-a", b"2")), b"PUT / HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nx-a: 2"),
        # One field, split by HTTP/2; the crumbs are not to count as so many fields.
        (request(b"GET", b"/", (b"cookie", b"a=1"), (b"cookie", b"b=2")), b"GET / HTTP/1.1\r\nhost: a\r\ncookie: a=1; b=2"),
        (request(b"GET", b"/", (b"host", b"A")), b"GET / HTTP/1.1\r\nhost: a"),
        (request(b"GET", b"/", (b"host", b"a:443")), b"GET / HTTP/1.1\r\nhost: a"),
        ([METHOD, (b":scheme", b"HTTP"), AUTHORITY, PATH, (b"host", b"a:80")], b"GET / HTTP/1.1\r\nhost: a"),
        ([METHOD, SCHEME, PATH, (b"host", b"b")], b"GET / HTTP/1.1\r\nhost: b"),
        # The parser of HTTP/1.1 refuses these, here as well.
        (request(b"GET", b"/", (b"host", b"a"), (b"host", b"a")), b"GET / HTTP/1.1\r\nhost: a\r\nhost: a"),
        ([METHOD, SCHEME, PATH], b"GET / HTTP/1.1"),
        ([METHOD, SCHEME, PATH, (b"host", b"b"), (b"host", b"c")], b"GET / HTTP/1.1\r\nhost: b\r\nhost: c"),
        ([(b":method", b"CONNECT"), AUTHORITY], b"CONNECT a HTTP/1.1\r\nhost: a"),
        ([(b":method", b"CONNECT")], b"CONNECT - HTTP/1.1"),
        (request(b"GET", b"/", (b"te", b"Trailers")), b"GET / HTTP/1.1\r\nhost: a\r\nte: Trailers"),
        (request(b"GET", b"/", (b"x", b"")), b"GET / HTTP/1.1\r\nhost: a\r\nx: "),
    ],
)  # fmt: skip
def test_a_request_becomes_a_head(fields, head):
    is_head = (http2.REQUEST, 1, http2.END_STREAM, 0, head + b"\r\n\r\n")
    assert Peer().ask(fields) == [is_head]


MALFORMED = [
    [SCHEME, AUTHORITY, PATH],
    [METHOD, AUTHORITY, PATH],
    [METHOD, SCHEME, AUTHORITY],
    [METHOD, METHOD, SCHEME, AUTHORITY, PATH],
    [METHOD, SCHEME, AUTHORITY, PATH, PATH],
    [METHOD, SCHEME, AUTHORITY, (b"a", b"b"), PATH],
    request(b"G T"),
    request(b"G(T"),
    request(b""),
    request(b"GET", b""),
    request(b"GET", b"http://b/"),
    request(b"GET", b"/ HTTP/1.1\r\nx: y"),
    request(b"GET", b"/\0"),
    request(b"GET", b"/\x7f"),
    [METHOD, SCHEME, (b":authority", b"a\r\nx: y"), PATH],
    [METHOD, SCHEME, (b":authority", b""), PATH],
    request(b"GET", b"/", (b":status", b"200")),
    [(b":status", b"200"), *request()],
    [(b":protocol", b"websocket"), *request(b"CONNECT")],
    request(b"GET", b"/", (b"host", b"b")),
    request(b"GET", b"/", (b"host", b"a:80")),
    request(b"GET", b"/", (b"Name", b"b")),
    request(b"GET", b"/", (b"", b"b")),
    request(b"GET", b"/", (b"a b", b"c")),
    request(b"GET", b"/", (b"a:", b"c")),
    request(b"GET", b"/", (b"a\r\nb", b"c")),
    request(b"GET", b"/", (b"a\xff", b"c")),
    request(b"GET", b"/", (b"a", b"b\r\nc: d")),
    request(b"GET", b"/", (b"a", b"b\nc")),
    request(b"GET", b"/", (b"a", b"b\0")),
    request(b"GET", b"/", (b"a", b" b")),
    request(b"GET", b"/", (b"a", b"b\t")),
    request(b"GET", b"/", (b"te", b"gzip")),
    request(b"GET", b"/", (b"te", b"trailers, gzip")),
    *[
        request(b"GET", b"/", (name, b"x"))
        for name in (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
    ],
]


@pytest.mark.parametrize("fields", MALFORMED)
def test_malformed_requests_have_their_streams_reset(fields):
    """RFC 9113 8.1.1: none of these is a request; nor can any part become a line in a head of HTTP/1.1."""
    peer = Peer()
    ((kind, stream_id, *_, why),) = peer.ask(fields)
    assert (kind, stream_id) == (http2.REFUSED, 1) and why
    assert peer.sent() == [(RESET, 0, 1, b"\0\0\0\1")]
    assert peer.ask(request(), 3)[0][0] == http2.REQUEST


def test_the_field_that_may_not_be_is_named():
    """A log tells the client's programmer the field to leave out."""
    events = Peer().ask(request(b"GET", b"/", (b"keep-alive", b"5")))
    assert events[0][4] == b"the field keep-alive, which is for connections of HTTP/1.1"


def test_a_websocket_is_asked_for_as_over_http1():
    """RFC 8441: the CONNECT becomes a GET with the fields known to apps; a key of the client has no meaning."""
    peer = Peer(takes_websockets=True)
    ((_, _, flags, _, head),) = peer.ask([*CONNECT, (b"sec-websocket-key", b"x"), (b"origin", b"o")], ends=False)
    assert head == b"GET / HTTP/1.1\r\nhost: a\r\n" + UPGRADE + b"origin: o\r\n\r\n" and not flags
    other = [(name, b"connect-udp" if name == b":protocol" else value) for name, value in CONNECT]
    assert peer.ask(other, 3)[0][4] == b"CONNECT a HTTP/1.1\r\nhost: a\r\n\r\n"
    without_path = [field for field in CONNECT if field[0] != b":path"]
    assert [peer.ask(fields, at)[0][0] for at, fields in ((5, without_path), (7, [METHOD, *CONNECT[1:]]))] == [
        http2.REFUSED
    ] * 2


@pytest.mark.parametrize(
    ("value", "urgency"),
    [(b"u=0", 0), (b"i, u=5", 5), (b"u=7;a", 7), (b"u=8", 3), (b"i", 3), (b"au=1", 3), (b"u=12", 3), (b"u=1,i", 1)],
)
def test_urgency_is_the_priority_fields(value, urgency):
    """RFC 9218 4.1: 0 is the most urgent, 3 the default; 7.1: a client may choose anew."""
    peer = Peer()
    peer.ask(request(b"GET", b"/", (b"priority", value)))
    assert peer.frames.urgency(1) == urgency
    peer.send(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\1u=2"))
    assert peer.frames.urgency(1) == 2
    (event,) = peer.send(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\1" + value))
    assert event == (http2.PRIORITY, 1, 0, urgency, b"") and peer.frames.urgency(1) == urgency
    assert peer.frames.urgency(3) == http2.DEFAULT_URGENCY


@pytest.mark.parametrize(
    ("values", "length"),
    [
        ([b"0012"], 12),
        ([b"0"], 0),
        ([], None),
        ([b"1" * 20], None),
        ([b"a"], None),
        ([b""], None),
        ([b"12", b"12"], None),
    ],
)
def test_a_body_is_as_long_as_its_content_length(values, length):
    """A valid length: the parser of HTTP/1.1 refuses invalid ones."""
    for count in (11, 12, 13):
        peer = Peer()
        peer.ask(request(b"POST", b"/", *[(b"content-length", value) for value in values]), ends=False)
        assert peer.data(bytes(count), ends=True)[-1][0] == (
            http2.DATA if length in (None, count) else http2.REFUSED
        ), count


@pytest.mark.parametrize(
    ("fields", "ends", "kind"),
    [
        ([], True, http2.DATA),
        ([(b"a", b"b")], True, http2.DATA),
        ([(b"a", b"b")], False, http2.REFUSED),
        ([METHOD], True, http2.REFUSED),
        ([(b"A", b"b")], True, http2.REFUSED),
        ([(b"connection", b"x")], True, http2.REFUSED),
    ],
)
def test_trailers_are_fields_and_nothing_else(fields, ends, kind):
    """Trailers end the body, and are dropped."""
    peer = Peer()
    peer.ask(request(b"POST"), ends=False)
    ((found, *_, octets),) = peer.send(peer.headers(fields, ends=ends))
    assert found == kind and (octets == b"") == (kind == http2.DATA)


def test_octets_one_by_one_tell_the_same():
    """Octets come in any pieces, with padding, CONTINUATION frames and unknown frames."""
    block = Peer().encoder.encode(request(b"POST"))
    octets = (
        frame(HEADERS, 0x28, 1, b"\2" + bytes(5) + block[:3] + b"xx") + frame(CONTINUATION, 0, 1, block[3:4])
        + frame(CONTINUATION, END_HEADERS, 1, block[4:]) + frame(0x33, 0, 9, b"x") + frame(DATA, 8, 1, b"\1body.")
        + frame(DATA, END_STREAM, 1)
    )  # fmt: skip
    whole, pieces = Peer(), Peer()
    events = whole.send(octets)
    assert [event[0] for event in events] == [http2.REQUEST, http2.DATA]
    head, body, end = (event for octet in octets for event in pieces.send(bytes([octet])))
    assert [head, body, end] == [events[0], (http2.DATA, 1, 0, 6, b"body"), (http2.DATA, 1, http2.END_STREAM, 0, b"")]
    assert pieces.sent() == whole.sent()


def test_frames_of_one_body_are_one_event():
    """The frames count together; a frame of another stream begins a new event."""
    peer = Peer()
    for stream_id in (1, 3):
        peer.ask(request(b"POST"), stream_id, ends=False)
    padded, plain = frame(DATA, 8, 1, b"\2abc##"), frame(DATA, 0, 1, b"defg")
    assert peer.send(padded + plain + frame(DATA, 0, 3, b"h") + plain + frame(DATA, END_STREAM, 1, b"i")) == [
        (http2.DATA, 1, 0, 10, b"abcdefg"), (http2.DATA, 3, 0, 1, b"h"), (http2.DATA, 1, http2.END_STREAM, 5, b"defgi"),
    ]  # fmt: skip


def test_a_portion_has_an_end():
    """A call takes so many frames, or as much text as there is room for, and tells where to go on."""
    peer = Peer()
    peer.ask(request(b"POST"), ends=False)
    small, large = frame(DATA, 0, 1, b"x"), frame(DATA, 0, 3, bytes(16384))
    end, is_full, events = peer.frames.receive(small * 150, 0)
    assert (end, is_full, events) == (
        http2.FRAMES * len(small), True, [(http2.DATA, 1, 0, http2.FRAMES, b"x" * http2.FRAMES)]
    )  # fmt: skip
    peer.ask(request(b"POST"), 3, ends=False)
    end, is_full, ((*_, octets),) = peer.frames.receive(large * 20, 0)
    assert end == len(octets) // 16384 * len(large) < 20 * len(large) and not is_full


# Responses


def test_a_head_becomes_a_field_section():
    """Names are in lower case, and the fields of connections are left out; body and end go with the head."""
    peer = Peer()
    peer.ask(request())
    lines = b"\r\nContent-Type: text/plain\r\nX:  a: b \r\nConnection: close\r\nSet-Cookie: a\r\nSet-Cookie: b"
    assert peer.frames.send(1, b"HTTP/1.1 404 Not Found" + lines, b"body", http2.END_STREAM) == 4
    head, body = peer.sent()
    assert peer.decode(head.payload) == [
        (b":status", b"404"), (b"content-type", b"text/plain"), (b"x", b"a: b"), (b"set-cookie", b"a"), (b"set-cookie", b"b"),
    ]  # fmt: skip
    assert head[:3] == (HEADERS, END_HEADERS, 1) and body == (DATA, END_STREAM, 1, b"body")
    assert peer.frames.room(1) == http2.GONE == peer.frames.send(1, OK, b"") and not peer.frames.open_count


def test_a_handshake_that_is_agreed_to_is_a_200():
    """RFC 8441 5: neither the key's answer nor the fields of connections go out."""
    peer = Peer(takes_websockets=True)
    peer.ask(CONNECT, ends=False)
    lines = b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat"
    assert peer.frames.send(1, b"HTTP/1.1 101 Switching Protocols" + lines, b"", http2.IS_UPGRADE) == 0
    assert peer.decode(peer.sent()[0].payload) == [(b":status", b"200"), (b"sec-websocket-protocol", b"chat")]


@pytest.mark.parametrize(
    "head",
    [b"hello", b"HTTP/1.1 20x OK", b"HTTP/1.1 101 X\r\na b: c", b"HTTP/1.1 101 X\r\na: b\nc: d", b"HTTP/1.1 101 X\r\nte: x", OK + b"\r\nx"],
)  # fmt: skip
def test_a_handshake_that_is_none_changes_nothing(head):
    """Nothing is sent, and the tables of both sides stay equal."""
    peer = Peer(takes_websockets=True)
    peer.ask(CONNECT)
    assert peer.frames.send(1, head, b"", http2.IS_UPGRADE) == http2.MALFORMED and not peer.sent()
    peer.frames.send(1, OK, b"")
    assert peer.decode(peer.sent()[0].payload) == [(b":status", b"200"), (b"x", b"y")]


def test_a_large_head_has_several_frames():
    """No frame is larger than the setting of the client."""
    for size, count in ((16384, 4), (1 << 17, 1)):
        peer = Peer()
        peer.send(frame(SETTINGS, 0, 0, setting(5, size)))
        peer.ask(request())
        peer.sent()
        peer.frames.send(1, OK + b"".join(b"\r\nx-%d: %s" % (at, b"\xff" * 1000) for at in range(60)), b"x")
        *frames, body = peer.sent()
        assert [each.kind for each in frames] == [HEADERS, *[CONTINUATION] * (count - 1)] and body.kind == DATA
        assert [each.flags for each in frames] == [0] * (count - 1) + [END_HEADERS]
        assert len(peer.decode(b"".join(each.payload for each in frames))) == 62


def test_windows_bound_what_is_sent():
    """RFC 9113 6.9: of the connection, of the stream, and by settings; a frame has 16 KiB at most."""
    peer = Peer()
    peer.send(frame(SETTINGS, 0, 0, setting(4, 10)))
    peer.ask(request())
    assert peer.frames.room(1) == 10 and peer.frames.send(1, OK, bytes(20), http2.END_STREAM) == 10
    assert peer.sent()[-1] == (DATA, 0, 1, bytes(10)) and peer.frames.room(1) == 0
    assert peer.send(frame(SETTINGS, 0, 0, setting(4, 5))) == [(http2.ROOM, 0, 0, 0, b"")]
    peer.send(update(1, 7))
    assert peer.frames.room(1) == 2  # RFC 9113 6.9.2: the window was negative
    peer.send(update(1, 1 << 20))
    assert peer.frames.room(1) == 65525
    assert peer.frames.send(1, b"", bytes(40_000)) == 40_000
    assert [(flags, len(octets)) for kind, flags, _, octets in peer.sent() if kind == DATA] == [
        (0, 16384),
        (0, 16384),
        (0, 7232),
    ]
    assert peer.frames.room(1) == 25525
    assert peer.frames.send(1, b"", b"end", http2.END_STREAM) == 3 and peer.sent()[-1] == (DATA, END_STREAM, 1, b"end")


def test_a_client_has_room_as_its_bodies_are_taken():
    """The window of all is filled again at once; the window of a stream when given, and never beyond the size."""
    peer = Peer()
    assert peer.greeting[1] == (WINDOW, 0, 0, struct.pack("!I", lib.H2_CONNECTION_WINDOW - 65535))
    for stream_id in (1, 3):
        peer.ask(request(b"POST"), stream_id, ends=False)
        for _ in range(http2.STREAM_WINDOW >> 14):
            assert peer.data(bytes(1 << 14), stream_id)[0][3] == 1 << 14
    assert peer.sent() == [(WINDOW, 0, 0, struct.pack("!I", 1 << 19))]
    for count in (http2.STREAM_WINDOW + 1, 0, http2.STREAM_WINDOW, 1):
        peer.frames.give_room(1, count)
    assert peer.sent() == [(WINDOW, 0, 1, struct.pack("!I", http2.STREAM_WINDOW))]
    assert peer.data(b"x")[0][0] == http2.DATA
    ((kind, *_, code, why),) = peer.data(b"x", 3)
    assert (kind, code) == (http2.FAILED, lib.H2_FLOW_CONTROL_ERROR) and b"window" in why


def test_what_is_sent_is_not_kept():
    """An idle connection has no large memory."""
    peer = Peer()
    peer.ask(request())
    peer.frames.send(1, OK, bytes(10_000))
    assert peer.frames.connection.out_cap > 10_000
    peer.sent()
    assert peer.frames.connection.out == ffi.NULL and peer.frames.take_octets() == b""


# Floods, and the end


def test_frames_that_bring_nothing_are_counted():
    """Allowed frames are used up, and fill again; a quiet minute allows no more than the beginning does."""
    peer = Peer()
    for _ in range(60):
        peer.frames.pass_second()
    assert not peer.send(PINGS * lib.H2_BURST)
    peer.frames.pass_second()
    assert not peer.send(PINGS * lib.H2_EACH_SECOND)
    (event,) = peer.send(PINGS)
    assert event == (http2.FAILED, 0, 0, lib.H2_ENHANCE_YOUR_CALM, b"the client floods it with frames")
    assert peer.send(PINGS) == [] and peer.sent()[-1].payload == struct.pack("!II", 0, lib.H2_ENHANCE_YOUR_CALM)


def test_updates_of_windows_are_asked_for_by_data():
    """So many for each DATA frame are no flood."""
    peer = Peer()
    peer.ask(request())
    peer.frames.send(1, OK, b"x")
    left = peer.frames.connection.frames_left
    peer.send(update(0, 1) * lib.H2_UPDATES_PER_FRAME)
    assert peer.frames.connection.frames_left == left
    peer.send(update(0, 1))
    assert peer.frames.connection.frames_left == left - 1


@pytest.mark.parametrize("count", [lib.H2_CONTINUATIONS - 1, lib.H2_CONTINUATIONS])
def test_a_field_section_has_an_end(count):
    """So many frames are one section; more are a flood."""
    peer = Peer()
    block = peer.encoder.encode(request())
    events = peer.send(
        frame(HEADERS, END_STREAM, 1), frame(CONTINUATION, 0, 1) * (count - 1), frame(CONTINUATION, 4, 1, block)
    )
    assert events[0][0] == (http2.REQUEST if count < lib.H2_CONTINUATIONS else http2.FAILED)


def test_a_client_that_sends_on_has_a_while_to_end():
    """A stream with a sent response stays open, and counts, until the client has ended the stream, or a reset."""
    peer = Peer(max_streams=2)
    for stream_id in (1, 3):
        peer.ask(request(b"POST"), stream_id, ends=False)
        peer.frames.send(stream_id, OK, b"", http2.END_STREAM)
    assert peer.ask(request(), 5) == [] and peer.sent()[-1] == (RESET, 0, 5, struct.pack("!I", http2.REFUSED_STREAM))
    assert peer.data(b"late", 3) == [] and peer.data(b"", 3, ends=True) == [(http2.RESET, 3, 0, 0, b"")]
    assert lib.H2_LINGER_SECONDS == LINGER_SECONDS  # as over HTTP/1.1
    for _ in range(lib.H2_LINGER_SECONDS):
        peer.frames.pass_second()
    assert not peer.sent() and peer.frames.open_count == 1
    peer.frames.pass_second()
    assert peer.sent() == [(RESET, 0, 1, bytes(4))] and not peer.frames.open_count


def test_streams_behind_the_last_goaway_are_dropped():
    """RFC 9113 6.8: their frames still count for the table and for the window of all; earlier streams go on."""
    peer = Peer()
    peer.ask(request(b"POST"), ends=False)
    peer.frames.go_away(http2.LAST_STREAM)
    assert peer.ask(request(b"POST"), 3, ends=False) and peer.frames.last_served == 3
    peer.frames.go_away(3)
    late = request(b"POST", b"/", (b"x-kept", b"1"))
    assert peer.ask(late, 5, ends=False) + peer.data(b"x", 5) + peer.ask([(b"x-kept", b"1")], 5) == []
    assert peer.data(b"y", 3, ends=True)[0][4] == b"y" and peer.frames.last_served == 3
    assert [(each.kind, each.payload) for each in peer.sent()] == [
        (7, struct.pack("!II", http2.LAST_STREAM, 0)), (7, struct.pack("!II", 3, 0)),
    ]  # fmt: skip


def test_an_end_of_input_closes_what_is_not_whole():
    """Whole requests can still be answered."""
    peer = Peer()
    peer.ask(request(b"POST"), 1, ends=False)
    peer.ask(request(), 3)
    peer.frames.end_input()
    assert peer.frames.room(1) == http2.GONE and peer.frames.room(3) > 0


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (frame(DATA, 0, 1, b"x"), lib.H2_PROTOCOL_ERROR),
        (frame(HEADERS, 5, 2), lib.H2_PROTOCOL_ERROR),
        (frame(HEADERS, 5, 1, b"\x80"), lib.H2_COMPRESSION_ERROR),
        (frame(CONTINUATION, 4, 1), lib.H2_PROTOCOL_ERROR),
        (frame(HEADERS, 1, 1) + PINGS, lib.H2_PROTOCOL_ERROR),
        (frame(RESET, 0, 1, bytes(4)), lib.H2_PROTOCOL_ERROR),
        (frame(PING, 0, 0, b"x"), lib.H2_FRAME_SIZE_ERROR),
        (frame(SETTINGS, ACK, 0, setting(1, 1)), lib.H2_FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, setting(2, 2)), lib.H2_PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, setting(4, 1 << 31)), lib.H2_FLOW_CONTROL_ERROR),
        (frame(SETTINGS, 0, 0, setting(5, 1)), lib.H2_PROTOCOL_ERROR),
        (update(0, 0), lib.H2_PROTOCOL_ERROR),
        (update(0, (1 << 31) - 1), lib.H2_FLOW_CONTROL_ERROR),
        (update(1, 1), lib.H2_PROTOCOL_ERROR),
        (frame(5, 4, 1), lib.H2_PROTOCOL_ERROR),
        (b"\0\x40\1\0\0\0\0\0\1", lib.H2_FRAME_SIZE_ERROR),
    ],
)
def test_faults_of_the_connection_end_it(octets, code):
    """Each has the code of a clause in RFC 9113, in a GOAWAY."""
    peer = Peer()
    ((kind, _, _, found, why),) = peer.send(octets)
    assert (kind, found) == (http2.FAILED, code) and why.startswith(b"the client broke HTTP/2: ")
    assert peer.sent()[-1] == (7, 0, 0, struct.pack("!II", 0, code))


@pytest.mark.parametrize(("count", "code"), [(0, lib.H2_PROTOCOL_ERROR), ((1 << 31) - 1, lib.H2_FLOW_CONTROL_ERROR)])
def test_an_update_that_may_not_be_resets_its_stream(count, code):
    """RFC 9113 6.9: the connection goes on."""
    peer = Peer()
    peer.ask(request(b"POST"), ends=False)
    assert peer.send(update(1, count)) == [(http2.RESET, 1, 0, code, b"")]
    assert peer.sent() == [(RESET, 0, 1, struct.pack("!I", code))] and peer.ask(request(), 3)


def test_frames_for_closed_streams_depend_on_how_they_were_closed():
    """RFC 9113 5.1, 5.4.2: frames behind our reset may be on their way, however many; frames behind the client's own, or an end, are a fault."""
    peer = Peer()
    peer.ask(request(b"POST"), ends=False)
    peer.frames.reset(1, http2.INTERNAL_ERROR)
    peer.sent()
    for _ in range(2 * lib.H2_BURST):
        assert peer.data(b"x") == []
    assert peer.ask([(b"a", b"b")]) == [] == peer.sent()
    peer.ask(request(b"POST"), 5, ends=False)
    peer.send(frame(RESET, 0, 5, bytes(4)))
    assert peer.data(b"x", 5) == peer.ask([(b"a", b"b")], 5) == []
    assert peer.sent() == [(RESET, 0, 5, struct.pack("!I", lib.H2_STREAM_CLOSED))] * 2
    peer.ask(request(), 7)
    peer.frames.send(7, OK, b"", http2.END_STREAM)
    assert [(event[0], event[3]) for event in peer.data(b"x", 7)] == [(http2.FAILED, lib.H2_STREAM_CLOSED)]


@pytest.mark.parametrize("octets", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + PINGS])
def test_a_connection_begins_with_preface_and_settings(octets):
    """RFC 9113 3.4."""
    frames = http2.Frames(http2.FoundEvents(1024), 1, False)
    _, _, ((kind, _, _, code, _),) = frames.receive(octets, 0)
    assert (kind, code) == (http2.FAILED, lib.H2_PROTOCOL_ERROR)
