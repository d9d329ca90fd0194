"""Where values of settings come from: precedence, messages, flags without effect."""

import importlib.util

import pytest
from harness.refusals import error_of

from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError
from aserve.settings.sources import Settings


def from_sources(argv=(), environ=(), toml=(), toml_name="site.toml"):
    return Config.from_sources(dict(argv), dict(environ), dict(toml), toml_name)


def test_precedence_is_argv_environment_toml_default():
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
        # Wrong, though argv wins: the mistake would show later.
        ({"toml": {"threads": "x"}, "argv": {"threads": "1"}}, "threads in site.toml: "),
    ],
)
def test_the_source_is_named(sources, beginning):
    """The user learns the place of the mistake."""
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
            {"toml": {"server": {"threads": 3}}},
            "site.toml has a table [server], and settings have none; write their keys directly at the top of the file",
        ),
        (
            {"toml": {"server": {}}, "toml_name": "/srv/pyproject.toml"},
            "/srv/pyproject.toml has a table [server], and settings have none; write their keys directly below [tool.aserve]",
        ),
        (
            {"environ": {"ASERVE_THREAD": "3"}},
            "unknown variable ASERVE_THREAD in the environment; did you mean ASERVE_THREADS?",
        ),
        (
            {"environ": {"ASERVE_BIN": ":80"}},
            "unknown variable ASERVE_BIN in the environment; did you mean ASERVE_BIND?",
        ),
        (
            {"environ": {"ASERVE_TRIAL": "3"}},
            "ASERVE_TRIAL is for aserve itself, when it is upgraded; unset it",
        ),
        (
            {"environ": {"ASERVE_CONFIGS": "a.toml"}},
            "unknown variable ASERVE_CONFIGS in the environment; did you mean ASERVE_CONFIG?",
        ),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(sources, text):
    assert error_of(from_sources, **sources) == text


def test_a_wrappers_variables():
    """Names unlike all settings, or with a value of no such setting, are a wrapper's: the start goes on without these variables."""
    environ = {
        "ASERVE_HOME": "/opt/aserve",
        "ASERVE_BIN": "/opt/aserve/bin/aserve",
        "ASERVE_ARGS": "-v",
        "ASERVE_THREADS": "3",
    }
    assert from_sources(environ=environ) == Config(threads=3)
    assert Config.unknown_variables(environ) == ["ASERVE_HOME", "ASERVE_BIN", "ASERVE_ARGS"]


def test_names_of_the_command_are_no_mistake():
    """`app` and `config` are read by the command, not here."""
    environ = {"ASERVE_APP": "a:b", "ASERVE_CONFIG": "c"}
    assert from_sources(environ=environ, toml={"app": "a:b"}) == Config()


def test_the_platform_counts_where_nothing_else_does():
    """Where another source counts, the platform is not even looked at."""
    assert from_sources(environ={"PORT": "5000"}).bind == ("0.0.0.0:5000",)
    for source in ({"argv": {"bind": "a:1"}}, {"environ": {"ASERVE_BIND": "a:1"}}, {"toml": {"bind": "a:1"}}):
        environ = {"PORT": "tcp://10.0.0.1:80", **source.get("environ", {})}
        assert from_sources(**{**source, "environ": environ}).bind == ("a:1",)
    assert error_of(from_sources, environ={"PORT": "web"}).startswith("PORT: '0.0.0.0:web': port 'web' is not a number")


IDLE = {
    "spooler_processes": 2, "spooler_seconds": 5, "spooler_max_jobs": 5, "spooler_import": ["a"], "uwsgi_farm": ["a:1"], "static_index": ["a"], "static_expires": ["1m"],
    "static_fields": ["A: b"], "static_symlinks": True, "compress_min_bytes": 5, "statsd_prefix": "a", "reload_page": "on",
    "access_log_format": "json", "access_log_copy": ["/a"], "add_group": ["games"], "access_log_skip": ["/a"], "forwarded_fields": ["x-real-ip"], "underscore_fields": ["a_b"], "scgi_status": "line", "unix_mode": "600",
    "unix_owner": "a", "unix_group": "a", "key": "a", "sni": ["a=b"], "client_ca": "a", "client_certificate": "optional", "tls_min": "1.3",
    "ciphers": "A", "metrics_app": "on", "metrics_mode": "660", "status_page": "all", "max_stuck": 3, "healthcheck_max_wait_seconds": 5, "hang_warning_seconds": 5,
    "hang_timeout_seconds": 5, "https_folder": "/a", "acme_directory": "https://a.example/dir", "acme_terms": "accept", "acme_email": "a@b.example", "acme_ca": "/a",
    "hsts": "300", "max_streams": 5,
}  # fmt: skip


BASES = {
    "workers": 1, "spooler": ["a"], "uwsgi_mule": ["-"], "static": ["/a=/b"], "compress": True, "statsd": "h:1", "reload": True, "access_log": "-", "request_seconds": 5,
    "trusted_proxies": ["unix"], "user": "nobody", "metrics": ":1", "healthcheck_path": "/a", "scgi://": "scgi://:1", "unix:": "unix:/a", "https://": "https://:1", "https": "a.example",
}  # fmt: skip


# Settings without a need: a new setting stands here, or has `needs` in the row and stands above.
ALWAYS = """
    bind threads extra_threads websockets loop http_parser body lane native backlog server_name http2 add_field shared uwsgi_module uwsgi_cache
    uwsgi_queue uwsgi_sharedarea uwsgi_metric maintenance route mount static x_sendfile compress workers https https_redirect trusted_proxies
    environ_as scheme_fields max_connections max_body_bytes body_memory_bytes max_head_bytes max_request_line_bytes max_fields max_pipelined
    write_buffer_bytes response_spool_bytes response_memory_bytes body_spool_total_bytes response_spool_total_bytes spool_files max_connection_requests
    keep_alive_seconds head_seconds body_seconds write_seconds min_rate_bytes request_seconds keep_half_closed drain_seconds drain_delay_seconds
    max_connection_seconds healthcheck_path proxy_status agent_check queue_wait_header metrics statsd stats tracing user group umask chdir python_path
    env pid_file dropped_guards argv process_titles control request_id_header show_queries log_level log_config slow_request_seconds access_log
"""


def test_every_setting_is_known_with_what_it_needs():
    """Each that needs another one is tried here, but for those that are refused from whichever source."""
    assert {row.name for row in SETTINGS if row.needs and not row.needs.why} == {*IDLE}
    assert {row.name for row in SETTINGS if not row.needs} == {*ALWAYS.split()}


@pytest.mark.parametrize("given", [{"http2": "off", "bind": "https://:1", "certificate": "a"}, {"bind": ":1"}])
def test_streams_without_http2(given):
    """--max-streams needs HTTP/2, and not only TLS; for proxies without TLS h2c is enough."""
    with pytest.raises(ConfigError, match=r"^--max-streams has no effect without a --bind with https:// or --http2;"):
        from_sources(argv={"max_streams": 5, **given})


@pytest.mark.parametrize("name", IDLE)
def test_a_flag_without_effect(name, monkeypatch):
    """The setting is refused, with the missing setting; in a variable, a file or a program's own code the setting may be for another server."""
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
    if base == "https":
        found["acme_terms"] = "accept"
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())  # its library
    assert from_sources(argv={**found, **given})


def test_what_needs_another():
    """The setting is refused from every source, and in a program's own code; the line names the missing setting."""
    text = "^--preload needs --workers: a process cannot replace itself; --workers 1 is enough$"
    for given in (lambda: from_sources(toml={"preload": True}), lambda: Config(preload=True)):
        with pytest.raises(ConfigError, match=text):
            given()
    assert from_sources(toml={"preload": True, "workers": 1}).preload


def test_values_without_a_rule_imply_nothing():
    """A class of settings may imply values; only the engine's class does."""
    assert Settings.implied({"threads": 3}, True) == {}
    assert from_sources(toml={"threads": 3}).threads == 3


def test_a_flag_that_asks_for_nothing():
    """A default, or a switch for an absent part, needs nothing."""
    off = {
        "access_log_format": "combined",
        "metrics_app": "off",
        "status_page": "off",
        "hang_timeout_seconds": 0,
        "max_requests": 0,
    }
    assert from_sources(argv=off)
