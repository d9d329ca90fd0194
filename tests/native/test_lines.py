"""Lines of the access log in C, beside LineFormat."""

import re
import threading

import pytest
from harness.examples import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from aserve.core.ends import Ended
from aserve.core.exchange import ANSWERED, CLIENT_GONE
from aserve.features.access_log.line_program import new_program
from aserve.features.access_log.log_format import LineFormat
from aserve.features.access_log.log_line import ATOMS

native = pytest.importorskip("aserve._native", reason="aserve._native is not built here")

EPOCH = 1.7e9 + 0.25
OWN = ["REQUEST_METHOD", "REQUEST_URI", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL"]
# Lines of uWSGI show more, written by Python alone.
PYTHONS_OWN = {
    "cl",
    "core",
    "counts",
    "headers",
    "hsize",
    "pktsize",
    "remote_user",
    "sent",
    "switches",
    "tmicros",
    "tmsecs",
    "vars",
}
OF_START = {"start.ctime", "start.ltime", "start.time"}  # not beside times of the end
NAMES = [
    "HTTP_HOST", "HTTP_USER_AGENT", "HTTP_REFERER", "HTTP_X_REQUEST_ID", "HTTP_AUTHORIZATION", "HTTP_TRACEPARENT", "CONTENT_TYPE", "HTTP_X",
    "REMOTE_USER", "REMOTE_ADDR", "DOCUMENT_URI",
]  # fmt: skip
FORMATS = [
    "combined", "common", "json", '{"a": "%({user-agent}i)s", "r": "%(r)s", "d": %(duration)s}', "%(time) %(epoch) %(ctime) %(t)s",
    "%({x}i)s%({content-type}i)s %(var.REMOTE_ADDR)%(var.PATH_INFO)%(var.QUERY_STRING)é%%",
    " ".join(f"%({name})" for name in sorted(ATOMS - PYTHONS_OWN - OF_START) if len(name) > 1),
]  # fmt: skip
# Escaped characters, and plain neighbours; long enough for eight octets at once, and for more than shown in a line.
TEXT = st.one_of(
    st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=20),
    st.text('\x01\x08\n\r\t\x1f !"#[\\]~\x7f\x80\xff/?ab', max_size=40),
    st.sampled_from(["", "-", "a" * 8192 + '"', '"' * 8193, "a" * 129]),
    st.sampled_from(["Basic YTpi", "basic", "Bearer x", "/a?b?c", "HTTP/1.1", "HTTP"]),
)
ID = st.sampled_from(["", "0123456789abcdef0123456789abcdef"])
SECONDS = st.floats(0.0, 1000.0)


@st.composite
def ends(draw):
    """Draw a request: vars, end, and changes in the vars."""
    is_front = draw(st.booleans())
    fields = draw(
        st.lists(st.tuples(st.sampled_from(NAMES + OWN * is_front), TEXT), min_size=0 if is_front else 1, max_size=6)
    )
    pairs = fields if is_front else [*((name, draw(TEXT)) for name in OWN), *fields]
    changes = None if is_front else draw(st.none() | st.dictionaries(st.sampled_from(["HTTP_X", "HTTP_REFERER"]), TEXT))
    began, took, ran = draw(SECONDS), draw(SECONDS), draw(SECONDS)
    arrived_at = draw(st.sampled_from([0.0, 1.0 + began]))
    return (
        pairs, is_front, draw(st.sampled_from(["", "-", "192.0.2.1", "2001:db8::1"])), changes, draw(ID), draw(st.sampled_from([0, 200, 404, 999])),
        draw(st.integers(0, 1 << 40)), draw(st.sampled_from([ANSWERED, CLIENT_GONE])), arrived_at, 1.0 + began + took,
        1.0 + began + took + ran, draw(st.sampled_from([threading.get_ident(), 4096])),
    )  # fmt: skip


def as_records(pairs, is_front, addr, changes, made_id, status, size, end, arrived_at, began_at, ended_at, thread_id):
    """Return Python's records of such a request."""
    later = [("HTTP_X_REQUEST_ID", made_id)] * bool(made_id) + list((changes or {}).items())
    vars = "\0".join(part for pair in (*pairs, *later) for part in pair)
    return Ended(vars, is_front, addr, status, size, end, arrived_at, began_at, 0.0, ended_at, thread_id, False, b"")


def in_c(pairs, is_front, addr, changes, made_id, *rest):
    """Return C's records of such a request."""
    vars = "\0".join(part for pair in pairs for part in pair).encode("latin-1")
    return (vars, is_front, addr, changes, made_id.encode(), rest[0], rest[1], rest[2] != ANSWERED, *rest[3:], rest[-1])


def without_millis(line):
    """Leave out digits a sum of floats may round either way."""
    return re.sub(r"\.\d{3}Z", "Z", line)


@pytest.mark.parametrize("text", FORMATS)
@settings(EXAMPLES, max_examples=25)
@given(found=st.lists(ends(), max_size=2))
def test_the_same_lines(text, found):
    """Of any request in any format; where C makes no line, C says so, seldom: for JSON beyond ASCII, Basic authentication, a named request without
    vars.
    """
    program, found = new_program(text, lambda: EPOCH, 3), [each for each in found for _ in "ab"]
    octets, are_plain = native.make_lines(program, [in_c(*each) for each in found])
    plain = [as_records(*each) for each, is_plain in zip(found, are_plain) if is_plain]
    lines = LineFormat(text, 3).lines(plain, EPOCH)
    assert list(map(without_millis, octets.decode().splitlines(True))) == list(map(without_millis, lines))
    for each, is_plain in zip(found, are_plain):
        vars = as_records(*each)[0]
        assert is_plain or not vars.isascii() or "basic" in vars.lower() or not each[0]


def test_names_that_python_shows():
    """C makes a line of any names but these."""
    names = {name for name in ATOMS if new_program(f"%({name})", lambda: EPOCH) is None}
    assert {name for name in names if len(name) > 1} == PYTHONS_OWN


def test_a_second_is_asked_for_once():
    """The second is asked for again when over, or when the clock was put back."""
    asked, (pieces, is_json, of_start, on_second, names) = [], new_program("%(time) %(h)s", lambda: EPOCH)
    program = pieces, is_json, of_start, lambda at: (asked.append(at), on_second(at))[1], names
    end = ([("A", "b")], True, "", None, "", 200, 0, ANSWERED, 0.0, 0.0)
    times = [1.0, 1.7, 1.8, 2.7, 2.8, 0.9]
    octets, _ = native.make_lines(program, [in_c(*end, at, 1) for at in times])
    assert octets.decode().split("\n")[:-1] == [f"{int(EPOCH + at)} -" for at in times]
    assert asked == [1.0, 1.8, 2.8, 0.9]


def test_the_second_of_a_beginning():
    """A format with times of the beginning has the second of the arrival, if known."""
    end = ([("A", "b")], True, "", None, "", 200, 0, ANSWERED)
    ends = [(*end, arrived_at, 5.0, 9.0, 1) for arrived_at in (1.5, 1.7, 3.1, 0.0)]
    octets, _ = native.make_lines(new_program("%(start.time)", lambda: EPOCH), [in_c(*each) for each in ends])
    lines = LineFormat("%(start.time)").lines([as_records(*each) for each in ends], EPOCH)
    assert octets.decode().splitlines(True) == lines == [f"{int(EPOCH + at)}\n" for at in (1.5, 1.7, 3.1, 9.0)]


def thread_lines(threads):
    """Return the lines of requests, and the threads asked for: `threads`: (number, key)."""
    asked, (pieces, is_json, of_start, on_second, _) = [], new_program("%(thread)", lambda: EPOCH)
    program = pieces, is_json, of_start, on_second, lambda thread_id: (asked.append(thread_id), b"%d" % thread_id)[1]
    end = ([("A", "b")], True, "", None, "", 200, 0, ANSWERED, 0.0, 0.0, 1.0)
    octets, _ = native.make_lines(program, [in_c(*end, number)[:-1] + (key,) for number, key in threads])
    return list(map(int, octets.split())), asked


def test_the_names_of_threads():
    """Each is asked for once, as long as there is room for all."""
    threads = [(0x7F0000000000 + number * 0x801000, 17 + number) for number in range(256)]
    numbers = [number for number, _ in threads]
    assert thread_lines(threads * 3) == (numbers * 3, numbers)


@pytest.mark.parametrize("count", [257, 1000])
@pytest.mark.parametrize("first", [1, (1 << 64) - 1000])
def test_more_threads_than_are_remembered(count, first):
    """Each line has the name of the right thread: a forgotten name is asked for again."""
    threads = [(number, first + number) for number in range(count)]
    assert thread_lines(threads * 2)[0] == [number for number, _ in threads] * 2


def test_a_thread_with_the_number_of_an_earlier_one():
    """The name is asked for: the system gives the number of an ended thread to the next."""
    assert thread_lines([(7, 1), (7, 1), (7, 2), (7, 2)]) == ([7] * 4, [7, 7])


@pytest.mark.parametrize("count", [30, 31, 32, 1000])
def test_as_many_variables_as_there_is_room_for(count):
    """Each variable is shown, and a further variable is refused: Authorization has a separate place."""
    fields = [(f"HTTP_X{number}", str(number)) for number in range(count)]
    program = tuple((3, name, b" ", False) for name, _ in fields), False, False, lambda at: (0.0, 9.0, ()), None
    ends = [in_c(fields, True, "", None, "", 200, 0, ANSWERED, 0.0, 0.0, 1.0, 1)]
    if count < 32:
        assert native.make_lines(program, ends)[0].decode().split() == [value for _, value in fields]
    else:
        with pytest.raises(TypeError):
            native.make_lines(program, ends)


def test_requests_about_as_long_as_the_one_that_is_kept():
    """A repeated request has a line, whether there is room to keep the line or not."""
    program = (((3, "HTTP_X", b"", False),), False, False, lambda at: (0.0, 9.0, ()), None)
    for size in [*range(2030, 2060), 8192]:
        ends = [
            in_c([("HTTP_X", octet * size)], True, "", None, "", 200, 0, ANSWERED, 0.0, 0.0, 1.0, 1)
            for octet in "aabba"
        ]
        assert native.make_lines(program, ends)[0].decode() == "".join(octet * size for octet in "aabba")


def test_the_largest_numbers():
    """A size of as many octets as there can be is shown with all digits."""
    ends = [in_c([("A", "b")], True, "", None, "", 200, (1 << 63) - 1, ANSWERED, 0.0, 0.0, 1.0, 1)]
    assert native.make_lines(new_program("%(size)", lambda: EPOCH), ends)[0] == b"9223372036854775807\n"


@pytest.mark.parametrize("vars", [b"", b"A\0b", b"A\0b\0" * 5])
def test_vars_that_are_unusual(vars):
    """Such lines are Python's."""
    end = (vars, False, "", None, b"", 200, 0, False, 0.0, 0.0, 1.0, 1, 1)
    assert native.make_lines(new_program("common", lambda: EPOCH), [end]) == (b"", [False])


@pytest.mark.parametrize(
    "program", [(), ((), False, None), (((99, "", b"", False),), False, None, None), (((-1, "", b"", False),), False, None, None),
                (((0, None, b"", False),), False, None, None), (((3, "€", b"", False),), False, None, None),
                (((1, 1 << 32, b"", False),), False, None, None), *((((kind, 0, b"", False),), False, None, None) for kind in (3, 4, 5))]
)  # fmt: skip
def test_programs_that_are_none(program):
    """Bad programs are refused."""
    with pytest.raises((TypeError, SystemError, OverflowError)):
        native.make_lines(program, [])


@pytest.mark.parametrize("second", [None, (0.0, 1.0), (0.0, 9.0, [])])
def test_a_second_that_is_none(second):
    """A bad second is an error, whoever the maker."""
    pieces, is_json, of_start, _, names = new_program("common", lambda: EPOCH)
    end = in_c([("A", "b")], True, "", None, "", 200, 0, ANSWERED, 0.0, 0.0, 1.0, 1)
    with pytest.raises((TypeError, SystemError)):
        native.make_lines((pieces, is_json, lambda at: second, names), [end])


@pytest.mark.parametrize(("at", "millis"), [(0.0, "000"), (0.9996, "999"), (1.0, "999"), (1e12, "999")])
def test_millis_of_a_second_of_any_length(at, millis):
    """There are three digits, also where Python's second is none."""
    end = in_c([("A", "b")], True, "", None, "", 200, 0, ANSWERED, 0.0, 0.0, at, 1)
    program = ((2, 0, b"", False),), False, False, lambda at: (0.0, 1e15, ()), None
    assert native.make_lines(program, [end])[0].decode() == millis
