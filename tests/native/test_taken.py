"""C takes the same vars out as Python: the words of proxies about their client, and the request's name."""

import pytest
from harness.environs import LINE, block
from harness.examples import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from aserve.core.exchange import REQUEST_LINE_COUNT, Exchange
from aserve.proxies.forwarded import strip_forwarded
from aserve.wsgi import request_id

VARS_MAX = 8192  # native/taken.h
FORWARDED, ID = 1, 2

NAMES = st.sampled_from(
    [
        "HTTP_HOST", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED", "HTTP_X_FORWARDEDLY", "HTTP_FORWARDED",
        "HTTP_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_X_REAL_IPS", "HTTP_X_FORWARDE", "CONTENT_TYPE", "HTTP_", "HTTP_X_REQUEST_ID",
    ]
)  # fmt: skip
VALUES = st.sampled_from(["", "192.0.2.1", "HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REQUEST_ID"]) | st.text(
    st.characters(min_codepoint=1, max_codepoint=255), max_size=10
)
LINES = st.tuples(*(st.tuples(st.just(name), VALUES) for name, _ in LINE))


def left_by_twin(vars):
    exchange = Exchange(vars)
    strip_forwarded(exchange)
    return exchange.vars


def left_by_native(native, vars, own_count=REQUEST_LINE_COUNT, what=FORWARDED):
    taken = native.take_out(vars.encode("latin-1"), own_count, what)
    return None if taken is None else taken[0].decode("latin-1")


def id_by_twin(vars):
    at = request_id._find(vars)
    return vars[at + 1 :].split("\0", 2)[1].encode("latin-1") if at >= 0 else None


@settings(EXAMPLES, max_examples=100)
@given(LINES, st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_any_fields_are_taken_as_by_the_twin(native, line, fields):
    vars = block([*line, *fields])
    assert left_by_native(native, vars) == left_by_twin(vars)
    others = [pair for pair in fields if pair[0] != "HTTP_X_REQUEST_ID"]
    taken = native.take_out(vars.encode("latin-1"), REQUEST_LINE_COUNT, ID)
    taken_both = native.take_out(vars.encode("latin-1"), REQUEST_LINE_COUNT, FORWARDED | ID)
    if len(fields) - len(others) > 1:
        assert taken is taken_both is None  # Python joins the values
    else:
        rest = block([*line, *others])
        assert taken == (rest.encode("latin-1"), id_by_twin(vars))
        assert taken_both == (left_by_twin(rest).encode("latin-1"), taken[1])


@pytest.mark.parametrize("size", [VARS_MAX - 1, VARS_MAX, VARS_MAX + 1])
def test_a_long_block(native, size):
    """A block without room is not plain."""
    vars = block([*LINE, ("HTTP_X_REAL_IP", "a"), ("HTTP_A", "")])
    vars += "x" * (size - len(vars))
    assert left_by_native(native, vars) == (left_by_twin(vars) if size <= VARS_MAX else None)


@pytest.mark.parametrize("vars", ["", "A", block(LINE) + "\0HTTP_A"])
def test_a_block_that_is_cut_off(native, vars):
    """No parser writes such a block: the block stays unchanged, or is not plain."""
    assert left_by_native(native, vars) in (None, vars)
