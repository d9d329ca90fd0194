"""Conditions of routes; uWSGI 2.0.31 with PCRE2 has decided the same."""

import pytest

from aserve.compat.routes import compile_routes
from aserve.compat.routes.conditions import SUBJECTS, compile_condition
from aserve.settings import ConfigError

ENVIRON = {"PATH_INFO": "/a/b", "HTTP_X": "aab", "HTTP_E": "", "HTTP_HOST": "shop.example:80"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("^/a", True), ("^/b", False), ("other:^/a", False),
        ("host:^shop", True), ("host:^(?!shop.example)", False), ("referer:^$", True),
        ("if:equal:${PATH_INFO};/a/b", True), ("if:==:${HTTP_X};aa", False), ("if:eq:a;a;b", False), ("if:isequal:${HTTP_NO};${HTTP_E}", True),
        ("if:startswith:${HTTP_X};aa", True), ("if:startswith:${HTTP_X};ab", False), ("if:startswith:${HTTP_X};", True),
        ("if:endswith:${HTTP_X};ab", True), ("if:endswith:${HTTP_X};aaab", False), ("if:endswith:${HTTP_X};", True),
        ("if:contains:${PATH_INFO};a/", True), ("if:contains:/;a", False), ("if:contain:${HTTP_X};ab", False), ("if:contains:${HTTP_X};", False), ("if:contains:;a", False),
        ("if:regexp:${HTTP_X};^a+b$", True), ("if:re:${HTTP_X};^b", False),
        ("if:ishigher:10;9", True), ("if:>:;0", False), ("if:ishigherequal: 9x;+9", True), ("if:islower:-1;x", True), ("if:<=:08;8", True),
        (f"if:<:{'9' * 5000};9223372036854775807", False), ("if:ishigher:${HTTP_X};0", False),
        ("if:empty:${HTTP_E}", True), ("if:empty:${HTTP_X};", False),
        ("if:isdir:/", True), ("if:isfile:/", False), ("if:exists:/${HTTP_X}/none", False),
    ],
)  # fmt: skip
def test_conditions_hold_for_their_variables(text, holds):
    """A missing variable is empty; if-not is the contrary of if."""
    assert (compile_condition(text)[0](ENVIRON) is not None) is holds
    if text.startswith("if:"):
        assert (compile_condition(f"if-not:{text[3:]}")[0](ENVIRON) is None) is holds


@pytest.mark.parametrize("kind", sorted(SUBJECTS))
def test_patterns_of_variables(kind):
    """Each pattern is for a single variable, octet by octet, and the groups are for the action."""
    condition, pattern = compile_condition(f"{kind}:^(\xfc)$")
    match = condition({SUBJECTS[kind]: "\xc3\xbc"})
    assert match[1] == "\xc3\xbc" and pattern.groups == 1 and condition({"PATH_INFO": "\xc3\xbc"}) is None


def test_groups_of_a_test():
    """An action has the groups of regexp, and of no other condition."""
    condition, pattern = compile_condition("if:regexp:${HTTP_HOST};^(.*):")
    assert condition(ENVIRON)[1] == "shop.example" and pattern.groups == 1
    for text in ("if-not:regexp:${HTTP_HOST};(.)", "if:equal:(a);b"):
        assert compile_condition(text)[1] is None


@pytest.mark.parametrize(
    ("text", "address", "holds"),
    [
        ("ipv4in:${A};10.0.0.0/8", "10.2.3.4", True),
        ("ipv4in:${A};10.0.0.0/8", "11.2.3.4", False),
        ("ipv4in:${A};10.9.9.9/8", "10.2.3.4", True),
        ("ipv4in:${A};192.168.1.7", "192.168.1.7", True),
        ("ipv4in:${A};10.0.0.0/8", "::1", None),
        ("ipv4in:${A};10.0.0.0/8", "", None),
        ("ipv4in:${A};10.0.0.0/8", "010.2.3.4", None),
        ("ipv4in:${A};10.0.0.0/8", "10.2.3.4,1.1.1.1", None),
        ("ipv4in:${A};10.0.0.0/8", "\xff", None),
        ("ipv6in:${A};fd00::/8", "fd00::1", True),
        ("ipv6in:${A};fd00::/8", "10.2.3.4", None),
    ],
)
def test_networks_hold_addresses_alone(text, address, holds):
    """A text that is no address is in no network, and where one in a network is asked for the connection is closed, as recorded from uWSGI 2.0.31."""
    is_out, _ = compile_condition(f"if-not:{text}")
    assert (is_out({"A": address}) is not None) is not bool(holds)
    is_in, _ = compile_condition(f"if:{text}")
    if holds is not None:
        assert (is_in({"A": address}) is not None) is holds
        return
    with pytest.raises(ValueError):
        is_in({"A": address})


@pytest.mark.parametrize(
    "text",
    ["if:equal:s3cret", "if:ipv4in:1;s3cret", "if:regexp:a;(s3cret", "if:equal:$1;s3cret", "if:lord:a;s3cret", "if:", "host:(", "if:empty:${s}"],
)  # fmt: skip
def test_what_is_no_condition(text):
    """The error does not show the compared text."""
    with pytest.raises(ConfigError) as caught:
        compile_routes([f"{text} break:403"])
    assert "s3cret" not in str(caught.value)
