"""A bug of aserve's own is logged, and its caller goes on."""

import pytest

from aserve.core.guard import guard


@pytest.mark.provokes("internal error;")
def test_guard_logs_a_survivable_exception(caplog):
    """Only an exception that a program may survive is caught; the result tells whether there was one."""
    found = []
    assert guard(lambda: found.append(1)) and found == [1] and not caplog.records
    assert guard(found.append, 2) and found == [1, 2] and not caplog.records
    assert not guard(lambda: 1 / 0)
    assert "internal error; please report this as a bug in aserve" in caplog.text and "ZeroDivisionError" in caplog.text
    with pytest.raises(KeyboardInterrupt):
        guard(interrupt)


def interrupt():
    raise KeyboardInterrupt
