"""What whoever types another server's flags is told."""

from __future__ import annotations

import pathlib
import re

import pytest

from aserve.compat.moving.foreign_flags import explain_flag
from aserve.compat.moving.gunicorn_table import FLAGS, ROWS
from aserve.features import SETTINGS

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--graceful-timeout", "gunicorn has it, and here it is --drain-timeout"),
        ("--limit-request-fields", "gunicorn has it, and here it is --max-fields"),
        ("--timeout", "gunicorn has it, and here it is --request-timeout and --hang-timeout: of one thread it is"),
        ("--access-logfile", "gunicorn has it, and here it is --access-log"),
        ("--error-logfile", "gunicorn has it; leave it out: messages go to standard error"),
        ("-k", "gunicorn has it, and here it is --threads: sync and gthread are threads"),
        ("--worker-tmp-dir", "gunicorn has it; leave it out: workers show"),
        ("--statsd-host", "gunicorn has it, and here it is --statsd: with gunicorn's names"),
        ("--dogstatsd-tags", "gunicorn has it; leave it out: the names have no tags"),
        ("--http-socket", "uWSGI has it, and here it is --bind"),
        ("--wsgi-file", "uWSGI has it, and here it is the first argument: a relative path"),
        ("--vacuum", "uWSGI has it; leave it out: it is always so"),
        ("--listen", "give --bind HOST:PORT"),
        ("--http", "leave it out"),
        ("--ident", "give --server-name"),
        ("--channel-timeout", "give --keep-alive, --head-timeout"),
        ("--recv-bytes", "leave it out: nothing"),
        ("--ini", "uWSGI's file is here --uwsgi-ini FILE"),
    ],
)
def test_what_they_are_here(flag, said):
    """A flag of ours, or none that is needed."""
    assert explain_flag(flag).startswith(said)


@pytest.mark.parametrize("flag", ["--xyzzy", "--thread", "-s", "--cheaper-x", "--statsd-x"])
def test_flags_of_nobody(flag):
    """Mistyped ones, short ones of uWSGI's, and families."""
    assert explain_flag(flag) == ""


def test_each_of_gunicorns():
    """Each setting's flag has a sentence, but for those that only a file can have."""
    for flag in [*FLAGS, *(f"--{name.replace('_', '-')}" for row in ROWS for name in row.names if name[-1] != "*")]:
        assert explain_flag(flag) or flag == "-c"


@pytest.mark.checkout
@pytest.mark.parametrize("server", ["waitress", "granian"])
def test_each_of_a_moving_page(server):
    """Each flag of the other server in the table of its moving page is aserve's own, or has a sentence."""
    page = pathlib.Path(__file__).parents[3] / f"docs/moving-from-{server}.md"
    table = page.read_text().partition("\n## Flags\n")[2]
    cells = re.findall(r"^\| (`--.*?) \|", table, re.M)
    flags = [flag for cell in cells for flag in re.findall(r"`(--[a-z0-9-]+)", cell)]
    ours = {"--host", "--port", *(setting.flag for setting in SETTINGS)}
    assert len(flags) > 25
    assert [flag for flag in flags if flag not in ours and not explain_flag(flag)] == []
