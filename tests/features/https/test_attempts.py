"""The challenge of each attempt."""

import pytest

from aserve.features.https.attempts import first_kind, second_kind
from aserve.features.https.settings import HTTP_01, TLS_ALPN_01

BOTH, ONE = [TLS_ALPN_01, HTTP_01], [HTTP_01]
UNREACHED = {"kind": "connection", "detail": "refused", "challenge": TLS_ALPN_01}
UNOFFERED = {"kind": "no-challenge", "detail": "it offers http-01", "challenge": ""}


@pytest.mark.parametrize(
    ("kinds", "failures", "kind"),
    [(BOTH, 0, TLS_ALPN_01), (BOTH, 1, HTTP_01), (BOTH, 2, TLS_ALPN_01), (ONE, 0, HTTP_01), (ONE, 7, HTTP_01)],
)
def test_the_first_attempt(kinds, failures, kind):
    """The first attempt is of the better kind; after failures the two take turns."""
    assert first_kind(kinds, failures) == kind


@pytest.mark.parametrize(
    ("kinds", "failures", "result", "kind"),
    [
        (BOTH, 0, {}, None),  # success
        (BOTH, 0, UNREACHED, HTTP_01),  # a firewall lets the other port through
        (ONE, 0, UNREACHED, None),
        (BOTH, 1, UNREACHED, None),  # an authority counts failures
        (BOTH, 0, UNOFFERED, HTTP_01),  # nothing was checked, so nothing has failed there
        (BOTH, 1, UNOFFERED, TLS_ALPN_01),
        (ONE, 0, UNOFFERED, None),
        (BOTH, 0, {"kind": "caa", "challenge": TLS_ALPN_01}, None),  # as by the other kind
        (BOTH, 0, {"kind": "rateLimited"}, None),
        (BOTH, 0, {"kind": "unreachable"}, None),
    ],
)
def test_a_second_attempt(kinds, failures, result, kind):
    """The other kind is tried at once where it could have another result; after failures, only if the first was not offered."""
    assert second_kind(kinds, failures, result) == kind
