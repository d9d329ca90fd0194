"""The table of settings: parsing, precedence, messages, and the page made from it."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import sys

import pytest

from aserve import config
from aserve.config import SETTINGS, Bind, Config, ConfigError, parse_bind, read_toml, show_bytes

ROOT = pathlib.Path(__file__).parent.parent
BY_NAME = {setting.name: setting for setting in SETTINGS}


def from_sources(argv=(), environ=(), toml=(), toml_name="site.toml"):
    return Config.from_sources(dict(argv), dict(environ), dict(toml), toml_name)


def error_of(function, *args, **kwargs):
    """Return the one line that the call's ConfigError or ValueError says."""
    with pytest.raises(ValueError) as caught:
        function(*args, **kwargs)
    text = str(caught.value)
    assert text and "\n" not in text
    return text


# Binds


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("127.0.0.1:8000", Bind("tcp", "127.0.0.1", 8000)),
        ("localhost:0", Bind("tcp", "localhost", 0)),
        ("my-host.example_1.org:65535", Bind("tcp", "my-host.example_1.org", 65535)),
        (":80", Bind("tcp", "", 80)),
        ("[::1]:8000", Bind("tcp", "::1", 8000)),
        ("[::]:8000", Bind("tcp", "::", 8000)),
        ("[fe80::1%eth0]:8000", Bind("tcp", "fe80::1%eth0", 8000)),
        ("unix:/run/a.sock", Bind("unix", path="/run/a.sock")),
        ("unix:a:b.sock", Bind("unix", path="a:b.sock")),
        ("unix:" + "x" * 103, Bind("unix", path="x" * 103)),
        ("uwsgi://unix:/run/a.sock", Bind("unix", path="/run/a.sock", protocol="uwsgi")),
        ("uwsgi://:3031", Bind("tcp", "", 3031, protocol="uwsgi")),
        ("scgi://[::1]:4000", Bind("tcp", "::1", 4000, protocol="scgi")),
        ("https://[::1]:443", Bind("tcp", "::1", 443, protocol="https")),
        ("https://unix:/run/a.sock", Bind("unix", path="/run/a.sock", protocol="https")),
        ("proxy+http://:8000", Bind("tcp", "", 8000, is_proxied=True)),
        ("proxy+http://unix:/run/a.sock", Bind("unix", path="/run/a.sock", is_proxied=True)),
    ],
)
def test_bind_forms(text, bind):
    """Each form is understood, and its str() gives it back."""
    assert parse_bind(text) == bind
    assert str(bind) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [("http://localhost:80", "localhost:80"), ("http://:80/", ":80"), ("uwsgi://a:1/", "uwsgi://a:1")],
)
def test_bind_as_a_url(text, plain):
    """What stands in an address bar is understood."""
    assert str(parse_bind(text)) == plain


@pytest.mark.parametrize(
    ("text", "options", "spec"),
    [
        ("https://a:1?", (), "https://a:1"),
        ("https://a:1/?key=b", (("key", "b"),), "https://a:1?key=b"),
        ("https://:1?certificate=/a b&key=c", (("certificate", "/a b"), ("key", "c")), "https://:1?certificate=/a%20b&key=c"),
        ("https://:1?key=a%2Cb%26c%25+d", (("key", "a,b&c%+d"),), "https://:1?key=a%2Cb%26c%25+d"),
        ("https://:1?sni=*.a.org=b:c&sni=d=e", (("sni", "*.a.org=b:c"), ("sni", "d=e")), "https://:1?sni=*.a.org=b:c&sni=d=e"),
        ("https://unix:/a/b?key=/c", (("key", "/c"),), "https://unix:/a/b?key=/c"),
    ],
)  # fmt: skip
def test_bind_options(text, options, spec):
    """An https bind may have settings of its own; `spec` has them, str() has not, and the spec is read back."""
    bind = parse_bind(text)
    assert (bind.options, bind.spec) == (options, spec)
    assert str(bind) == spec.partition("?")[0]
    assert parse_bind(spec) == bind


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
@pytest.mark.parametrize("text", ["unix:@app", "uwsgi://unix:@a/b:c"])
def test_bind_abstract(text):
    """unix(7): an abstract socket is a name behind a NUL, and no file."""
    bind = parse_bind(text)
    assert bind.is_abstract and str(bind) == text
    assert bind.unix_address == "\0" + text.partition("@")[2]
    assert not parse_bind("unix:/a@b").is_abstract


def test_bind_abstract_elsewhere(monkeypatch):
    """Where there are no abstract sockets, the message says so."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "only Linux" in error_of(parse_bind, "unix:@app")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no port"),
        ("localhost", "'localhost:8000'"),
        ("8000", "':8000'"),
        ("[::1]", "'[::1]:8000'"),
        ("localhost:", "port ''"),
        ("localhost:http", "port 'http'"),
        ("localhost:65536", "0 to 65535"),
        ("localhost:-1", "port '-1'"),
        ("localhost:٣", "port"),  # a digit, but not an ASCII one
        ("::1:8000", "brackets"),
        ("[::1:8000", "brackets"),
        ("[1.2.3.4]:80", "not an IPv6 address"),
        ("[::1\0]:80", "not an IPv6 address"),
        ("a b:80", "not a host name"),
        ("a" * 254 + ":80", "not a host name"),
        ("ftp://localhost:80", "none of http, https, uwsgi, scgi, proxy+http"),
        ("http://localhost:80?key=a", "port '80?key=a'"),
        ("https://localhost", "no port"),
        ("https://localhost:443?cert=a", "'cert' is none of the options certificate, key, sni,"),
        ("https://localhost:443?threads=1", "'threads' is none of the options"),
        ("https://localhost:443?key", "the option key has no value"),
        ("proxy://localhost:80", "proxy+http"),
        ("proxy+uwsgi://localhost:80", "'proxy+http://localhost:80' would"),
        ("proxy+http://localhost", "'localhost:8000'"),
        ("unix:", "needs the path"),
        ("unix:a\0b", "needs the path"),
        ("unix:" + "x" * 108, "longer than"),
        ("unix:@", "only Linux" if sys.platform != "linux" else "needs the name"),
    ],
)
def test_bind_refusals(text, reason):
    """What is not a bind says why."""
    assert reason in error_of(parse_bind, text)


# Values


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("bind", "127.0.0.1:1", ("127.0.0.1:1",)),
        ("bind", ":1, unix:/a", (":1", "unix:/a")),
        ("bind", ["[::1]:2,:4", ":3"], ("[::1]:2", ":4", ":3")),
        ("threads", "8", 8),
        ("threads", 0, 0),
        ("loop", "ASYNCIO", "asyncio"),
        ("http_parser", "c", "c"),
        ("body", "stream", "stream"),
        ("scgi_status", "LINE", "line"),
        ("unix_mode", "660", 0o660),
        ("unix_mode", "0600", 0o600),
        ("unix_mode", "0o777", 0o777),
        ("unix_mode", 0o640, 0o640),
        ("unix_owner", "www-data", "www-data"),
        ("unix_owner", 33, "33"),
        ("unix_group", "", None),
        ("trusted_proxies", "", ()),
        ("trusted_proxies", "10.0.0.0/8, ::1,", ("10.0.0.0/8", "::1")),
        ("trusted_proxies", ["unix:uid=0,*", "unix"], ("unix:uid=0", "*", "unix")),
        ("trusted_proxies", "2001:0DB8::/32", ("2001:db8::/32",)),
        ("forwarded_fields", "", ()),
        ("forwarded_fields", "Forwarded, X-Forwarded-Prefix", ("forwarded", "x-forwarded-prefix")),
        ("forwarded_fields", ["x-forwarded-for", "x-forwarded-user"], ("x-forwarded-for", "x-forwarded-user")),
        ("server_name", "", ""),
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
        ("access_log", "-", "-"),
        ("access_log", pathlib.Path("/var/log/a"), "/var/log/a"),
        ("log_level", "DEBUG", "debug"),
    ],
)
def test_accepted_values(name, given, value):
    """Text and native values mean the same, and have the type that the attribute promises."""
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
        ("threads", "-1", "not a whole number"),
        ("threads", -1, "-1 is too small"),
        ("threads", 5000, "5000 is too large"),
        ("threads", "9" * 30, "not a whole number"),
        ("threads", 1.5, "not a whole number"),
        ("threads", True, "True is not a whole number"),
        ("loop", "trio", "'trio' is none of these"),
        ("loop", 3, "3 is none of these"),
        ("unix_mode", "8", "not the mode"),
        ("unix_mode", "1777", "not the mode"),
        ("unix_mode", 660, "not the mode"),  # forgot the 0o
        ("unix_mode", True, "not the mode"),
        ("unix_owner", "a b", "neither a name nor a number"),
        ("unix_group", -1, "neither a name nor a number"),
        ("unix_group", True, "neither a name nor a number"),
        ("trusted_proxies", "localhost", "neither an address nor a network"),
        ("trusted_proxies", 1, "neither text"),
        ("trusted_hops", -1, "-1 is too small"),
        ("forwarded_fields", "x-forwarded-prot", "nearly x-forwarded-proto"),
        ("forwarded_fields", "x-forwarded", "none of these"),
        ("forwarded_fields", "via", "none of these"),
        ("forwarded_fields", "forwarded,x-forwarded-for", "both"),
        ("forwarded_fields", "x-real-ip,forwarded", "both"),
        ("forwarded_fields", [1], "neither text"),
        ("server_name", "a\r\nb: c", "cannot be sent"),
        ("server_name", "é", "cannot be sent"),
        ("server_name", "x" * 201, "cannot be sent"),
        ("server_name", None, "cannot be sent"),
        ("max_body_bytes", "1.5M", "not a size"),
        ("max_body_bytes", "12X", "not a size"),
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
        ("access_log", b"log", "not a path"),
        ("access_log", "a\0b", "not a path"),
        ("log_level", "loud", "'loud' is none of these"),
    ],
)
def test_refused_values(name, given, reason):
    """The message names the setting, what was wrong and what is accepted."""
    text = error_of(Config, **{name: given})
    assert text.startswith(f"{name}: ")
    assert reason in text
    assert text.endswith(f"; accepted: {BY_NAME[name].kind.accepts}")


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
def test_show_bytes(count, text):
    """A size is shown exactly, in a form that is read back."""
    assert show_bytes(count) == text
    assert Config(max_body_bytes=text).max_body_bytes == count


def test_stream_needs_a_thread():
    """A live body on the loop's own thread would wait for itself."""
    assert "threads" in error_of(Config, body="stream", threads=0)
    assert Config(body="stream", threads=1).body == "stream"


def test_request_line_fits_the_head():
    """A request line longer than the whole head could never be reached."""
    text = error_of(Config, max_head_bytes="1k", max_request_line_bytes="2k")
    assert "2KiB" in text
    assert "1KiB" in text


def test_proxies_must_be_named():
    """What needs proxies is refused while none is named."""
    assert "trusted-proxies" in error_of(Config, bind=["127.0.0.1:80", "proxy+http://:1"])
    assert "'*'" in error_of(Config, trusted_hops=1)
    assert Config(bind="proxy+http://:1", trusted_proxies="*", trusted_hops=1).trusted_hops == 1


@pytest.mark.parametrize(("setting", "package"), [("loop", "uvloop"), ("http_parser", "httptools")])
def test_missing_package(monkeypatch, setting, package):
    """A choice whose package is missing is refused when it is made, with what to do."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys.implementation, "name", "cpython")
    assert f"pip install {package}" in error_of(Config, **{setting: package})
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert f"{package} does not exist for pypy" in error_of(Config, **{setting: package})


@pytest.mark.parametrize(("setting", "package"), [("loop", "uvloop"), ("http_parser", "httptools")])
def test_present_package(monkeypatch, setting, package):
    """A choice whose package is there is taken."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert getattr(Config(**{setting: package}), setting) == package


# Config


def test_defaults():
    """The defaults are those that the documentation and the other modules rely on."""
    assert dataclasses.asdict(Config()) == {
        "bind": ("127.0.0.1:8000",),
        "threads": 32,
        "extra_threads": 64,
        "loop": "auto",
        "http_parser": "c",
        "body": "buffer",
        "lane": "auto",
        "route": (),
        "uwsgi_module": "auto",
        "scgi_status": "field",
        "unix_mode": 0o666,
        "unix_owner": None,
        "unix_group": None,
        "backlog": 2048,
        "server_name": "aserve",
        "certificate": None,
        "key": None,
        "sni": (),
        "client_ca": None,
        "client_certificate": "none",
        "tls_min": "1.2",
        "ciphers": "ECDHE+AESGCM:ECDHE+CHACHA20",
        "trusted_proxies": (),
        "trusted_hops": 0,
        "forwarded_fields": ("x-forwarded-for", "x-forwarded-proto"),
        "max_connections": 0,
        "max_body_bytes": 1 << 30,
        "body_memory_bytes": 512 << 10,
        "max_head_bytes": 64 << 10,
        "max_request_line_bytes": 8190,
        "max_fields": 100,
        "max_pipelined": 16,
        "write_buffer_bytes": 256 << 10,
        "response_spool_bytes": 1 << 30,
        "response_memory_bytes": 64 << 20,
        "body_spool_total_bytes": 0,
        "response_spool_total_bytes": 0,
        "spool_files": 0,
        "keep_alive_seconds": 75.0,
        "head_seconds": 30.0,
        "body_seconds": 60.0,
        "write_seconds": 60.0,
        "min_rate_bytes": 240,
        "request_seconds": 0.0,
        "max_stuck": 32,
        "drain_seconds": 30.0,
        "drain_delay_seconds": 0.0,
        "access_log": None,
        "log_level": "info",
    }


def test_config_is_immutable_and_comparable():
    """A Config can be shared by threads and used as a key."""
    settings = Config(threads="3")
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.threads = 4
    assert settings == Config(threads=3)
    assert hash(settings) == hash(Config(threads=3))


def test_replace_checks_again():
    """dataclasses.replace gives a checked copy."""
    assert dataclasses.replace(Config(), threads="2").threads == 2
    with pytest.raises(ConfigError):
        dataclasses.replace(Config(), threads="two")


def test_unknown_keyword():
    """A misspelt keyword is a TypeError, as for any function."""
    with pytest.raises(TypeError, match="thread"):
        Config(thread=3)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_row_is_complete(setting):
    """Every setting says what it does and why its default is so; its names follow the flag."""
    assert setting.help
    assert not setting.help.endswith(".")
    assert setting.why.endswith(".")
    assert setting.flag == f"--{setting.key}"
    assert setting.variable == "ASERVE_" + setting.key.upper().replace("-", "_")
    assert setting.kind.parse(setting.default) == setting.default


def test_names_are_unique():
    """No two settings share a flag, and none takes a name of the command's own."""
    keys = [setting.key for setting in SETTINGS]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {*config.COMMAND_NAMES, "check", "version", "help"}


def test_a_bind_may_have_the_whole_group():
    """What an https bind may have of its own is the group TLS, in its order."""
    assert [setting.key for setting in SETTINGS if setting.group == config.TLS] == list(config.TLS_KEYS)


# TLS


def tls_of(*binds, **settings):
    """Return the TLS settings of each bind."""
    config = Config(bind=binds, **settings)
    return [config.tls_settings(parse_bind(bind)) for bind in config.bind if bind.startswith("https:")]


def test_tls_settings():
    """The settings hold for all https binds; an option of a bind comes before them."""
    one, two, three = tls_of(
        ":80",
        "https://:1",
        "https://:2?certificate=c2&tls-min=1.3&sni=a.org=x&sni=b.org=y:z",
        "https://:3?key=k3&client-certificate=none&ciphers=ECDHE",
        certificate="c",
        key="k",
        sni="a.org=s:t",
        client_ca="ca",
        client_certificate="required",
    )
    assert one[:6] == ("c", "k", ("a.org=s:t",), "ca", "required", "1.2")
    # The key of all others cannot belong to the certificate of this one.
    assert two[:6] == ("c2", None, ("a.org=x", "b.org=y:z"), "ca", "required", "1.3")
    assert three == ("c", "k3", ("a.org=s:t",), "ca", "none", "1.2", "ECDHE")


def test_tls_settings_of_a_table():
    """In TOML an https bind may be a table, with the same options as keys."""
    toml = {"bind": [":80", {"address": "https://:1", "certificate": "a,b", "sni": ["a.org=x", "b.org=y"]}]}
    config = from_sources(toml=toml)
    assert config.bind == (":80", "https://:1?certificate=a%2Cb&sni=a.org=x&sni=b.org=y")
    assert config.tls_settings(parse_bind(config.bind[1]))[:3] == ("a,b", None, ("a.org=x", "b.org=y"))
    assert from_sources(toml={"bind": {"address": ":80"}}).bind == (":80",)


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
    """What is wrong in such a table is named."""
    assert reason in error_of(from_sources, toml={"bind": [table]})


@pytest.mark.parametrize(
    ("binds", "settings", "reason"),
    [
        (["https://:1"], {}, "the bind https://:1 has no certificate; give --certificate"),
        (["https://:1?key=a"], {}, "the bind https://:1 has no certificate"),
        ([":1"], {"certificate": "a"}, "no bind is for TLS; write https://"),
        (["https://:1"], {"certificate": "a", "client_ca": "b"}, "asks for no certificates; give --client-certificate"),
        (["https://:1"], {"certificate": "a", "client_certificate": "required"}, "with --client-ca"),
        (["https://:1?certificate=a&tls-min=1.1"], {}, "tls-min of the bind https://:1: '1.1' is none of these"),
        (["https://:1?certificate=a&sni=b"], {}, "sni of the bind https://:1: 'b' is not of the form"),
    ],
)
def test_tls_settings_that_do_not_fit(binds, settings, reason):
    """What is missing is named, and a certificate that nobody would serve is no silent mistake."""
    assert reason in error_of(Config, bind=binds, **settings)


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
def test_sni(value, parsed):
    """Names and files, separated by commas or lines."""
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
def test_split_sni(text, parts):
    """Names are as TLS has them."""
    assert config.split_sni(text) == parts


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
def test_sni_refusals(value, reason):
    """What is not of that form says why."""
    assert reason in error_of(Config, sni=value)


@pytest.mark.parametrize("value", [3, "", "a b", "a\nb"])
def test_ciphers_refusals(value):
    """What cannot be a list of ciphers is refused before OpenSSL sees it."""
    assert "not a list of ciphers" in error_of(Config, ciphers=value)


# Sources


def test_precedence():
    """argv over environment over TOML over default."""
    toml = {"threads": 1, "backlog": 1, "max-fields": 1}
    environ = {"ASERVE_THREADS": "2", "ASERVE_BACKLOG": "2", "HOME": "/", "ASERV": "no"}
    found = from_sources({"threads": "3"}, environ, toml)
    assert (found.threads, found.backlog, found.max_fields, found.max_pipelined) == (3, 2, 1, 16)


def test_each_source_has_its_own_spelling():
    """A list in TOML, commas in a variable, repeats in argv."""
    binds = (":1", ":2")
    assert from_sources(toml={"bind": [":1", ":2"]}).bind == binds
    assert from_sources(environ={"ASERVE_BIND": ":1,:2"}).bind == binds
    assert from_sources(argv={"bind": [":1", ":2"]}).bind == binds


@pytest.mark.parametrize(
    ("sources", "beginning"),
    [
        ({"argv": {"max_body_bytes": "x"}}, "--max-body: 'x' is not a size"),
        ({"environ": {"ASERVE_MAX_BODY": "x"}}, "ASERVE_MAX_BODY: 'x' is not a size"),
        ({"toml": {"max-body": "x"}}, "max-body in site.toml: 'x' is not a size"),
        # Wrong, though argv wins: it is a mistake that would show itself later.
        ({"toml": {"threads": "x"}, "argv": {"threads": "1"}}, "threads in site.toml: "),
    ],
)
def test_the_source_is_named(sources, beginning):
    """The user learns which of the places to look in."""
    assert error_of(from_sources, **sources).startswith(beginning)


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (
            {"toml": {"thread": 3}},
            "unknown setting thread in site.toml; did you mean threads?",
        ),
        (
            {"toml": {"head_timeout": 3}},
            "unknown setting head_timeout in site.toml; did you mean head-timeout?",
        ),
        (
            {"environ": {"ASERVE_THREAD": "3"}},
            "unknown variable ASERVE_THREAD in the environment; did you mean ASERVE_THREADS?",
        ),
        (
            {"environ": {"ASERVE_XYZZY": "3"}},
            "unknown variable ASERVE_XYZZY in the environment; see aserve --help",
        ),
    ],
)
def test_unknown_names(sources, text):
    """A misspelt name is refused, with the nearest one."""
    assert error_of(from_sources, **sources) == text


def test_names_of_the_command_are_no_mistake():
    """`app` and `config` are read by the command, not here."""
    environ = {"ASERVE_APP": "a:b", "ASERVE_CONFIG": "c"}
    assert from_sources(environ=environ, toml={"app": "a:b"}) == Config()


# TOML


def test_read_toml(tmp_path):
    """A settings file is a flat table."""
    path = tmp_path / "site.toml"
    path.write_text('threads = 3\nbind = [":1"]\n')
    assert read_toml(str(path)) == {"threads": 3, "bind": [":1"]}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("[tool.aserve]\nthreads = 3\n", {"threads": 3}),
        ("[project]\nname = 'x'\n", {}),
        ("", {}),
    ],
)
def test_read_pyproject(tmp_path, text, settings):
    """Of a pyproject.toml only our own table counts."""
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    assert read_toml(str(path)) == settings


@pytest.mark.parametrize("text", ["tool = 1", "[tool]\naserve = 3"])
def test_pyproject_with_something_else_there(tmp_path, text):
    """What is not a table is refused, not a crash."""
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    assert "is not a table" in error_of(read_toml, str(path))


@pytest.mark.parametrize("octets", [b"threads = ", b"\xff\xfe = 1"])
def test_not_toml(tmp_path, octets):
    """A syntax error is one line that names the file."""
    path = tmp_path / "site.toml"
    path.write_bytes(octets)
    assert error_of(read_toml, str(path)).startswith(f"{path} is not valid TOML: ")


def test_unreadable_toml(tmp_path):
    """A file that is not there, or is a folder, is one line."""
    missing = str(tmp_path / "none.toml")
    assert error_of(read_toml, missing) == (f"cannot read the settings file {missing}: No such file or directory")
    assert "Is a directory" in error_of(read_toml, str(tmp_path))


# The page


@pytest.mark.checkout
def test_settings_page_is_up_to_date():
    """docs/settings.md is what `make docs` would write."""
    spec = importlib.util.spec_from_file_location("make_settings", ROOT / "docs/make_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/settings.md").read_text() == module.build_page(), "run `make docs`"
