"""gunicorn.config: the settings that there are."""

from __future__ import annotations

from aserve.compat.gunicorn.config import Config


def test_settings():
    """A program may ask for names, and set them."""
    config = Config()
    config.set("workers", "3")
    assert config.workers == 3 and "bind" in config.settings
