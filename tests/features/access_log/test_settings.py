"""The settings of the access log."""

from harness.refusals import defaults_of

from aserve.features.access_log.settings import AccessLogSettings


def test_defaults_keep_no_access_log():
    assert defaults_of(AccessLogSettings) == {
        "access_log": None, "access_log_copy": (), "access_log_format": "combined", "access_log_skip": (),
    }  # fmt: skip
