"""http1_parse_head: readings and refusals, whatever the limits; splits: test_heads.py."""

import pytest

TCHARS = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
VISIBLE = bytes(range(0x21, 0x7F))
OBS_TEXT = bytes(range(0x80, 0x100))

BARE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def every_octet(template: bytes):
    """Yield each octet, and the head with the octet in place of "@"."""
    for octet in range(256):
        yield octet, template.replace(b"@", bytes([octet]))


# The corpus


def test_an_accepted_head_means_its_json(accepted_head, parse_head):
    head = parse_head(accepted_head.raw, **accepted_head.limits)
    assert not isinstance(head, str), head
    expected = accepted_head.expected
    assert head.vars == expected["vars"]
    assert head.flags == expected["flags"]
    assert head.content_length == expected["content_length"]
    assert head.consumed == expected["consumed"]


# Splits


def test_bad_line_end_does_not_wait(load_corpus, parse_head):
    """A bare LF is refused at once, a bare CR at the octet behind it."""
    cases = load_corpus("http1/reject").values()
    for raw, expected in cases:
        if expected["error"] not in ("BARE_LF", "BARE_CR"):
            continue
        first = next(n for n in range(len(raw) + 1) if parse_head(raw[:n]) != "INCOMPLETE")
        assert parse_head(raw[:first]) == expected["error"]
        if expected["error"] == "BARE_LF":
            assert raw[first - 1 : first] == b"\n"
        else:
            assert raw[first - 2 : first - 1] == b"\r"


@pytest.mark.parametrize("octet", [*range(0x20), 0x7F])
def test_control_octet_does_not_wait(octet, parse_head):
    """A control octet is refused at once, in any place."""
    for start in (b"", b"GE", b"GET /", b"GET / HTTP", BARE[:-4] + b"\r\nA", BARE[:-4]):
        answer = parse_head(start + bytes([octet]))
        if octet == 0x0A:
            assert answer == "BARE_LF"
        elif octet == 0x0D or (octet == 0x09 and start):
            assert answer == "INCOMPLETE"
        else:
            assert answer.startswith("BAD_")


def test_nothing_is_incomplete(parse_head):
    """No octets, or empty lines alone, are no head yet."""
    assert parse_head(b"") == "INCOMPLETE"
    assert parse_head(b"\r") == "INCOMPLETE"
    assert parse_head(b"\r\n\r\n\r\n") == "INCOMPLETE"


# Octets


@pytest.mark.parametrize(
    ("template", "allowed"),
    [
        (b"A@B / HTTP/1.1\r\nHost: x\r\n\r\n", set(TCHARS + b" ") - {0x20}),
        (b"GET /a@b HTTP/1.1\r\nHost: x\r\n\r\n", set(VISIBLE + OBS_TEXT) - set(b"#%")),
        (b"GET /?a@b HTTP/1.1\r\nHost: x\r\n\r\n", set(VISIBLE + OBS_TEXT) - set(b"#")),
        (b"GET / HTTP/1.@\r\nHost: x\r\n\r\n", set(b"0123456789")),
        (b"GET / HTTP/@.1\r\nHost: x\r\n\r\n", set(b"1")),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA@B: c\r\n\r\n", set(TCHARS + b":")),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b@c\r\n\r\n", set(b"\t " + VISIBLE + OBS_TEXT)),
        (b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", set(TCHARS + b"()=;") - set(b"#%^`|")),
        (b"GET / HTTP/1.1\r\nHost: a:@\r\n\r\n", set(b"\t 0123456789")),
        (b"GET / HTTP/1.1\r\nHost: [::@]\r\n\r\n", set(b"0123456789abcdefABCDEF:.")),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1@1\r\n\r\n", set(b"0123456789")),
        (b"GET /%@0 HTTP/1.1\r\nHost: x\r\n\r\n", set(b"123456789abcdefABCDEF")),
        (b"GET /%0@ HTTP/1.1\r\nHost: x\r\n\r\n", set(b"123456789abcdefABCDEF")),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
def test_octets_allowed_are_the_rfcs(template, allowed, parse_head):
    accepted = {octet for octet, raw in every_octet(template) if len(parse_head(raw)) == 4}
    assert accepted == allowed


def test_percent_decoding_takes_all_but_nul(parse_head):
    for octet in range(1, 256):
        for escape in (f"%{octet:02x}", f"%{octet:02X}"):
            head = parse_head(f"GET /{escape}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert head.vars[2] == ["PATH_INFO", f"/{chr(octet)}/"]


# Limits


def test_a_line_reaches_its_limit(parse_head):
    """A request line may reach max_line_len, CRLF not counted, and no more."""
    line_len = BARE.index(b"\r\n")
    assert parse_head(BARE, max_line_len=line_len).consumed == len(BARE)
    assert parse_head(BARE, max_line_len=line_len - 1) == "TARGET_TOO_LONG"


@pytest.mark.parametrize("empty_lines", [0, 1, 2, 3, 7, 40])
def test_line_limit_after_empty_lines(empty_lines, parse_head):
    """Empty lines before the request line do not count for max_line_len, in any split."""
    raw = b"\r\n" * empty_lines + BARE
    drip = list(range(len(raw) + 1))
    assert parse_head(raw, drip, max_line_len=14).consumed == len(raw)
    assert parse_head(raw, drip, max_line_len=13) == "TARGET_TOO_LONG"
    assert parse_head(raw, max_line_len=13) == "TARGET_TOO_LONG"


def test_line_limit_does_not_wait(parse_head):
    """A request line over the limit is refused at the first octet too many."""
    assert parse_head(b"GET /" + b"a" * 15, max_line_len=20) == "INCOMPLETE"
    assert parse_head(b"GET /" + b"a" * 15 + b"\r", max_line_len=20) == "INCOMPLETE"
    assert parse_head(b"GET /" + b"a" * 16, max_line_len=20) == "TARGET_TOO_LONG"


def test_line_limit_is_not_for_field_lines(parse_head):
    """A field line may be longer than the request line's limit."""
    raw = BARE[:-2] + b"A: " + b"b" * 100 + b"\r\n\r\n"
    assert parse_head(raw, list(range(len(raw) + 1)), max_line_len=14).consumed == len(raw)


@pytest.mark.parametrize("raw", [BARE, b"\r\n\r\n" + BARE], ids=["bare", "empty lines"])
def test_a_head_reaches_its_limit(raw, parse_head):
    drip = list(range(len(raw) + 1))
    for ends in (None, drip):
        assert parse_head(raw, ends, max_head_len=len(raw)).consumed == len(raw)
        assert parse_head(raw, ends, max_head_len=len(raw) - 1) == "HEAD_TOO_LARGE"


def test_head_limit_does_not_wait(parse_head):
    """A head without an end is refused at the limit."""
    assert parse_head(BARE[:-1], max_head_len=len(BARE)) == "INCOMPLETE"
    assert parse_head(BARE[:-1], max_head_len=len(BARE) - 1) == "HEAD_TOO_LARGE"


def test_fields_reach_their_limit(parse_head):
    raw = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A_B: c\r\n" * 4 + b"\r\n"
    assert parse_head(raw, max_fields=5).consumed == len(raw)
    assert parse_head(raw, max_fields=4) == "TOO_MANY_FIELDS"
    assert parse_head(b"GET / HTTP/1.0\r\n\r\n", max_fields=0).consumed == 18


def test_content_length_limit(parse_head):
    """2^63 - 1 is the largest Content-Length."""

    def length(number):
        raw = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % number
        head = parse_head(raw)
        return head if isinstance(head, str) else head.content_length

    for number in (0, 1, 9, 10, 2**31, 2**32, 2**63 - 1):
        assert length(number) == number
    for number in (2**63, 2**63 + 1, 2**64, 2**64 + 1, 10**19, 10**20):
        assert length(number) == "BAD_CONTENT_LENGTH"


# Meaning


def test_pipelined_heads_are_read_in_turn(parse_head):
    raw = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n" + BARE + b"\r\n" + BARE
    targets = []
    while raw:
        head = parse_head(raw)
        targets.append(head.vars[1][1])
        raw = raw[head.consumed :]
    assert targets == ["/1", "/", "/"]


@pytest.mark.parametrize(
    ("version", "connection", "is_kept"),
    [
        ("1.1", [], True),
        ("1.1", ["keep-alive"], True),
        ("1.1", ["close"], False),
        ("1.1", ["close", "keep-alive"], False),
        ("1.1", ["x,close"], False),
        ("1.0", [], False),
        ("1.0", ["close"], False),
        ("1.0", ["keep-alive"], True),
        ("1.0", ["x", "y , Keep-Alive"], True),
        ("1.0", ["keep-alive", "close"], False),
    ],
)
def test_keep_alive_follows_rfc_9112(version, connection, is_kept, parse_head):
    fields = "".join(f"Connection: {value}\r\n" for value in connection)
    head = parse_head(f"GET / HTTP/{version}\r\nHost: x\r\n{fields}\r\n".encode())
    assert ("KEEP_ALIVE" in head.flags) == is_kept


def test_plain_request_has_two_flags(parse_head):
    """A request with neither body nor surprises has exactly the two flags a caller tests at once."""
    assert parse_head(BARE).flags == ["KEEP_ALIVE", "VERSION_1_1"]


@pytest.mark.parametrize(
    ("line", "fields", "is_flagged"),
    [
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], True),
        ("GET / HTTP/1.1", ["UPGRADE: h2c , WebSocket", "connection: keep-alive, upgrade"], True),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket", "Content-Length: 0"], True),
        ("GET / HTTP/1.1", ["Connection: Upgrade, close", "Upgrade: websocket"], True),
        ("GET / HTTP/1.0", ["Connection: Upgrade", "Upgrade: websocket"], False),  # RFC 9110 7.8
        ("POST / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], False),  # RFC 6455 4.2.1
        ("HEAD / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], False),
        ("GET / HTTP/1.1", ["Upgrade: websocket"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: h2c"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket/13"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket", "Content-Length: 1"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket", "Transfer-Encoding: chunked"], False),
    ],
)
def test_only_a_right_websocket_is_noticed(line, fields, is_flagged, parse_head):
    head = parse_head("\r\n".join([line, "Host: x", *fields, "", ""]).encode())
    assert ("WEBSOCKET" in head.flags) == is_flagged


@pytest.mark.parametrize(
    ("name", "is_flagged"),
    [("X_A", True), ("_", True), ("Content_Length", True), ("X-A", False), ("Proxy", True), ("X-A: _, X_A", False)],
)
def test_a_dropped_field_is_noticed(name, is_flagged, parse_head):
    head = parse_head(BARE[:-2] + f"{name}: 1\r\n\r\n".encode())
    assert ("DROPPED" in head.flags) == is_flagged


@pytest.mark.parametrize(
    ("name", "is_flagged"),
    [
        ("Forwarded", True),
        ("FORWARDED", True),
        ("X-Forwarded-For", True),
        ("x-forwarded-user", True),
        ("X-Forwarded", True),
        ("X-FORWARDEDNESS", True),
        ("X-Real-IP", True),
        ("X_Real_IP", False),  # which never reaches the vars
        ("X_Forwarded_For", False),
        ("Forwarder", False),
        ("Forwarded-For", False),
        ("X-Forwarde", False),
        ("X-Forwarder", False),
        ("X-Real-IPs", False),
        ("X-Requested-With", False),
        ("From", False),
    ],
)
def test_forwarded_fields_are_noticed(name, is_flagged, parse_head):
    """A proxy's field about the client is noticed, and no further field."""
    head = parse_head(BARE[:-2] + f"{name}: 1\r\n\r\n".encode())
    assert ("FORWARDED" in head.flags) == is_flagged
