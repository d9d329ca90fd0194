"""Text in HTML's form, and paths in uWSGI's reading."""

import html

import pytest

from aserve.core.escaping import decode_path, escape_html


@pytest.mark.parametrize("text", ["", "plain", "<a href=\"x\" title='y'>&amp;</a>", "&<>\"'" * 3, "é\0\n\u2028"])
def test_escape_html_equals_the_module_html(text):
    assert escape_html(text) == html.escape(text)


@pytest.mark.parametrize(
    ("path", "decoded"),
    [
        ("/a/./b", "/a/b"), ("/a/../b", "/b"), ("/../../b", "/b"), ("/a/b/..", "/a/"), ("/a/.", "/a/"), ("/a//b", "/a//b"), ("/a#b", "/a"),
        ("/%41%zz", "/A"), ("a/b", "a/b"), ("/..a/b..", "/..a/b.."), ("/..", ""), ("/a%2fb/../c", "/a/c"), ("/a//../b", "/a/b"),
        ("/%%61%4", "/%61"), ("../b", "/b"), ("./b", "/b"), ("/%2e%2e/b", "/../b"),
    ],
)  # fmt: skip
def test_paths_lose_dots_and_escapes(path, decoded):
    assert decode_path(path) == decoded
