"""Every error of ours names its culprit, and can be caught by its class."""

import pytest

from aserve.core import errors


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (errors.BindError, OSError),
        (errors.ClientDisconnected, ConnectionError),
        (errors.AppError, errors.AserveError),
        (errors.AppError, ValueError),  # caught by apps where a server refuses a field
        (errors.ResponseTruncated, errors.AserveError),
        (errors.RequestRefused, errors.AserveError),
    ],
)
def test_bases_of_errors_are_right(kind, base):
    """Errors of the outside world are OSErrors; the rest have one base of ours."""
    assert issubclass(kind, base)
    assert issubclass(errors.AserveError, Exception)


def test_bind_error_is_one_line():
    """A BindError made of one text prints as that text, without an errno."""
    assert str(errors.BindError("cannot listen on :80: no")) == "cannot listen on :80: no"


def test_a_refusal_has_status_and_text():
    """A refusal carries the status that answers it."""
    refused = errors.RequestRefused(431, "too many")
    assert (refused.status, str(refused)) == (431, "too many")


def test_over_limit_names_the_setting():
    """The message of a limit of ours has its value and its setting."""
    refused = errors.over_limit(413, "the request body", 10, "--max-body")
    assert refused.status == 413
    assert str(refused) == "the request body is over the limit of 10 octets (--max-body)"
