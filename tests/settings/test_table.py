"""The table of settings: rows, combinations, precedence, messages, and the page made from the table."""

import importlib.util
import pathlib
import sys

import pytest
from harness.benchmarks import load_module
from harness.refusals import error_of

from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError, parse_bind
from aserve.settings.bind import TLS_KEYS
from aserve.settings.table import TLS, EngineSettings

pytestmark = pytest.mark.long_on_pypy

ROOT = pathlib.Path(__file__).parent.parent.parent


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
    """A setting for replaced workers is refused without workers."""
    with pytest.raises(ConfigError, match=r"^--[a-z-]+ needs --workers: .*--workers 1 is enough"):
        Config(**settings)
    assert Config(workers=1, **settings)


def test_what_is_warmed_up():
    """Paths, with a host or without; only processes of a supervisor can be warmed up."""
    config = Config(workers=1, preload=True, warm_up="/cart?id=%C3%A9 shop.example:8000/ [::1]/a")
    assert config.warm_up == ("/cart?id=%C3%A9", "shop.example:8000/", "[::1]/a")
    for wrong in ("cart", "http://shop/", "/a\r\nb", "/\xe9", "shop/ x", ["/a b"]):
        with pytest.raises(
            ConfigError, match=r"^warm_up: .* is neither a path nor a host and a path; accepted: paths such"
        ):
            Config(workers=1, preload=True, warm_up=wrong)
    assert Config(workers=1, warm_up=["/"]).warm_up == ("/",)
    with pytest.raises(ConfigError, match=r"^--warm-up needs --workers: "):
        Config(warm_up=["/"])


def test_workers_need_linux(monkeypatch):
    """Elsewhere one process serves, and a line says so."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match=r"^--workers \(4\) needs Linux"):
        Config(workers=4)
    assert Config()


def test_proxies_must_be_named():
    """A setting for proxies is refused without a named proxy."""
    assert "trusted-proxies" in error_of(Config, bind=["127.0.0.1:80", "proxy+http://:1"])
    assert "'*'" in error_of(Config, trusted_hops=1)
    assert Config(bind="proxy+http://:1", trusted_proxies="*", trusted_hops=1).trusted_hops == 1


@pytest.mark.parametrize(("setting", "package"), [("loop", "uvloop"), ("http_parser", "httptools")])
def test_missing_package_is_refused_with_the_remedy(monkeypatch, setting, package):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys.implementation, "name", "cpython")
    assert f"pip install {package}" in error_of(Config, **{setting: package})
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert f"{package} does not exist for pypy" in error_of(Config, **{setting: package})


@pytest.mark.parametrize(("setting", "package"), [("loop", "uvloop"), ("http_parser", "httptools")])
def test_present_package_is_taken(monkeypatch, setting, package):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert getattr(Config(**{setting: package}), setting) == package


# Config


def test_a_bind_may_have_the_whole_group():
    """The settings of an https bind are the group TLS, in the same order."""
    assert [setting.key for setting in SETTINGS if setting.group == TLS] == list(TLS_KEYS)


# TLS


def tls_of(*binds, **settings):
    """Return the TLS settings of each bind."""
    config = Config(bind=binds, **settings)
    return [config.tls_settings(parse_bind(bind)) for bind in config.bind if bind.startswith("https:")]


def test_tls_settings_hold_for_all_https_binds():
    """An option of a bind comes before the settings."""
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
    # The common key cannot belong to the certificate of this bind.
    assert two[:6] == ("c2", None, ("a.org=x", "b.org=y:z"), "ca", "required", "1.3")
    assert three == ("c", "k3", ("a.org=s:t",), "ca", "none", "1.2", "ECDHE")


def test_tls_settings_of_a_table():
    """In TOML an https bind may be a table, with the same options as keys."""
    toml = {"bind": [":80", {"address": "https://:1", "certificate": "a,b", "sni": ["a.org=x", "b.org=y"]}]}
    config = Config.from_sources({}, {}, toml)
    assert config.bind == (":80", "https://:1?certificate=a%2Cb&sni=a.org=x&sni=b.org=y")
    assert config.tls_settings(parse_bind(config.bind[1]))[:3] == ("a,b", None, ("a.org=x", "b.org=y"))
    assert Config.from_sources({}, {}, {"bind": {"address": ":80"}}).bind == (":80",)


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
    """The message names the missing part, and a certificate without a bind is no silent mistake."""
    assert reason in error_of(Config, bind=binds, **settings)


# Sources


@pytest.mark.parametrize("name", ["requests", "lifetime"])
def test_jitter_of_nothing(name):
    """A jitter varies a given limit."""
    unit = "_seconds" if name == "lifetime" else ""
    jitter = {f"max_{name}_jitter{unit}": 5}
    assert error_of(Config, **jitter) == f"--max-{name}-jitter has nothing to vary; give --max-{name}, too"
    assert Config(workers=1, **jitter, **{f"max_{name}{unit}": 5})


# The page


@pytest.mark.checkout
def test_settings_page_is_up_to_date():
    """docs/settings.md equals the output of `make docs`: each setting has the default of the page."""
    module = load_module(ROOT / "docs/make_settings.py")
    assert (ROOT / "docs/settings.md").read_text() == module.build_page(), "run `make docs`"
    shown = module.with_links("see `aserve docs a-b`; `--cd` e, --fg 3, and --hi - or --jk-l")
    assert shown == "see [a-b.md](a-b.md); `--cd` e, `--fg 3`, and `--hi -` or `--jk-l`"


def test_reload_implies_one_worker_with_one_thread():
    """Nobody ends the worker; a setting given wins."""
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
        ({"workers": 1, "reload": True, "preload": True}, "--reload imports the app anew after each save"),
        ({"reload_extra": "templates"}, "--reload-extra adds files for --reload to watch; give --reload, too"),
    ],
)
def test_what_reload_goes_with(settings, text):
    """A setting without effect is refused."""
    with pytest.raises(ConfigError, match=text):
        Config(**settings)


def test_binds_that_speak_tls():
    """TLS binds are found by their protocol, with their options."""
    config = Config(bind=[":80", "https://:443", "https://unix:/run/s?tls-min=1.3", "uwsgi://:1"], certificate="a.pem")
    assert [bind.spec for bind in config.tls_binds] == ["https://:443", "https://unix:/run/s?tls-min=1.3"]
    assert Config(bind=":80").tls_binds == []


def test_the_number_of_workers_is_the_wanted_number():
    """An option may choose another: features/scaling.py."""
    assert EngineSettings().workers_after(wanted=3, present=5) == 3
