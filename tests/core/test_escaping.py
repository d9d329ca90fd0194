"""Text as HTML takes it, and paths as uWSGI reads them."""

from __future__ import annotations

import html

import pytest

from aserve.core.escaping import decode_path, escape_html


@pytest.mark.parametrize("text", ["", "plain", "<a href=\"x\" title='y'>&amp;</a>", "&<>\"'" * 3, "é\0\n\u2028"])
def test_escape_html(text):
    """As the module html does."""
    assert escape_html(text) == html.escape(text)


@pytest.mark.parametrize(
    ("path", "decoded"),
    [
        ("/a/./b", "/a/b"), ("/a/../b", "/b"), ("/../../b", "/b"), ("/a/b/..", "/a/"), ("/a/.", "/a/"), ("/a//b", "/a//b"), ("/a#b", "/a"),
        ("/%41%zz", "/A"), ("a/b", "a/b"), ("/..a/b..", "/..a/b.."), ("/..", ""), ("/a%2fb/../c", "/a/c"), ("/a//../b", "/a/b"),
        ("/%%61%4", "/%61"), ("../b", "/b"), ("./b", "/b"), ("/%2e%2e/b", "/../b"),
    ],
)  # fmt: skip
def test_paths(path, decoded):
    """Segments of dots go, and what is escaped is decoded."""
    assert decode_path(path) == decoded
