"""uWSGI's options: the table itself."""

import collections
import pathlib

import pytest
from harness.benchmarks import load_module

from aserve.compat.moving import gunicorn_table
from aserve.compat.moving.draft import BY_KEY
from aserve.compat.moving.uwsgi_table import ROWS, TABLE

pytestmark = pytest.mark.long_on_pypy

ROOT = pathlib.Path(__file__).parents[3]
# The options of 86 configurations of public projects, most frequent first.
COMMON = [
    "master", "processes", "module", "chdir", "socket", "vacuum", "chmod-socket", "threads", "enable-threads",
    "die-on-term", "wsgi-file", "buffer-size", "uid", "gid", "harakiri", "plugins", "max-requests", "virtualenv",
    "home", "http", "pidfile", "single-interpreter", "env", "callable", "http-socket", "logto", "daemonize",
    "disable-logging", "memory-report", "stats", "listen", "post-buffering", "lazy-apps", "thunder-lock", "logger",
    "reload-on-rss", "max-worker-lifetime", "touch-reload", "chown-socket", "socket-timeout", "auto-procname",
    "disable-write-exception", "strict", "cheaper", "need-app", "worker-reload-mercy", "log-5xx", "log-format",
    "harakiri-verbose", "ignore-sigpipe", "ignore-write-errors", "stats-http", "manage-script-name", "pythonpath",
    "offload-threads", "static-map", "mount", "cheaper-initial", "cheaper-step", "cheaper-algo", "log-4xx",
    "no-orphans", "http-timeout", "log-maxsize", "vhost", "procname-prefix-spaced", "if-env", "attach-daemon",
    "http-auto-chunked", "py-call-osafterfork", "add-header", "uwsgi-socket", "protocol", "umask", "req-logger",
    "ini", "limit-post", "gevent", "log-backupname", "show-config", "log-encoder", "log-route", "procname-prefix",
    "harakiri-graceful-timeout", "master-fifo", "log-x-forwarded-for", "exit-on-reload", "http-raw-body", "route-if",
    "route-user-agent", "spooler", "unique-cron", "https", "hook-post-fork", "ksm", "static-expires",
    "evil-reload-on-rss",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMON)
def test_what_people_have(name):
    """Each is known."""
    assert TABLE.find(name) is not None


@pytest.mark.checkout
@pytest.mark.parametrize("name", ["uwsgi-options", "gunicorn", "granian", "waitress", "mod_wsgi"])
def test_the_pages_show_the_table(name):
    make_moving = load_module(ROOT / "docs/make_moving.py")
    name = f"moving-from-{name}.md"
    text = (ROOT / "docs" / name).read_text()
    assert make_moving.build_page(text, make_moving.PAGES[name]) == text, "run `make docs`"


@pytest.mark.parametrize("rows", [ROWS, gunicorn_table.ROWS], ids=["uwsgi", "gunicorn"])
def test_rows_have_each_name_once(rows):
    """A name is in a single row; each row tells the outcome; our names are ours."""
    names = collections.Counter(name for row in rows for name in row.names)
    assert [name for name, count in names.items() if count > 1] == []
    for row in rows:
        assert row.take is not None or row.text, row.names
        assert row.text[:1] != " " and row.text.strip(".") == row.text, row.names
        assert not row.is_told or row.take is None, row.names
        for key in row.to:
            assert key in BY_KEY or key == "APP", key
