"""Each kind of value: the accepted texts, their values, and the messages for all further texts."""

import pathlib

import pytest
from harness.refusals import error_of

from aserve.features import SETTINGS, Config
from aserve.settings import show_bytes, split_sni

pytestmark = pytest.mark.long_on_pypy

BY_NAME = {setting.name: setting for setting in SETTINGS}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("bind", "127.0.0.1:1", ("127.0.0.1:1",)),
        ("bind", ":1, unix:/a", (":1", "unix:/a")),
        ("bind", ["[::1]:2,:4", ":3"], ("[::1]:2", ":4", ":3")),
        ("threads", "8", 8),
        ("threads", 0, 0),
        ("workers", None, None),
        ("workers", "4", 4),
        ("workers", 1, 1),
        ("workers", "auto", "auto"),
        ("loop", "ASYNCIO", "asyncio"),
        ("http_parser", "c", "c"),
        ("body", "stream", "stream"),
        ("scgi_status", "LINE", "line"),
        ("unix_mode", "660", 0o660),
        ("unix_mode", "0600", 0o600),
        ("unix_mode", "0o777", 0o777),
        ("unix_mode", 0o640, 0o640),
        ("umask", "027", 0o027),
        ("umask", "", None),
        ("umask", None, None),
        ("unix_owner", "www-data", "www-data"),
        ("unix_owner", 33, "33"),
        ("unix_group", "", None),
        ("trusted_proxies", "", ()),
        ("trusted_proxies", "10.0.0.0/8, ::1,", ("10.0.0.0/8", "::1")),
        ("trusted_proxies", ["unix:uid=0,*", "unix"], ("unix:uid=0", "*", "unix")),
        ("trusted_proxies", "2001:0DB8::/32", ("2001:db8::/32",)),
        ("forwarded_fields", "", ()),
        ("forwarded_fields", "Forwarded, X-Forwarded-Prefix", ("forwarded", "x-forwarded-prefix")),
        ("underscore_fields", "OIDC_CLAIM_sub, a_b", ("oidc_claim_sub", "a_b")),
        ("forwarded_fields", ["x-forwarded-for", "x-forwarded-user"], ("x-forwarded-for", "x-forwarded-user")),
        ("server_name", "", ""),
        ("queue_wait_header", "X-Queue-Wait", "X-Queue-Wait"),
        ("queue_wait_header", "", None),
        ("request_id_header", "X-Request-ID", "X-Request-ID"),
        ("proxy_status", "web1.example:80", "web1.example:80"),
        ("proxy_status", "", None),
        ("agent_check", ":9101", ":9101"),
        ("max_connection_requests", "1000", 1000),
        ("max_connection_seconds", "5m", 300.0),
        ("server_name", " me ", "me"),
        ("max_body_bytes", "0", 0),
        ("max_body_bytes", "512k", 512 << 10),
        ("max_body_bytes", "64M", 64 << 20),
        ("max_body_bytes", "1GiB", 1 << 30),
        ("max_body_bytes", "2 TB", 2 << 40),
        ("max_body_bytes", 77, 77),
        ("max_fields", "10000", 10_000),
        ("keep_alive_seconds", "5", 5.0),
        ("keep_alive_seconds", 2, 2.0),
        ("keep_alive_seconds", "500ms", 0.5),
        ("keep_alive_seconds", "1.5s", 1.5),
        ("keep_alive_seconds", "2m", 120.0),
        ("keep_alive_seconds", "1h", 3600.0),
        ("drain_seconds", 0, 0.0),
        ("access_log", None, None),
        ("access_log", "", None),
        ("access_log_format", "json", "json"),
        ("access_log_format", "%(h)s", "%(h)s"),
        ("access_log_skip", "/a 2xx\n/b\n", ("/a 2xx", "/b")),
        ("access_log_skip", ["/a"], ("/a",)),
        ("access_log", "-", "-"),
        ("access_log", pathlib.Path("/var/log/a"), "/var/log/a"),
        ("metrics", None, None),
        ("metrics", "", None),
        ("metrics", "127.0.0.1:9100", "127.0.0.1:9100"),
        ("metrics", "http://:9100", ":9100"),
        ("metrics", "unix:/run/m", "unix:/run/m"),
        ("healthcheck_path", None, None),
        ("healthcheck_path", "", None),
        ("healthcheck_path", "/-/health", "/-/health"),
        ("healthcheck_path", "/.well-known/~a_b.c", "/.well-known/~a_b.c"),
        ("log_level", "DEBUG", "debug"),
    ],
)
def test_accepted_values_mean_the_same_as_text(name, given, value):
    """Text and native values mean the same, and have the type of the attribute."""
    found = getattr(Config(**{name: given}), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("bind", "", "has no port"),
        ("bind", [], "nothing to listen on"),
        ("bind", [8000], "neither text"),
        ("bind", 8000, "neither text"),
        ("threads", "many", "'many' is not a whole number"),
        ("threads", "1_0", "not a whole number"),
        ("threads", " 1", "not a whole number"),
        ("threads", "-1", "-1 is too small"),
        ("threads", -1, "-1 is too small"),
        ("threads", 5000, "5000 is too large"),
        ("threads", "9" * 30, "not a whole number"),
        ("threads", 1.5, "not a whole number"),
        ("threads", True, "True is not a whole number"),
        ("workers", 0, "0 is too small"),
        ("workers", "AUTO", "'AUTO' is not a whole number"),
        ("touch_reload", 3, "neither text"),
        ("env", 3, "neither text"),
        ("env", "A", "'...' is not of the form NAME=VALUE"),
        ("env", ["=1"], "'...' is not of the form"),
        ("env", ["A=\0"], "is not of the form"),
        ("touch_reload", ["a\0b"], "not a path"),
        ("reload_at_once", "yes", "'yes' is neither on nor off"),
        ("reload_at_once", 1, "1 is neither on nor off"),
        ("loop", "trio", "'trio' is none of these"),
        ("loop", 3, "3 is none of these"),
        ("unix_mode", "8", "not the mode"),
        ("unix_mode", "1777", "not the mode"),
        ("unix_mode", 660, "not the mode"),  # forgot the 0o
        ("unix_mode", True, "not the mode"),
        ("umask", "8", "not the mode"),
        ("unix_owner", "a b", "neither a name nor a number"),
        ("unix_group", -1, "neither a name nor a number"),
        ("unix_group", True, "neither a name nor a number"),
        ("trusted_proxies", "localhost", "neither an address nor a network"),
        ("trusted_proxies", 1, "neither text"),
        ("trusted_hops", -1, "-1 is too small"),
        ("forwarded_fields", "x-forwarded-prot", "nearly x-forwarded-proto"),
        ("forwarded_fields", "x-forwarded", "none of these"),
        ("forwarded_fields", "via", "none of these"),
        ("underscore_fields", "x-user", "not the name of a field with an underscore"),
        ("underscore_fields", "a b_c", "not the name of a field with an underscore"),
        ("underscore_fields", "X_Real_IP", "have your proxies send x-real-ip"),
        ("underscore_fields", "X_Forwarded_User", "have your proxies send x-forwarded-user"),
        ("underscore_fields", "content_length", "a meaning of its own"),
        ("forwarded_fields", "forwarded,x-forwarded-for", "both"),
        ("forwarded_fields", "x-real-ip,forwarded", "both"),
        ("forwarded_fields", [1], "neither text"),
        ("server_name", "a\r\nb: c", "cannot be sent"),
        ("server_name", "é", "cannot be sent"),
        ("server_name", "x" * 201, "cannot be sent"),
        ("server_name", None, "cannot be sent"),
        ("queue_wait_header", "X Wait", "not the name of a field"),
        ("queue_wait_header", "X-Wait\r\nA: b", "not the name of a field"),
        ("queue_wait_header", 7, "not the name of a field"),
        ("queue_wait_header", "Content-length", "has a meaning of its own"),
        ("proxy_status", "1web", "does not begin with a letter"),
        ("proxy_status", "a; b", "does not begin with a letter"),
        ("proxy_status", "a\r\n", "does not begin with a letter"),
        ("proxy_status", 7, "does not begin with a letter"),
        ("agent_check", "https://:9101", "an address without a protocol"),
        ("max_body_bytes", "1.5M", "not a size"),
        ("max_body_bytes", "12X", "not a size"),
        ("max_body_bytes", "10IB", "not a size"),
        ("max_body_bytes", True, "not a size"),
        ("max_head_bytes", "1", "1 is too small"),
        ("max_head_bytes", "1G", "1GiB is too large"),
        ("keep_alive_seconds", "soon", "not a number of seconds"),
        ("keep_alive_seconds", "1 day", "not a number of seconds"),
        ("keep_alive_seconds", True, "not a number of seconds"),
        ("keep_alive_seconds", float("nan"), "not a number of seconds"),
        ("keep_alive_seconds", float("inf"), "inf is too large"),
        ("keep_alive_seconds", 0, "0 is too small"),
        ("access_log", 3, "not a path"),
        ("access_log_format", 3, "not a line of text"),
        ("access_log_format", "%(h)s\n", "not a line of text"),
        ("access_log_format", "combine", "neither the name of a format nor one that shows a value"),
        ("access_log_format", "%(adr)", "%(adr) is not known; the nearest is addr"),
        ("access_log_skip", "healthz", "not of the form 'PATH [STATUS]'"),
        ("access_log", b"log", "not a path"),
        ("access_log", "a\0b", "not a path"),
        ("key", "-----BEGIN PRIVATE KEY-----", "the content of a file, and not its path"),
        ("key", "a\nb", "the content of a file, and not its path"),
        ("metrics", 9100, "not text"),
        ("metrics", "9100", "port"),
        ("metrics", "https://:9100", "sent over plain HTTP"),
        ("metrics", "proxy+http://:9100", "sent over plain HTTP"),
        ("metrics", "fd:3", "sent over plain HTTP"),
        ("healthcheck_path", "/", "not such a path"),
        ("healthcheck_path", "health", "not such a path"),
        ("healthcheck_path", "/health/", "not such a path"),
        ("healthcheck_path", "/a//b", "not such a path"),
        ("healthcheck_path", "/a/../b", "not such a path"),
        ("healthcheck_path", "/a/.", "not such a path"),
        ("healthcheck_path", "/a b", "not such a path"),
        ("healthcheck_path", "/a%20b", "not such a path"),
        ("healthcheck_path", "/a?b", "not such a path"),
        ("healthcheck_path", "/a\n", "not such a path"),
        ("healthcheck_path", 1, "not such a path"),
        ("log_level", "loud", "'loud' is none of these"),
    ],
)
def test_refused_values_are_told_with_the_accepted(name, given, reason):
    """The message names the setting, the mistake and the accepted values."""
    text = error_of(Config, **{name: given})
    assert text.startswith(f"{name}: ")
    assert reason in text
    assert text.endswith(f"; accepted: {BY_NAME[name].kind.accepts}")


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("touch_reload", ["a", "/b c"], ("a", "/b c")),
        ("touch_reload", "a\nb\n", ("a", "b")),
        ("env", "A=1\nB=x=y\n", ("A=1", "B=x=y")),
        ("python_path", ["a", "/b"], ("a", "/b")),
        ("reload_at_once", "ON", True),
        ("reload_at_once", "off", False),
        ("reload_at_once", True, True),
    ],
)
def test_accepted_values_of_workers(name, given, value):
    """The same of settings for workers only."""
    assert getattr(Config(workers=1, **{name: given}), name) == value


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (1024, "1KiB"),
        (1536 << 10, "1536KiB"),
        (1 << 40, "1TiB"),
    ],
)
def test_show_bytes_is_exact_and_read_back(count, text):
    assert show_bytes(count) == text
    assert Config(max_body_bytes=text).max_body_bytes == count


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"certificate": "a"}, "needs an address"),
        ({"address": "https://:1,https://:2"}, "needs an address"),
        ({"address": 80}, "address of a bind: 80 is not text"),
        ({"address": "https://:1", "key": ["a", 1]}, "key of a bind: ['a', 1] is not text"),
        ({"address": "https://:1", "keys": "a"}, "'keys' is none of the options"),
    ],
)
def test_tables_that_are_no_bind(table, reason):
    """The message names the mistake in such a table."""
    assert reason in error_of(Config, bind=[table])


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ("", ()),
        ("a.org=b:c", ("a.org=b:c",)),
        (" a.org=b , *.b.org=/x/y:/z ", ("a.org=b", "*.b.org=/x/y:/z")),
        ("a.org=b\nc.org=d\n", ("a.org=b", "c.org=d")),
        (["a.org=b", "c.org=d,e"], ("a.org=b", "c.org=d,e")),
    ],
)
def test_sni_is_split_by_commas_or_lines(value, parsed):
    assert Config(sni=value).sni == parsed


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("A.org=b:c", ("a.org", "b", "c")),
        ("*.a.org=b", ("*.a.org", "b", None)),
        ("localhost=b=c", ("localhost", "b=c", None)),
        ("münchen.example=b", ("xn--mnchen-3ya.example", "b", None)),
    ],
)
def test_split_sni_has_names_as_in_tls(text, parts):
    assert split_sni(text) == parts


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (3, "neither text"),
        ([3], "neither text"),
        ("a.org", "not of the form"),
        ("a.org=", "not of the form"),
        ("a.org=b:", "not of the form"),
        ("a.org=b:c:d", "not of the form"),
        ("=b:c", "not the name of a host"),
        ("a b=c", "not the name of a host"),
        ("*=b", "not the name of a host"),
        ("a.*.org=b", "not the name of a host"),
        ("a..org=b", "not the name of a host"),
        ("a.org=b,A.org=c", "a.org is named twice"),
    ],
)
def test_sni_refusals_say_the_reason(value, reason):
    assert reason in error_of(Config, sni=value)


@pytest.mark.parametrize("value", [3, "", "a b", "a\nb"])
def test_ciphers_refusals_come_before_openssl(value):
    assert "not a list of ciphers" in error_of(Config, ciphers=value)
