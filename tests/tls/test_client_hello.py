"""What a client's first words say: real ClientHellos, each cut and changed at every octet."""

import random
import ssl

import pytest

from aserve.tls.client_hello import MAX_HELLO_BYTES, NO_APPLICATION_PROTOCOL, ClientHello, FirstOctets, is_tls


def client_hello(protocols=(), server_name="localhost"):
    """Return what Python's own client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if protocols:
        context.set_alpn_protocols(protocols)
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=server_name)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def is_complete(data):
    return FirstOctets().feed(data)


def parse(data):
    octets = FirstOctets()
    octets.feed(data)
    return octets.parse()


HELLO = client_hello(["h2", "http/1.1"])
PARSED = ClientHello("localhost", (b"h2", b"http/1.1"))


@pytest.mark.parametrize("protocols", [[], ["h2"], ["http/1.1"], ["h2", "http/1.1"], ["x" * 255, "acme-tls/1"]])
def test_protocols_are_of_the_alpn_extension(protocols):
    """RFC 7301 3.1: the protocols are those of the ALPN extension, in order."""
    assert parse(client_hello(protocols)).protocols == tuple(name.encode() for name in protocols)


@pytest.mark.parametrize(("asked", "name"), [("A.example", "A.example"), (None, ""), ("127.0.0.1", "")])
def test_server_name_is_never_an_address(asked, name):
    """RFC 6066 3: the name is that of the extension; an address is none."""
    assert parse(client_hello(server_name=asked)).server_name == name


def test_server_name_that_is_no_text():
    """Octets of any value are a name, if one that nobody has."""
    hello = HELLO.replace(b"localhost", b"\xff\0calhost")
    assert parse(hello).server_name == "\xff\0calhost"


def test_name_of_another_kind():
    """A name that is not a host's is passed over."""
    marker = HELLO.index(b"localhost") - 3
    assert parse(HELLO[:marker] + b"\x01" + HELLO[marker + 1 :]) == PARSED._replace(server_name="")


def test_several_records_are_one_message():
    """RFC 8446 5.1: a message may come in several records, however small."""
    message = HELLO[5:]
    for size in (1, 3, 4, 50, len(message) - 1):
        pieces = [message[start : start + size] for start in range(0, len(message), size)]
        records = b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)
        assert is_complete(records) and parse(records) == PARSED
        assert not is_complete(records[:-1])


def test_octet_by_octet():
    """It is whole with its last octet, asks for the same, and each octet is looked at once, in records of one octet as well."""
    records = b"".join(b"\x16\x03\x01\0\1%c" % octet for octet in HELLO[5:])
    for raw in (HELLO, records):
        octets = FirstOctets()
        wholes = [octets.feed(raw[place : place + 1]) for place in range(len(raw))]
        assert wholes == [False] * (len(raw) - 1) + [True]
        assert octets.parse() == PARSED and octets.data == raw
    looked_at = []

    class Data(bytearray):
        def __getitem__(self, place):
            found = super().__getitem__(place)
            looked_at.append(len(found))
            return found

    octets = FirstOctets()
    octets.data = Data()
    for place in range(len(records)):
        octets.feed(records[place : place + 1])
    assert sum(looked_at) < 5 * len(records)


@pytest.mark.parametrize("octets", [b"\x15\x03\x03\x00\x02", b"\x16\x03\x01\x00\x00"])
def test_records_of_something_else(octets):
    """What follows and is no part of a message is not waited behind; nor is an empty record."""
    start = HELLO[:3] + b"\x00\x0a" + HELLO[5:15]
    assert not is_complete(start)
    assert is_complete(start + octets) and is_complete(octets)
    assert parse(start + octets) == ClientHello()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(HELLO, True, id="hello"),  # it has random octets, an id must not
        (b"\x16", True),
        (b"\x16\x03", True),
        (b"\x16\x02\x00", False),  # no version that there ever was
        (b"GET / HTTP/1.1\r\n", False),
        (b"\x80\x2e\x01\x03\x01", False),  # a ClientHello of SSL 2
        (b"\x15\x03\x03\x00\x02", False),  # an alert
    ],
)
def test_is_tls_knows_a_handshake_record(data, expected):
    """RFC 8446 5.1: a client begins with a handshake record."""
    assert is_tls(data) is expected


def test_cut_short_hellos_ask_for_nothing():
    """A hello is complete with the last octet; a hello cut anywhere raises nothing."""
    for end in range(1, len(HELLO)):
        assert not is_complete(HELLO[:end])
        assert parse(HELLO[:end]) == ClientHello()
    assert is_complete(HELLO) and parse(HELLO) == PARSED
    assert is_complete(HELLO + b"more")


def test_too_large_hellos_are_not_awaited():
    """OpenSSL refuses a hello beyond the limit, or not."""
    head = b"\x16\x03\x01\xff\xff\x01\x00\xff\xff"
    assert not is_complete(head + bytes(MAX_HELLO_BYTES - len(head)))
    assert is_complete(head + bytes(MAX_HELLO_BYTES - len(head) + 1))


def test_inner_lengths_never_lead_outside():
    """Whatever the lengths inside say, reading stays within the octets and raises nothing."""
    dice = random.Random(1)
    for position in range(len(HELLO)):
        for value in (0, 1, 255, dice.randrange(256)):
            changed = HELLO[:position] + bytes([value]) + HELLO[position + 1 :]
            assert isinstance(is_complete(changed), bool)
            assert isinstance(parse(changed), ClientHello)


def test_other_messages_ask_for_nothing():
    assert parse(HELLO[:5] + b"\x02" + HELLO[6:]) == ClientHello()
    assert is_complete(HELLO[:5] + b"\x02")


def test_alert_is_one_fatal_record():
    """RFC 8446 6 and RFC 7301 3.2: the alert is one record, fatal, of the number 120, as OpenSSL reads it."""
    incoming = ssl.MemoryBIO()
    session = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="a")
    incoming.write(NO_APPLICATION_PROTOCOL)
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        session.do_handshake()
