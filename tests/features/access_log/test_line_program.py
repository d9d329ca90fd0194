"""A format for native/lines.c: its values are asked for once a second, or are Python's."""

import socket
import threading
import time

import pytest

from aserve.features.access_log.line_program import KINDS, new_program

EPOCH = 1.8e9 + 0.25


def program(text, worker=None):
    found = new_program(text, lambda: EPOCH, worker)
    assert found is not None
    return found


def named(pieces):
    return [(KINDS[kind], argument, text.decode(), is_column) for kind, argument, text, is_column in pieces]


def test_pieces_have_the_text_before_them():
    """Each value has the text before it; values equal for all requests are text."""
    pieces, is_json, _, _, _ = program("a %(h)s %(l)s%(worker) é%({X-y}i)s %(var.QUERY_STRING) %(hostname)", 3)
    assert named(pieces) == [
        ("addr", "", "a ", False),
        ("field", "HTTP_X_Y", " -3 é", False),
        ("query_or_none", "", " ", False),
        ("text", 0, f" {socket.gethostname()}\n", False),
    ]
    assert not is_json and len(set(KINDS)) == len(KINDS) == 28


@pytest.mark.parametrize(
    ("text", "found"),
    [("%(rsize)", ("size", "")), ("%(user)", ("user", "REMOTE_USER")), ("%(request_id)", ("request_id", "HTTP_X_REQUEST_ID")), ("%(f)s", ("field", "HTTP_REFERER"))],
)  # fmt: skip
def test_values_name_their_variables(text, found):
    """Each value is C's own, with the variable of its source."""
    assert named(program(text)[0])[0][:2] == found


@pytest.mark.parametrize(
    "text",
    ["%({x}o)s", "%({x-forwarded-for}i)s", "%({forwarded}i)s", "%(h)s\n%(h)s", "%(var.€)", "".join(f"%({{x{i}}}i)s" for i in range(31))],
)  # fmt: skip
def test_formats_that_are_python_s(text):
    """Python's are a field of the response, words of proxies, a name that no client can send, more than one line, and too many names."""
    assert new_program(text, lambda: EPOCH) is None


def test_a_second_has_its_texts():
    """A second has its common texts, its begin and its end."""
    pieces, _, _, on_second, _ = program("%(t)s%(ltime)%(time)%(epoch)%(ctime)")
    begins, ends, texts = on_second(10.0)
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(1.8e9 + 10))
    assert (begins, ends) == (9.75, 10.75)
    assert texts == (
        f"[{stamp}]".encode(),
        stamp.encode(),
        b"1800000010",
        b"1800000010",
        time.asctime(time.localtime(1.8e9 + 10)).encode(),
    )
    assert [argument for kind, argument, *_ in named(pieces) if kind == "second"] == [0, 1, 2, 3, 4]


def test_json_values_have_names():
    """A value has its name before it, and the preceding part is a text."""
    pieces, is_json, _, on_second, _ = program("json", 3)
    assert is_json and on_second(0.0)[2] == (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1.8e9)).encode(),)
    found = named(pieces)
    assert found[0] == ("second", 0, '{"timestamp": "', False) and found[-1] == ("text", 0, "}\n", False)
    assert ("status_or_none", "", ', "http.response.status_code": ', True) in found
    assert any(kind == "text" and ', "aserve.worker": 3, "process.pid": ' in text for kind, _, text, _ in found)
    assert program('{"a": "%(h)s"}')[1] is True


def test_names_of_threads():
    """An ended thread has its number."""
    *_, name_of = program("%(thread)")
    assert name_of(threading.get_ident()) == threading.current_thread().name.encode()
    assert name_of(1) == b"1"


def test_the_second_of_a_beginning():
    """Times of the beginning have its second; a format with both seconds is Python's."""
    _, _, of_start, on_second, _ = program("%(start.ltime) %(start.time) %(h)s")
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(1.8e9 + 10))
    assert of_start and on_second(10.0)[2] == (stamp.encode(), b"1800000010")
    assert new_program("%(start.ltime) %(ltime)", lambda: EPOCH) is None
