"""aserve.h and the compiled module: each result code has a status and a text, each name a type."""

import ast
import pathlib
import re

import pytest

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.checkout

ROOT = pathlib.Path(__file__).parents[2]
# "ASERVE_BAD_TARGET = -3, /* 400 RFC 9112 3.2 */": name, code, status, reason
CODES = re.findall(r"(ASERVE_\w+) = (-\d+), +/\* +(\d+) (.*) \*/", (ROOT / "cparsers" / "aserve.h").read_text())


def text_of(code: int) -> str:
    """Return the parser's text for a code."""
    return ffi.string(lib.aserve_strerror(code)).decode("ascii")


def test_header_is_read():
    """The enum is read from the header without a gap."""
    assert [int(code) for _, code, _, _ in CODES] == list(range(-1, lib.ASERVE_LAST_ERROR - 1, -1))


@pytest.mark.parametrize(("name", "code", "status", "reason"), CODES)
def test_each_code_has_status_and_text(name, code, status, reason):
    """Each code has the comment's status, and a text with the comment's clause."""
    assert getattr(lib, name) == int(code)
    assert lib.aserve_status(int(code)) == int(status)
    text = text_of(int(code))
    assert text and not text.endswith(".")
    clause = re.match(r"RFC (\d+) ([\d.]+)", reason)
    if clause:
        assert f"(RFC {clause[1]} section {clause[2]})" in text


def test_texts_of_codes_all_differ():
    assert len({text_of(int(code)) for _, code, _, _ in CODES}) == len(CODES)


@pytest.mark.parametrize("code", [0, 1, 400, lib.ASERVE_LAST_ERROR - 1, -(2**31), 2**31 - 1])
def test_an_unknown_code_has_no_status(code):
    """An unknown number has no status, and a text for the case."""
    assert lib.aserve_status(code) == 0
    assert text_of(code) == "unknown result code"


def test_every_code_has_an_input(load_corpus):
    """A file of the corpus causes each result code."""
    folders = ["http1/reject", "chunked/reject", "uwsgi/reject", "scgi/reject"]
    reached = {"ASERVE_" + case.expected["error"] for folder in folders for case in load_corpus(folder).values()}
    assert {name for name, _, _, _ in CODES} - reached == {"ASERVE_INCOMPLETE"}


@pytest.mark.parametrize(
    ("code", "setting"), [(lib.ASERVE_TOO_MANY_VARS, "--max-fields"), (lib.ASERVE_PACKET_TOO_LARGE, "--max-head")]
)
def test_limit_names_its_setting(code, setting):
    """A reader of "the packet is over a limit" also reads the limit's setting."""
    assert setting in text_of(code)


def test_stub_names_everything():
    """The stub has exactly the names of the compiled module."""
    stub = ast.parse((ROOT / "aserve" / "_cparsers.pyi").read_text())
    (body,) = [node.body for node in stub.body if getattr(node, "name", "") == "_Lib"]
    names = {getattr(node, "name", None) or node.target.id for node in body}
    assert names == {name for name in dir(lib) if not name.startswith("__")}
