"""How values of gunicorn's settings are read."""

import ssl

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.gunicorn_values import (
    number,
    real,
    take_cert_reqs,
    take_field_size,
    take_forwarded,
    take_forwarder_headers,
    take_header_map,
    take_paths,
    take_raw_env,
    take_request_line,
    take_ssl_version,
    text,
    whole,
)
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def taken(take, value):
    """Return the draft after one setting."""
    draft = Draft("conf.py")
    with_row = Given("key", value, "conf.py:1")
    take(draft, with_row)
    return draft


@pytest.mark.parametrize(("value", "number"), [(3, 3.0), ("3", 3.0), (0.5, 0.5), ("x", None), (True, None), ([], None)])
def test_numbers_may_be_text(value, number):
    if number is None:
        with pytest.raises(ValueError, match="is not a number"):
            real(value)
    else:
        assert real(value) == number


def test_whole_numbers_have_no_fraction():
    assert whole("8") == 8
    with pytest.raises(ValueError, match="is not a whole number"):
        whole(1.5)


def test_bounds_are_ours_with_a_note():
    """A number is kept in our bounds, with a note; below 0 it is wrong; None is unset."""
    draft = taken(number("keep-alive", 0.1, 86400), 0)
    assert (
        draft.settings == {"keep-alive": 0.1} and draft.notes[0].text == "less than keep-alive may be; it is 0.1 here"
    )
    assert taken(number("backlog", 1, 65535), 100000).notes[0].text == "more than backlog may be; it is 65535 here"
    assert taken(number("backlog", 1, 65535), None).settings == {}
    with pytest.raises(ValueError, match="-1 is too small"):
        taken(number("backlog", 1, 65535), -1)


def test_plain_texts_may_be_numbers():
    assert taken(text("user"), 33).settings == {"user": "33"}
    assert taken(text("user"), None).settings == taken(text("user"), "").settings == {}
    assert taken(text("pid-file"), "a").facts == {"paths": ["pid-file"]}
    with pytest.raises(ConfigError, match=r"conf\.py:1: key = 3\.5: 3\.5 is not a path; accepted for pid-file"):
        taken(text("pid-file"), 3.5)


def test_lists_replace_earlier_ones():
    draft = Draft("conf.py")
    for value in ("a,b", ["c"], None):
        take_paths("python-path")(draft, Given("pythonpath", value, "x"))
        take_raw_env(draft, Given("raw_env", [f"{value}=1"], "x"))
    assert draft.settings == {"env": ["None=1"]}
    assert taken(take_raw_env, "A=1").settings == {"env": ["A=1"]} and taken(take_raw_env, None).settings == {}
    with pytest.raises(ValueError, match=r"'\.\.\.' is not of the form NAME=VALUE"):
        taken(take_raw_env, ["A"])


def test_limits_of_zero_become_large():
    """0 is no limit there; ours for the head holds for all fields together."""
    assert taken(take_request_line, 4094).settings == {"max-request-line": 4094}
    assert taken(take_request_line, 0).settings == {"max-request-line": 16 << 20}
    assert taken(take_field_size, 8190).settings == {}
    assert taken(take_field_size, 100_000).settings == {"max-head": 100_000}
    assert taken(take_field_size, 0).settings == {"max-head": 16 << 20}


def test_peers_believed_by_gunicorn_are_trusted():
    assert taken(take_forwarded, "10.0.0.1, 10.0.0.1,*").settings == {"trusted-proxies": ["10.0.0.1", "*"]}
    assert taken(take_forwarded, "").facts == {"forwarded": True}


def test_tls_values_are_of_the_ssl_module():
    assert [taken(take_cert_reqs, n).settings["client-certificate"] for n in (0, ssl.CERT_OPTIONAL, "2")] == [
        "none", "optional", "required",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="3 is none of 0, 1 and 2"):
        taken(take_cert_reqs, 3)
    assert taken(take_ssl_version, ssl.TLSVersion.TLSv1_3).settings == {"tls-min": "1.3"}
    assert taken(take_ssl_version, "TLSv1_2").settings == taken(take_ssl_version, 2).settings == {}


def test_fields_with_underscores():
    """gunicorn passes such fields on only when told to; gunicorn's own proxy fields are named here."""
    assert not taken(take_header_map, "drop").notes and not taken(take_header_map, "refuse").notes
    (note,) = taken(take_header_map, "dangerous").notes
    assert "name them in --underscore-fields" in str(note)
    assert taken(take_forwarder_headers, "SCRIPT_NAME,PATH_INFO").settings == {}
    assert (
        not taken(take_forwarder_headers, "SCRIPT_NAME,PATH_INFO").notes and not taken(take_forwarder_headers, "").notes
    )
    found = taken(take_forwarder_headers, ["SCRIPT_NAME", "REMOTE_USER", "X-Other", "OIDC_CLAIM_sub"])
    assert found.settings == {"underscore-fields": ["REMOTE_USER", "OIDC_CLAIM_sub"]}
    assert "X-Forwarded-Prefix" in str(found.notes[0])
    (note,) = taken(take_forwarder_headers, "*").notes
    assert "could be a client's" in str(note)
    with pytest.raises(ValueError, match="have your proxies send x-forwarded-for"):
        taken(take_forwarder_headers, "X_FORWARDED_FOR")
