"""A line told once in the log."""

import logging

from aserve.core.log_once import LogOnce


def test_a_line_is_said_once(caplog):
    """Once, at its level, until it is reset."""
    line = LogOnce(logging.getLogger("aserve.x"), logging.WARNING)
    assert not line.is_said
    for number in range(3):
        line.log("number %d", number)
        assert line.is_said
    line.reset()
    line.log("number %d", 3)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "number 0"),
        ("WARNING", "number 3"),
    ]
