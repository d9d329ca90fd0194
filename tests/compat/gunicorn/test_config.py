"""gunicorn.config: the known settings."""

from aserve.compat.gunicorn.config import Config


def test_settings_can_be_asked_and_set():
    config = Config()
    config.set("workers", "3")
    assert config.workers == 3 and "bind" in config.settings
