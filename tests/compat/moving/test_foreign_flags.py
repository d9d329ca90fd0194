"""The answer to another server's flags."""

import re

import pytest

from aserve.compat.moving.foreign_flags import SERVERS, explain_flag
from aserve.compat.moving.gunicorn_table import FLAGS, ROWS
from aserve.features import SETTINGS

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--graceful-timeout", "gunicorn has it; for aserve write --drain-timeout"),
        ("--limit-request-fields", "gunicorn has it; for aserve write --max-fields"),
        ("--timeout", "gunicorn has it; for aserve write --request-timeout and --hang-timeout: with one thread --req"),
        ("--access-logfile", "gunicorn has it; for aserve write --access-log"),
        ("--error-logfile", "gunicorn has it; leave it out: messages go to standard error"),
        ("-k", "gunicorn has it; for aserve write --threads: sync and gthread are threads"),
        ("--worker-tmp-dir", "gunicorn has it; leave it out: workers show"),
        ("--statsd-host", "gunicorn has it; for aserve write --statsd: with gunicorn's names"),
        ("--dogstatsd-tags", "gunicorn has it; leave it out: the names have no tags"),
        ("--http-socket", "uWSGI has it; for aserve write --bind"),
        ("--wsgi-file", "uWSGI has it; for aserve write the first argument: a relative path"),
        ("--vacuum", "uWSGI has it; leave it out: it is always so"),
        ("--listen", "for waitress give --bind HOST:PORT; uWSGI has it; for aserve write --backlog"),
        ("--http", "for granian or uvicorn leave it out"),
        ("--uds", "give --bind unix:PATH"),
        ("--processes", "uWSGI has it; for aserve write --workers"),  # as mod_wsgi's
        ("--callable-object", "the first argument names it: /srv/app.wsgi:app"),
        ("--timeout-graceful-shutdown", "give --drain-timeout"),
        ("--ident", "give --server-name"),
        ("--channel-timeout", "give --keep-alive, --head-timeout"),
        ("--recv-bytes", "leave it out: nothing"),
        ("--ini", "uWSGI's file is here --uwsgi-ini FILE"),
    ],
)
def test_what_they_are_here(flag, said):
    """A flag of ours, or none."""
    assert explain_flag(flag).startswith(said)


@pytest.mark.parametrize("flag", ["--xyzzy", "--thread", "-s", "--cheaper-x", "--statsd-x"])
def test_flags_of_nobody(flag):
    """Mistyped flags, short flags of uWSGI, and families."""
    assert explain_flag(flag) == ""


def test_each_of_gunicorns():
    """Each setting's flag has a sentence, but for settings of a file alone."""
    for flag in [*FLAGS, *(f"--{name.replace('_', '-')}" for row in ROWS for name in row.names if name[-1] != "*")]:
        assert explain_flag(flag) or flag == "-c"


OURS = {"--host", "--port", *(setting.flag for setting in SETTINGS)}
# Flags of aserve's with another meaning, or no value, there.
UNLIKE = {"--access-log", "--http2", "--metrics", "--server-name"}


@pytest.mark.parametrize("server", SERVERS)
def test_each_of_another_server(server):
    """Each flag is in a single row; the flag is aserve's, or has a sentence; and a row's own flags are aserve's."""
    flags = [flag for row in SERVERS[server] for flag in row.names]
    assert len(flags) == len({*flags})
    for row in SERVERS[server]:
        assert {*re.findall("`(--[a-z0-9-]+)", row.text)} <= OURS, row.text
        for flag in row.names:
            assert (flag in OURS) == (row.text.startswith("the same") or flag in UNLIKE), flag
            assert explain_flag(flag)
