"""Who is told of the end of a request: nobody, one, or several in their order."""

from __future__ import annotations

from harness.fakes import FakeAccessLog, FakeConnection

from aserve.errors import RequestRefused
from aserve.exchange import Exchange
from aserve.request_log import as_one


def test_nobody_and_one():
    """Where there is one, nothing stands between it and the end of a request."""
    log = FakeAccessLog()
    assert as_one() is as_one(None) is None and as_one(None, log) is log


def test_several():
    """Each is told of each end."""
    first, second = FakeAccessLog(), FakeAccessLog()
    both = as_one(first, second)
    both.write(Exchange("", 0))
    both.write_refused(FakeConnection(), None, RequestRefused(413, "large"))
    assert first.codes == second.codes == [0, 413]
