"""The table of uWSGI's names is complete and true."""

import importlib
import pathlib
import subprocess
import sys

import pytest
from harness.uwsgi_names import ask_for_names

from aserve.compat.uwsgi_api import names as module
from aserve.compat.uwsgi_api.areas import AREAS
from aserve.compat.uwsgi_api.decorators import DECORATORS as SHARED_DECORATORS
from aserve.compat.uwsgi_api.metrics import METRICS
from aserve.compat.uwsgi_api.module import DECORATORS, RPC
from aserve.compat.uwsgi_api.names import ABSENT, HERE, NAMES, SAME, SET, why_missing
from aserve.compat.uwsgi_api.provided import PROVIDED
from aserve.compat.uwsgi_api.queues import QUEUE
from aserve.compat.uwsgi_api.spooler import functions as spooler


def test_what_is_here():
    """A name is in the module if, and only if, the table says so; likewise its decorators."""
    with_settings = {*spooler.FUNCTIONS, "spoolers", *QUEUE, "queue_size", *AREAS, *METRICS}
    here = {*RPC, *PROVIDED, *with_settings}
    assert here == {name for name, row in NAMES.items() if row.how in (SAME, HERE)}
    assert {*DECORATORS, *spooler.DECORATORS} == {name for name, row in module.DECORATORS.items() if row.how != ABSENT}
    assert with_settings == {name for name, row in NAMES.items() if row.needs and row.how != SET}
    assert {*SHARED_DECORATORS} <= {*DECORATORS}


def test_each_row_says_something():
    """A difference is told, and for a missing name, advice."""
    for name, row in {**NAMES, **module.DECORATORS}.items():
        assert row.text or row.how == SAME, name


def test_all_names_of_uwsgi(tmp_path):
    """All names of the real uWSGI are in the table, and all names of the table in it, but for names set by apps, and those of few builds."""
    found = ask_for_names(tmp_path)
    if not found:
        pytest.skip("uWSGI is not installed")
    rare = {"i_am_the_lord", "lord_scroll", "scrolls"}
    assert found - {*NAMES} == set()
    assert {name for name, row in NAMES.items() if row.how != SET} - found <= rare


def test_all_decorators_of_uwsgi():
    """So has uwsgidecorators."""
    spec = importlib.machinery.PathFinder.find_spec("uwsgidecorators")
    if spec is None:
        pytest.skip("uWSGI is not installed")
    source = pathlib.Path(spec.origin).read_text()
    found = {
        line.split()[1].partition("(")[0].rstrip(":")
        for line in source.splitlines()
        if line.startswith(("class ", "def "))
    }
    inner = {"manage_spool_request", "postfork_chain_hook", "spool_decorate"}
    inner |= {"farm_loop", "mule_brain", "mule_brainloop", "mulemsg_loop"}
    assert {name for name in found if name[0] != "_"} - inner <= {*module.DECORATORS}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "setprocname",
            "uwsgi.setprocname is not available under aserve; the package setproctitle does it; see `aserve docs uwsgi-names`",
        ),
        ("spool", "uwsgi.spool is not available under aserve; --spooler FOLDER offers it"),
        ("atexit", "uwsgi.atexit is not available under aserve; set it: it is called when a process ends"),
        ("cache_gett", "uwsgi.cache_gett is not available under aserve, nor in uWSGI; is cache_get meant?"),
        ("xyz", "uwsgi.xyz is not available under aserve, nor in uWSGI"),
    ],
)
def test_why_missing_is_one_short_line(name, text):
    assert why_missing("uwsgi", name, NAMES) == text


def test_the_page_is_named_without_its_link():
    """A terminal shows no links."""
    assert "`aserve docs nginx`; see" in why_missing("uwsgi", "route", NAMES)


def test_the_page_is_made_from_the_table():
    root = pathlib.Path(__file__).parents[3]
    made = subprocess.run(
        [sys.executable, root / "docs/make_uwsgi_names.py"], capture_output=True, text=True, check=True
    )
    assert made.stdout == (root / "docs/uwsgi-names.md").read_text()
