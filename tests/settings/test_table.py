"""The table of settings: its rows, what fits together, precedence, messages, and the page made from it."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import sys

import pytest
from harness.refusals import error_of

from aserve.settings import COMMAND_NAMES, SETTINGS, Config, ConfigError, parse_bind
from aserve.settings.bind import TLS_KEYS
from aserve.settings.table import TLS

pytestmark = pytest.mark.long_on_pypy

ROOT = pathlib.Path(__file__).parent.parent.parent


def from_sources(argv=(), environ=(), toml=(), toml_name="site.toml"):
    return Config.from_sources(dict(argv), dict(environ), dict(toml), toml_name)


def test_stream_needs_a_thread():
    """A live body on the loop's own thread would wait for itself."""
    assert "threads" in error_of(Config, body="stream", threads=0)
    assert Config(body="stream", threads=1).body == "stream"


def test_request_line_fits_the_head():
    """A request line longer than the whole head could never be reached."""
    text = error_of(Config, max_head_bytes="1k", max_request_line_bytes="2k")
    assert "2KiB" in text
    assert "1KiB" in text


@pytest.mark.parametrize(
    "settings",
    [
        {"preload": True},
        {"start_seconds": 5},
        {"attach": ["a"]},
        {"cron": ["* * * * * a"]},
        {"spooler": ["a"]},
        {"touch_reload": ["a"]},
        {"reload_at_once": True},
        {"max_requests": 5},
        {"max_lifetime_seconds": 5},
        {"max_rss_bytes": 5},
        {"max_pss_bytes": 5},
        {"max_uss_bytes": 5},
        {"reload": True},
    ],
    ids=lambda each: next(iter(each)),
)
def test_what_needs_workers(settings):
    """What replaces workers is refused where there are none."""
    with pytest.raises(ConfigError, match=r"^[a-z-]+ needs workers: .*--workers 1 is enough"):
        Config(**settings)
    assert Config(workers=1, **settings)


def test_a_spooler_without_the_module():
    """An app that cannot import uwsgi cannot say what is to be done with a job."""
    with pytest.raises(ConfigError, match=r"^spooler is for apps that import uwsgi, which uwsgi-module off prevents"):
        Config(workers=1, spooler=["a"], uwsgi_module="off")


def test_what_is_warmed_up():
    """Paths, with a host or without; only what a supervisor replaces can be warmed up."""
    config = Config(workers=1, preload=True, warm_up="/cart?id=%C3%A9 shop.example:8000/ [::1]/a")
    assert config.warm_up == ("/cart?id=%C3%A9", "shop.example:8000/", "[::1]/a")
    for wrong in ("cart", "http://shop/", "/a\r\nb", "/\xe9", "shop/ x", ["/a b"]):
        with pytest.raises(
            ConfigError, match=r"^warm_up: .* is neither a path nor a host and a path; accepted: paths such"
        ):
            Config(workers=1, preload=True, warm_up=wrong)
    assert Config(workers=1, warm_up=["/"]).warm_up == ("/",)
    with pytest.raises(ConfigError, match=r"^warm-up needs workers: "):
        Config(warm_up=["/"])


def test_workers_need_linux(monkeypatch):
    """Elsewhere one process serves, and a line says so."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match=r"^workers \(4\) need Linux"):
        Config(workers=4)
    assert Config()


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


def test_titles_without_their_package(monkeypatch):
    """The error says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert Config(process_titles=True).process_titles
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "aserve-wsgi[titles]" in error_of(Config, process_titles=True)


def test_tracing_without_its_package(monkeypatch):
    """The extra is named."""
    assert Config(tracing=True).tracing
    for found in ([], ["opentelemetry"]):  # another part of it may be installed alone
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, found=found: name if name in found else None)
        assert "aserve-wsgi[otel]" in error_of(Config, tracing=True)


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
        "websockets": 100,
        "loop": "auto",
        "http_parser": "c",
        "body": "buffer",
        "lane": "auto",
        "native": "auto",
        "route": (),
        "uwsgi_module": "auto",
        "uwsgi_cache": (),
        "shared": None,
        "shared_prefix": None,
        "scgi_status": "field",
        "unix_mode": 0o666,
        "unix_owner": None,
        "unix_group": None,
        "backlog": 2048,
        "server_name": "aserve",
        "mount": (),
        "static": (),
        "static_index": ("index.html",),
        "static_expires": (),
        "static_fields": (),
        "static_symlinks": False,
        "x_sendfile": (),
        "compress": False,
        "compress_min_bytes": 1024,
        "workers": None,
        "preload": False,
        "warm_up": (),
        "start_seconds": 0.0,
        "attach": (),
        "cron": (),
        "spooler": (),
        "spooler_processes": 1,
        "spooler_seconds": 0.0,
        "spooler_max_jobs": 0,
        "spooler_import": (),
        "touch_reload": (),
        "reload_at_once": False,
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
        "underscore_fields": (),
        "max_connections": 0,
        "max_connection_requests": 0,
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
        "max_connection_seconds": 0.0,
        "head_seconds": 30.0,
        "body_seconds": 60.0,
        "write_seconds": 60.0,
        "min_rate_bytes": 240,
        "request_seconds": 0.0,
        "keep_half_closed": False,
        "max_stuck": 32,
        "drain_seconds": 30.0,
        "drain_delay_seconds": 0.0,
        "healthcheck_path": None,
        "healthcheck_max_wait_seconds": 10.0,
        "max_requests": 0,
        "max_requests_jitter": 0,
        "max_lifetime_seconds": 0.0,
        "max_lifetime_jitter_seconds": 0.0,
        "max_rss_bytes": 0,
        "max_pss_bytes": 0,
        "max_uss_bytes": 0,
        "hang_warning_seconds": 10.0,
        "hang_timeout_seconds": 60.0,
        "agent_check": None,
        "queue_wait_header": None,
        "proxy_status": None,
        "request_id_header": None,
        "metrics": None,
        "status_page": "local",
        "stats": None,
        "metrics_app": "on",
        "reload": False,
        "reload_extra": (),
        "reload_page": "auto",
        "statsd": None,
        "statsd_prefix": "aserve",
        "tracing": False,
        "user": None,
        "group": None,
        "umask": None,
        "chdir": None,
        "python_path": (),
        "env": (),
        "pid_file": None,
        "control": None,
        "access_log": None,
        "access_log_format": "combined",
        "access_log_skip": (),
        "slow_request_seconds": 0.0,
        "show_queries": False,
        "process_titles": False,
        "log_level": "info",
        "log_config": None,
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
    assert not set(keys) & {*COMMAND_NAMES, "check", "version", "help"}


def test_a_bind_may_have_the_whole_group():
    """What an https bind may have of its own is the group TLS, in its order."""
    assert [setting.key for setting in SETTINGS if setting.group == TLS] == list(TLS_KEYS)


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


@pytest.mark.parametrize("name", ["requests", "lifetime"])
def test_jitter_of_nothing(name):
    """A jitter varies a limit that is given."""
    unit = "_seconds" if name == "lifetime" else ""
    jitter = {f"max_{name}_jitter{unit}": 5}
    assert error_of(Config, **jitter) == f"max-{name}-jitter has nothing to vary; give max-{name}, too"
    assert Config(workers=1, **jitter, **{f"max_{name}{unit}": 5})


def test_the_platform():
    """What the platform says counts where no other source does, and is otherwise not even looked at."""
    assert from_sources(environ={"PORT": "5000"}).bind == ("0.0.0.0:5000",)
    for source in ({"argv": {"bind": "a:1"}}, {"environ": {"ASERVE_BIND": "a:1"}}, {"toml": {"bind": "a:1"}}):
        environ = {"PORT": "tcp://10.0.0.1:80", **source.get("environ", {})}
        assert from_sources(**{**source, "environ": environ}).bind == ("a:1",)
    assert error_of(from_sources, environ={"PORT": "web"}).startswith("PORT: '0.0.0.0:web': port 'web' is not a number")


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


def test_reload_implies():
    """The command has one worker with one thread, which nobody ends; what is said wins."""
    config = Config.from_sources({"reload": "on"}, {}, {})
    assert (config.workers, config.threads, config.hang_warning_seconds, config.hang_timeout_seconds) == (1, 1, 0, 0)
    config = Config.from_sources({"reload": "on", "workers": "3"}, {"ASERVE_THREADS": "8"}, {"hang-timeout": 5})
    assert (config.workers, config.threads, config.hang_timeout_seconds) == (3, 8, 5)
    assert Config.from_sources({}, {"ASERVE_RELOAD": "off"}, {}).workers is None


def test_reload_implies_at_a_terminal():
    """A line for each request, where somebody looks on, unless an access log is named; without --reload none."""

    def log_of(**given):
        config = Config.from_sources(given, {}, {}, is_at_terminal=True)
        return config.access_log, config.access_log_format

    assert log_of(reload="on") == ("-", "common")
    assert log_of(reload="on", access_log="log") == ("log", "combined")
    assert log_of(reload="on", access_log_format="json") == ("-", "json")
    assert log_of(reload="on", access_log_skip=["/static/*"]) == ("-", "common")
    assert log_of() == log_of(reload="off") == (None, "combined")
    assert Config.from_sources({"reload": "on"}, {}, {}).access_log is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"workers": 1, "reload": True, "preload": True}, "reload imports the app anew after each save"),
        ({"reload_extra": "templates"}, "reload-extra says what reload is to look at, too; give reload"),
    ],
)
def test_what_reload_goes_with(settings, text):
    """What would have no effect is refused."""
    with pytest.raises(ConfigError, match=text):
        Config(**settings)


# What a setting needs

# A value that asks for something, of each setting that has no effect without another.
IDLE = {
    "spooler_processes": 2, "spooler_seconds": 5, "spooler_max_jobs": 5, "spooler_import": ["a"], "static_index": ["a"], "static_expires": ["1m"],
    "static_fields": ["A: b"], "static_symlinks": True, "compress_min_bytes": 5, "statsd_prefix": "a", "reload_page": "on",
    "access_log_format": "json", "access_log_skip": ["/a"], "forwarded_fields": ["x-real-ip"], "underscore_fields": ["a_b"], "scgi_status": "line", "unix_mode": "600",
    "unix_owner": "a", "unix_group": "a", "key": "a", "sni": ["a=b"], "client_ca": "a", "client_certificate": "optional", "tls_min": "1.3",
    "ciphers": "A", "metrics_app": "on", "status_page": "all", "max_stuck": 3, "healthcheck_max_wait_seconds": 5, "hang_warning_seconds": 5,
    "hang_timeout_seconds": 5,
}  # fmt: skip
BASES = {
    "workers": 1, "spooler": ["a"], "static": ["/a=/b"], "compress": True, "statsd": "h:1", "reload": True, "access_log": "-", "request_seconds": 5,
    "trusted_proxies": ["unix"], "metrics": ":1", "healthcheck_path": "/a", "scgi://": "scgi://:1", "unix:": "unix:/a", "https://": "https://:1",
}  # fmt: skip


def test_idle_rows():
    """Each is tried here, but for those that are refused from whichever source."""
    assert {row.name for row in SETTINGS if row.needs and not row.needs.why} == {*IDLE}


@pytest.mark.parametrize("name", [name for name in IDLE if name != "metrics_app"])
def test_a_flag_without_effect(name):
    """It is refused, with what is missing; in a variable, a file or a program's own code it may be for another server."""
    (row,) = [row for row in SETTINGS if row.name == name]
    given = {name: IDLE[name]}
    with pytest.raises(
        ConfigError, match=rf"^{row.flag} has no effect without (--|a --bind with ).*; give that, or leave"
    ):
        from_sources(argv=given)
    assert getattr(from_sources(toml={row.key: IDLE[name]}), name) == getattr(Config(**given), name)
    base = row.needs.any_of[0]
    found = {"bind" if ":" in base else base: BASES[base], "workers": 1}
    if base == "https://":
        found.update({"certificate": "a", "client_ca": "a", "client_certificate": "optional"})
    assert from_sources(argv={**found, **given})


def test_a_flag_that_asks_for_nothing():
    """What is so by default, or switches off what is not there, needs nothing."""
    off = {
        "access_log_format": "combined",
        "metrics_app": "off",
        "status_page": "off",
        "hang_timeout_seconds": 0,
        "max_requests": 0,
    }
    assert from_sources(argv=off)
