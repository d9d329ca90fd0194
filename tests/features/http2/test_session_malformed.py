"""Requests against the rules of HTTP/2: their streams are reset, and other streams of the connection go on (RFC 9113 8.1.1)."""

import h2.settings
import pytest
from h2.errors import ErrorCodes
from harness.http2 import request
from harness.http2_frames import SETTINGS, frame, setting
from harness.replies import returning
from hyperframe.frame import DataFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

from aserve._cparsers import lib

BURST, FRAME_SETTINGS = lib.H2_BURST, lib.H2_FRAME_SETTINGS
OF_FIVE = request(b"POST", b"/", (b"content-length", b"5"))


def headers(client, stream, fields, *flags):
    return HeadersFrame(stream, client.h2.encoder.encode(fields), flags=["END_HEADERS", *flags]).serialize()


def data(stream, octets, *flags):
    return DataFrame(stream, octets, flags=flags).serialize()


def check_reset(client, stream, code=ErrorCodes.PROTOCOL_ERROR):
    """Check that the stream is reset, no app has run for it, and the next stream is served."""
    client.pump()
    assert client.resets == {stream: code} and not client.goaways
    assert client.harness.log.codes in ([400], [0])
    after = client.ask()
    client.pump()
    assert client.bodies[after] == b"/" and stream not in client.heads


@pytest.fixture
def logged(connect):
    """Connect with a log of requests."""

    def make(*args, **settings):
        client = connect(*args, **settings)
        client.harness.service.ends = client.harness.log
        return client

    return make


@pytest.mark.parametrize("body", ["buffer", "stream"])
@pytest.mark.parametrize(
    "frames",
    [
        [data(1, b"hell", "END_STREAM")],
        [data(1, b"hell"), data(1, b"", "END_STREAM")],
        [data(1, b"hello!")],
        [data(1, b"hello"), data(1, b"!", "END_STREAM")],
    ],
    ids=["shorter", "shorter in two", "longer", "longer in two"],
)
def test_a_body_of_another_length(logged, frames, body):
    """The app never gets such a body as a whole one."""
    client = logged(body=body)
    stream = client.ask(*OF_FIVE, ends=False)
    client.pump(runs=False)
    for each in frames:
        client.session.data_received(each)
    ran = [exchange for _, exchange in client.harness.executor.jobs]
    assert len(ran) == (body == "stream")
    if not ran:
        check_reset(client, stream)
    else:
        with pytest.raises(ConnectionError):
            ran[0].body.read()


def test_trailers_after_a_short_body(logged):
    """Trailers end a body, too."""
    client = logged()
    stream = client.ask(*OF_FIVE, data=b"hell", ends=False)
    client.h2.send_headers(stream, [(b"x-sum", b"1")], end_stream=True)
    check_reset(client, stream)


@pytest.mark.parametrize("length", [b"5", b"00000000000000000000000000000005"])
def test_a_length_without_a_body(logged, length):
    """A stream that ends with its head has no body."""
    client = logged()
    check_reset(client, client.ask(*request(b"POST", b"/", (b"content-length", length))))


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
def test_lengths_that_are_right(connect, method):
    """Right are 0 octets, and the lengths of any method."""
    client = connect()
    none = client.ask(*request(method, b"/", (b"content-length", b"0")))
    some = client.ask(*request(method, b"/", (b"content-length", b"05")), data=b"hello")
    client.pump()
    assert client.ended == {none, some} and client.status(some) == 200 and not client.resets
    assert client.bodies[some] == (b"" if method == b"HEAD" else b"/hello")


@pytest.mark.parametrize(
    "values", [[b"a"], [b"5", b"5"], [b"5", b"6"], [b"5, 5"], [b"-1"], [b""], [b"1" * 5000], [b"18446744073709551621"]]
)
def test_lengths_that_are_none(connect, values):
    """Wrong lengths are answered, as over HTTP/1.1."""
    client = connect()
    stream = client.ask(*request(b"POST", b"/", *[(b"content-length", value) for value in values]), data=b"hello")
    client.pump()
    assert client.status(stream) == 400 and not client.goaways


def test_trailers_that_do_not_end_the_stream(logged):
    """RFC 9113 8.1: the request is malformed."""
    client = logged()
    stream = client.ask(*request(b"POST"), data=b"hello", ends=False)
    client.pump()
    client.session.data_received(headers(client, stream, [(b"x-sum", b"1")]))
    check_reset(client, stream)


def test_data_behind_the_end(connect):
    """RFC 9113 5.1: such data ends its stream alone."""
    client = connect()
    stream, other = client.ask(), client.ask()
    client.pump(runs=False)
    client.session.data_received(data(stream, b"more"))
    client.pump()
    assert client.resets == {stream: ErrorCodes.STREAM_CLOSED} and client.ended == {other} and not client.goaways


@pytest.mark.parametrize("host", [b"a", b"A", b"a:443"])
def test_two_hosts_must_be_equal(connect, host):
    """Beside :authority one equal Host may stand; the port of the scheme may be left out."""
    client = connect()
    one = client.ask(*request(b"GET", b"/", (b"host", host)))
    two = client.ask(*request(b"GET", b"/", (b"host", b"a"), (b"host", host)))
    client.pump()
    assert (client.status(one), client.status(two)) == (200, 400)


def test_streams_before_the_settings(connect):
    """A client may not know --max-streams when it begins: surplus streams are refused alone (RFC 9113 5.1.2)."""
    client = connect(max_streams=2)
    client.forget_max_streams()
    first, second, third = [client.ask() for _ in range(3)]
    client.pump()
    assert (
        client.ended == {first, second} and client.resets == {third: ErrorCodes.REFUSED_STREAM} and not client.goaways
    )


def test_streams_that_send_on_after_their_responses(connect):
    """Such streams are open, and no others begin beside them."""
    client = connect(max_streams=2, max_body_bytes=10)
    client.forget_max_streams()
    for _ in range(2):
        client.ask(*request(b"POST", b"/", (b"content-length", b"100")), ends=False)
    client.pump()
    third = client.ask()
    client.pump()
    assert client.resets == {third: ErrorCodes.REFUSED_STREAM}


# State that a client may make the server keep


def settings_frame(numbers):
    return frame(SETTINGS, 0, 0, b"".join(setting(number, 1) for number in numbers))


def test_settings_that_are_unknown(connect):
    client = connect()
    for first in range(100, 100 + 900 * FRAME_SETTINGS, FRAME_SETTINGS):
        client.session.data_received(settings_frame(range(first, first + FRAME_SETTINGS)))
    stream = client.ask()
    client.pump()
    assert client.ended == {stream}


@pytest.mark.parametrize(
    "numbers", [range(100, 101 + FRAME_SETTINGS), [100] * (1 + FRAME_SETTINGS)], ids=["all differ", "all are one"]
)
def test_a_frame_of_too_many_settings(connect, caplog, numbers):
    """Such a frame ends the connection: no client has so many, and each costs as much time as a frame without settings."""
    caplog.set_level("INFO")
    client = connect()
    client.session.data_received(settings_frame(numbers))
    client.pump()
    assert client.goaways == [(0, ErrorCodes.ENHANCE_YOUR_CALM)] and client.is_closed
    assert "a frame of 33 settings" in caplog.text


def test_a_field_block_that_cannot_be_decoded(connect):
    """The tables of both sides differ from then on: the connection ends (RFC 9113 4.3)."""
    client = connect()
    client.session.data_received(HeadersFrame(1, b"\x80", flags=["END_HEADERS", "END_STREAM"]).serialize())
    client.pump()
    assert [code for _, code in client.goaways] == [ErrorCodes.COMPRESSION_ERROR] and client.is_closed


def test_a_table_for_the_fields_of_responses(connect):
    """The table grows no larger than its default, however large the client's is."""
    fields = iter(range(1 << 30))
    client = connect(returning([b"x"], [("X-A", f"{next(fields)}" * 100)]))
    client.h2.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: 1 << 20})
    client.pump()
    for _ in range(20):
        client.ask()
        client.pump()
    table = client.session._frames.connection.encoder.table
    assert table.max_bytes == lib.HPACK_TABLE_BYTES >= table.bytes and len(client.ended) == 20


@pytest.mark.parametrize(
    "frame",
    [
        PingFrame(0, b"12345678", flags=["ACK"]),
        SettingsFrame(0, flags=["ACK"]),
        WindowUpdateFrame(1, 1),
        RstStreamFrame(1),
        DataFrame(3, b""),
    ],
    ids=["ping", "settings", "window", "reset", "data"],
)
def test_floods_of_frames_that_change_nothing(connect, frame):
    """Unasked acknowledgements, and frames for closed streams."""
    client = connect()
    client.ask()
    client.pump()
    client.h2.reset_stream(client.ask(*request(b"POST"), ends=False))
    client.pump()
    client.session.data_received(frame.serialize() * (BURST + 20))
    client.pump()
    assert client.is_closed and client.goaways[-1][1] == ErrorCodes.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "fields", [request(b"GET", b"/", (b"connection", b"a")), request(b"POST", b"/", (b"content-length", b"1"))]
)
def test_floods_of_malformed_requests(connect, fields):
    """Each is reset; too many end the connection."""
    client = connect()
    for _ in range(BURST // 50 + 1):
        for _ in range(50):
            client.ask(*fields)
        client.pump()
    assert client.goaways[-1][1] == ErrorCodes.ENHANCE_YOUR_CALM and client.is_closed
