"""What the tests of HTTP/1.1 share."""

import pytest
from harness.http1 import PARSERS

from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits


@pytest.fixture(params=PARSERS)
def new_http1(request):
    """Make a protocol: new_http1(**limits)."""
    return lambda **limits: PROTOCOLS["http", request.param](Limits(**limits))()
