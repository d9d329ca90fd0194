"""Fields of every response: their spelling, and their presence."""

import pytest
from harness.refusals import error_of

from aserve.features import Config
from aserve.features.added_fields import AddedFields, parse_field

HSTS = "Strict-Transport-Security: max-age=31536000; includeSubDomains"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (HSTS, ("Strict-Transport-Security", "max-age=31536000; includeSubDomains")),
        (" X-A:b:c ", ("X-A", "b:c")),
        ("X-A : \u00e9", ("X-A", "\u00e9")),
        ("Content-Security-Policy: default-src 'self'", ("Content-Security-Policy", "default-src 'self'")),
    ],
)
def test_fields_end_their_name_at_a_colon(text, field):
    assert parse_field(text) == field
    assert Config(add_field=[text]).add_field == (": ".join(field),)


@pytest.mark.parametrize("text", ["X-A", "X-A:", "X A: b", ": b", "X-A: \u2026", "X-A: a\r\nX-B: c", "X-A: a\x00"])
def test_what_is_no_field(text):
    """Nothing that could break a response gets into one."""
    assert "is not of the form NAME: VALUE" in error_of(Config, add_field=[text])


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length",
        "transfer-encoding",
        "Date",
        "Content-Type",
        "Status",
        "ETag",
        "Proxy-Connection",
        "proxy-authenticate",
    ],
)
def test_what_each_response_has_of_its_own(name):
    """Two of them would contradict each other."""
    assert "differs from response to response" in error_of(Config, add_field=f"{name}: 1")


def test_the_server_field_has_its_own_setting():
    assert "Server is server-name's" in error_of(Config, add_field="Server: mine")


def test_a_variable_has_a_field_a_line():
    """A variable has one to a line, as a value may have commas."""
    config = Config.from_sources({}, {"ASERVE_ADD_FIELD": "X-A: 1, 2\nX-B: 3"}, {})
    assert AddedFields(config).fields(False) == (("X-A", "1, 2"), ("X-B", "3"))
    assert AddedFields.is_on(config) and not AddedFields.is_on(Config())
