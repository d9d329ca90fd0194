"""gunicorn's settings: the table itself."""

import pytest

from aserve.compat.moving.gunicorn_table import FLAGS, SWITCHES, TABLE

pytestmark = pytest.mark.long_on_pypy

# The settings of 50 configurations of public projects, most frequent first.
COMMON = [
    "bind", "workers", "timeout", "worker_class", "accesslog", "errorlog", "max_requests", "max_requests_jitter",
    "loglevel", "keepalive", "threads", "preload_app", "worker_connections", "access_log_format", "graceful_timeout",
    "pidfile", "daemon", "user", "group", "limit_request_line", "worker_tmp_dir", "limit_request_fields",
    "limit_request_field_size", "proc_name", "tmp_upload_dir", "when_ready", "capture_output", "post_worker_init",
    "backlog", "pre_fork", "post_fork", "on_starting", "reload", "on_reload", "pre_exec", "worker_abort",
    "worker_int", "forwarded_allow_ips", "statsd_host", "child_exit", "enable_stdio_inheritance", "pre_request",
    "post_request", "nworkers_changed", "logconfig_dict", "worker_exit", "control_socket_disable", "statsd_prefix",
    "wsgi_app", "keyfile", "certfile", "chdir",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMON)
def test_what_people_have(name):
    """Each is known."""
    assert TABLE.find(name) is not None


def test_flags_are_of_known_settings():
    assert all(TABLE.find(name) is not None for name in [*FLAGS.values(), *SWITCHES])
