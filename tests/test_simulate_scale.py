"""The plan on paper: the tables are the simulation's, and the simulation agrees with theory."""

import pathlib
import random
import runpy

import pytest
from harness.interpreter import ONCE

ROOT = pathlib.Path(__file__).parent.parent
pytestmark = [pytest.mark.checkout, ONCE]


@pytest.fixture(scope="module")
def scale():
    """Return the simulation's names."""
    return runpy.run_path(str(ROOT / "docs/simulate_scale.py"))


@pytest.mark.long  # ten seconds of simulation
def test_the_page_has_the_tables_of_make_docs(scale):
    page = (ROOT / "docs/scale.md").read_text()
    assert scale["build_page"](page) == page


def test_one_server_is_as_in_theory(scale):
    """A single thread, M/M/1: a request waits for rho / (1 - rho), and the response times are exponential."""
    assert scale["mean_wait"](0.5, 1) == pytest.approx(1.0)
    assert scale["mean_wait"](0.8, 1) == pytest.approx(4.0)
    seen = scale["simulate"](0.5, 1, 1)
    assert seen.median == pytest.approx(2 * 0.693, rel=0.05)
    assert seen.p99 == pytest.approx(2 * 4.605, rel=0.1)


def test_a_slow_host_gets_less(scale):
    """By free threads a slow host gets a fitting share."""
    Host, AgentCheck = scale["Host"], scale["AgentCheck"]
    hosts = [Host(2, 1.0), Host(2, 1.0)]
    for _ in range(2):
        hosts[0].serve(0.0, 10.0)
    way = AgentCheck(hosts, random.Random(1))
    chosen = [way.choose(1.0) for _ in range(200)]
    assert chosen.count(hosts[0]) < 10
    assert hosts[0].count_at(11.0) == 0
