"""gunicorn's settings: the table itself."""

import collections

import pytest

from aserve.compat.moving.draft import BY_KEY
from aserve.compat.moving.gunicorn_table import FLAGS, ROWS, SWITCHES, TABLE

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


def test_rows_have_each_name_once():
    """A name is in a single row; each row tells the outcome; our names are ours."""
    names = collections.Counter(name for row in ROWS for name in row.names)
    assert [name for name, count in names.items() if count > 1] == []
    for row in ROWS:
        assert row.take is not None or row.text, row.names
        assert not row.is_told or row.take is None, row.names
        for key in row.to:
            assert key in BY_KEY or key == "APP", key


def test_flags_are_of_known_settings():
    assert all(TABLE.find(name) is not None for name in [*FLAGS.values(), *SWITCHES])
