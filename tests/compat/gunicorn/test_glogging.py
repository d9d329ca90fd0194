"""The names imported by a `logger_class`."""

from aserve.compat.gunicorn import glogging
from aserve.compat.moving import gunicorn_logger


def test_names_are_the_loggers_in_use():
    assert glogging.Logger is gunicorn_logger.Logger and glogging.CONFIG_DEFAULTS["version"] == 1
    assert glogging.parse_syslog_address("udp://a:1")[1] == ("a", 1) and issubclass(glogging.SafeAtoms, dict)
