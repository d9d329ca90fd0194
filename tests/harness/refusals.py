"""Shared parts of the tests of settings."""

from typing import Any

import pytest

from aserve.settings import EngineSettings


def error_of(function, *args, **kwargs):
    """Return the one line of the call's ConfigError or ValueError."""
    with pytest.raises(ValueError) as caught:
        function(*args, **kwargs)
    text = str(caught.value)
    assert text and "\n" not in text
    return text


def defaults_of(settings: type[EngineSettings]) -> dict[str, Any]:
    """Return the defaults of a feature's own settings."""
    engine = {row.name for row in EngineSettings.rows()}
    return {row.name: getattr(settings(), row.name) for row in settings.rows() if row.name not in engine}
