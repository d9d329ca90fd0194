"""HPACK in C: the vectors of RFC 7541, its errors, its limits, and the library hpack on the other side."""

import pathlib
import random

import pytest
from harness.hpack import Decoder, Encoder, FieldSectionError, FieldSectionTooLarge

CORPUS = pathlib.Path(__file__).parent.parent / "corpus/hpack"
LIMIT = 8192
WWW = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
DATES = b"Mon, 21 Oct 2013 20:13:21 GMT", b"Mon, 21 Oct 2013 20:13:22 GMT"
REQUESTS = [
    WWW,
    [*WWW, (b"cache-control", b"no-cache")],
    [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        WWW[3],
        (b"custom-key", b"custom-value"),
    ],
]


def response(status, date=DATES[0]):
    """Return a response of appendix C.6."""
    fields = [(b"cache-control", b"private"), (b"date", date), (b"location", b"https://www.example.com")]
    return [(b":status", status), *fields]


# RFC 7541, appendix C.
VECTORS = {
    "c21_kept": [[(b"custom-key", b"custom-header")]],
    "c22_not_kept": [[(b":path", b"/sample/path")]],
    "c23_sensitive": [[(b"password", b"secret")]],
    "c24_indexed": [[(b":method", b"GET")]],
    "c3_requests": REQUESTS,
    "c4_requests_huffman": REQUESTS,
    "table_shrinks": [[(b"x-a", b"1")], [(b":method", b"GET")]],
}


def blocks_of(path):
    """Return the field blocks of a file of the corpus, each behind an octet with its length."""
    octets, blocks = path.read_bytes(), []
    while octets:
        blocks.append(octets[1 : 1 + octets[0]])
        octets = octets[1 + octets[0] :]
    return blocks


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_the_rfc_are_decoded(name):
    """The table of a connection goes from section to section."""
    decoder = Decoder(LIMIT)
    assert [decoder.decode(block) for block in blocks_of(CORPUS / f"accept/{name}.raw")] == VECTORS[name]


def test_responses_of_the_rfc_are_decoded():
    """Appendix C.6, whose table of 256 octets evicts entries; ours is larger, and none of its indexes is above 65."""
    first, *_ = blocks_of(CORPUS / "accept/c6_responses_huffman.raw")
    assert Decoder(LIMIT).decode(first) == response(b"302")


@pytest.mark.parametrize("path", sorted((CORPUS / "reject").glob("*.raw")), ids=lambda path: path.stem)
def test_malformed_blocks_are_refused(path):
    """The connection has to end, as the table is out of step."""
    decoder = Decoder(LIMIT)
    with pytest.raises(FieldSectionError) as caught:
        for block in blocks_of(path):
            decoder.decode(block)
    assert not isinstance(caught.value, FieldSectionTooLarge)


@pytest.mark.parametrize("is_huffman", [False, True])
@pytest.mark.parametrize("more", [0, 1, 5000])
def test_sections_have_a_limit(more, is_huffman):
    """A section counts its octets, and 32 for each field (RFC 9113 6.5.2): at the limit it passes, beyond it does not."""
    fields = [(b"a", b"x"), (b"b", b"0" * (200 - 2 * 32 - 3 + more) if is_huffman else b"\xff" * (200 - 67 + more))]
    decode = Decoder(200).decode
    if not more:
        assert decode(Encoder().encode(fields)) == fields
        return
    with pytest.raises(FieldSectionTooLarge):
        decode(Encoder().encode(fields))


def test_indexed_fields_count_towards_the_limit():
    """One octet says a field of 42; a block of 1,000 is no way to much memory."""
    assert len(Decoder(42 * 100).decode(b"\x82" * 100)) == 100
    with pytest.raises(FieldSectionTooLarge):
        Decoder(42 * 100).decode(b"\x82" * 101)


def test_every_octet_has_its_code():
    """Each value of one octet, and all of them in one."""
    values = [*(bytes([octet]) * 9 for octet in range(256)), bytes(range(256))]
    encoder, decoder = Encoder(), Decoder(LIMIT)
    for value in values:
        assert decoder.decode(encoder.encode([(b"x-a", value)])) == [(b"x-a", value)]


def test_fields_that_differ_each_time_are_not_kept():
    """An entry for them would take the room of one that is sent again."""
    encoder = Encoder()
    for name in (b"set-cookie", b"etag", b"content-length", b"x-large"):
        field = (name, b"v" * (1000 if name == b"x-large" else 10))
        assert len(encoder.encode([field])) == len(encoder.encode([field])) > 1
    assert [len(encoder.encode([(b"date", DATES[0])])) for _ in range(2)] == [24, 1]


def test_values_that_never_come_again_leave_room_to_others():
    """A request's id is an entry now and then; its name is an entry. A value that comes again is one soon."""
    encoder, decoder = Encoder(), Decoder(LIMIT)
    date = (b"date", DATES[0])
    decoder.decode(encoder.encode([date]))
    sizes = []
    for number in range(500):
        fields = [date, (b"x-request-id", b"%032d" % number)]
        block = encoder.encode(fields)
        assert decoder.decode(block) == fields and block[0] & 0x80  # the date is an index, one octet
        sizes.append(len(block))
    assert max(sizes[1:]) <= sizes[0] - 8  # the name is an index, too
    for _ in range(600):
        block = encoder.encode([(b"x-request-id", b"again")])
        assert decoder.decode(block) == [(b"x-request-id", b"again")]
    assert len(block) == 1


def test_the_client_sets_the_size_of_the_table():
    """The smallest and the last size are told at the beginning of the next section; ours is 4,096 at most (RFC 7541 4.2)."""
    encoder, decoder = Encoder(), Decoder(LIMIT)
    fields = [(b"x-a", b"1")]
    decoder.decode(encoder.encode(fields))
    for size in (1 << 20, 0, 64):
        encoder.resize(size)
    block = encoder.encode(fields)
    assert block[:3] == b"\x20\x3f\x21" and decoder.decode(block) == fields
    assert encoder.encode(fields) == block[3:]  # 36 octets are more than a quarter of 64


def test_both_sides_of_another_implementation():
    """The library hpack reads our blocks, and we read its blocks, through evictions and changes of the size."""
    hpack = pytest.importorskip("hpack")
    chance, encoder, decoder = random.Random(7541), Encoder(), Decoder(1 << 17)
    their_encoder, their_decoder = hpack.Encoder(), hpack.Decoder(max_header_list_size=1 << 20)
    names = [name for name, _ in hpack.table.HeaderTable.STATIC_TABLE] + [b"x-a", b"x-b", b"x-long-name-of-a-field"]
    values = [b"", b"GET", b"200", *(b"v%d" % i for i in range(60)), b"\xe9" * 30, b"\0\xff", b"x" * 900, b"y" * 5000]
    for _ in range(2000):
        fields = [(chance.choice(names), chance.choice(values)) for _ in range(chance.randrange(12))]
        if chance.random() < 0.05:
            size = chance.choice([0, 64, 200, 1000, 4096])
            encoder.resize(size)
            their_encoder.header_table_size = size
        assert [tuple(field) for field in their_decoder.decode(encoder.encode(fields), raw=True)] == fields
        assert decoder.decode(their_encoder.encode(fields, huffman=chance.random() < 0.7)) == fields
