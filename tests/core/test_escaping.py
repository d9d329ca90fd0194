"""Text as HTML takes it."""

from __future__ import annotations

import html

import pytest

from aserve.core.escaping import escape_html


@pytest.mark.parametrize("text", ["", "plain", "<a href=\"x\" title='y'>&amp;</a>", "&<>\"'" * 3, "é\0\n\u2028"])
def test_escape_html(text):
    """As the module html does."""
    assert escape_html(text) == html.escape(text)
