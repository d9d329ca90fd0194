"""Whatever happens to workers, and whenever: a request is answered once, or its connection is closed by a killed worker."""

import pytest
from harness.combining import long
from harness.interpreter import NEEDS_LINUX
from harness.mayhem import CLIENTS, SECONDS, start_mayhem

pytestmark = [NEEDS_LINUX, pytest.mark.timeout(120 + 2 * SECONDS), pytest.mark.any_parser, pytest.mark.long_on_pypy]


@pytest.mark.parametrize(("lane", "kills"), [("auto", True), long(("off", True)), ("auto", False)])
def test_each_request_is_answered_once(start_workers, tmp_path, lane, kills):
    """A request is answered, or lost with its killed worker. None is begun twice, answered 503, or left without an end."""
    mayhem = start_mayhem(start_workers, tmp_path, "--lane", lane, kills=kills)
    mayhem.run()
    print(mayhem.describe())
    assert mayhem.faults() == [], (mayhem.describe(), mayhem._process.log[-6000:])
    # A client has one request at a time, so each kill costs at most one request of each.
    assert mayhem.answered and len(mayhem.failed) <= CLIENTS * len(mayhem.killed)
