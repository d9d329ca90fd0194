"""Heads of http1, uwsgi and scgi in the corpus: the reason of a refusal, any split, and exact room."""

import pytest

pytestmark = pytest.mark.long_on_pypy


def cuts(raw):
    """Return the cuts: everywhere, but one cut amid a long value is like another."""
    return [*range(len(raw))] if len(raw) < 2000 else [*range(200), *range(len(raw) - 200, len(raw))]


def test_a_rejected_head_has_its_reason(rejected):
    parse, raw, expected = rejected
    assert parse(raw) == expected["error"]
    assert expected["clause"].startswith(("RFC ", "SCGI ", "Protocol.rst"))


def test_two_pieces_are_answered_like_one(any_case):
    parse, raw, _ = any_case
    whole = parse(raw)
    for cut in cuts(raw):
        assert parse(raw, [cut, len(raw)]) == whole, cut


def test_octet_by_octet(any_case):
    """A head in single octets is answered as the whole."""
    parse, raw, _ = any_case
    assert parse(raw, list(range(len(raw) + 1))) == parse(raw)


def test_every_prefix_waits(accepted):
    """A good head is never refused, nor accepted, before its last octet."""
    parse, raw, expected = accepted
    consumed = expected["consumed"]
    for length in cuts(raw[:consumed]):
        assert parse(raw[:length]) == "INCOMPLETE", length
    assert parse(raw[:consumed]).consumed == consumed


def test_exact_room_is_enough(accepted):
    parse, raw, _ = accepted
    head = parse(raw)
    needed = sum(len(name) + len(value) + 2 for name, value in head.vars)
    assert parse(raw, vars_cap=needed) == head
    if needed:
        assert parse(raw, vars_cap=needed - 1) == "VARS_FULL"
