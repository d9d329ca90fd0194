"""What the tests of refused settings share."""

from __future__ import annotations

import pytest


def error_of(function, *args, **kwargs):
    """Return the one line that the call's ConfigError or ValueError says."""
    with pytest.raises(ValueError) as caught:
        function(*args, **kwargs)
    text = str(caught.value)
    assert text and "\n" not in text
    return text
