"""A request's name for a reader after a crash."""

import pytest

from aserve._cparsers import ffi, lib


def describe(*pairs: str, is_cut: bool = False) -> str:
    """Return an entry's text for these vars, perhaps behind a longer one."""
    entry = ffi.new("in_flight_entry *", {"text": b"x" * lib.IN_FLIGHT_TEXT_CAP, "since": 7})
    vars = "".join(part + "\0" for part in pairs).encode("ascii")
    vars = vars[:-1] if is_cut else vars
    with_guard = ffi.new("char[]", vars)  # of the exact size, but for a NUL
    lib.in_flight_describe(entry, with_guard, len(vars))
    assert entry.since == 7
    return ffi.string(entry.text, lib.IN_FLIGHT_TEXT_CAP).decode("ascii")


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ((), "- -"),
        (("REQUEST_METHOD", "GET", "REQUEST_URI", "/x?y", "PATH_INFO", "/x"), "GET /x?y"),
        (("PATH_INFO", "/x", "QUERY_STRING", "", "REQUEST_URI", "/x?y", "REQUEST_METHOD", "PUT"), "PUT /x?y"),
        (("PATH_INFO", "/x", "REQUEST_METHOD", "GET"), "GET /x"),
        (("HTTP_A", "REQUEST_URI", "HTTP_B", "/no"), "- -"),  # a value is no name
        (("REQUEST_METHOD", "", "REQUEST_URI", ""), " "),
    ],
)
def test_the_text_has_method_and_target(pairs, text, is_cut):
    assert describe(*pairs, is_cut=is_cut) == text


def test_long_targets_are_cut_off():
    assert describe("REQUEST_METHOD", "GET", "REQUEST_URI", "/" + "a" * 200) == "GET /" + "a" * 83
    assert describe("REQUEST_METHOD", "M" * 200, "REQUEST_URI", "/") == "M" * 88
    assert describe("REQUEST_METHOD", "GET", "REQUEST_URI", "/" + "a" * 83) == "GET /" + "a" * 83
    assert describe("REQUEST_METHOD", "GET", "REQUEST_URI", "/" + "a" * 82) == "GET /" + "a" * 82


def test_begin_and_end():
    """The time tells whether there is a request."""
    entry = ffi.new("in_flight_entry *")
    lib.in_flight_set(entry, 1 << 40)
    assert entry.since == 1 << 40
    lib.in_flight_set(entry, 0)
    assert entry.since == 0
