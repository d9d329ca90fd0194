"""Requests and answers of every kind, over sockets: C and Python give the same octets, environs and log lines.

A hundred examples, the same ones every time; with FUZZ_SECONDS=60 (`make fuzz`) as many others as that time allows, from a seed
that is shown, and that FUZZ_SEED repeats.
"""

import itertools
import os
import random
import time

import pytest
from harness.twins import Twin, examples
from hypothesis import HealthCheck, given, seed, settings

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
COUNT = 100


@pytest.fixture
def twins(tmp_path):
    """Two servers of the same app, in C and in Python."""
    twins = [Twin(native, tmp_path) for native in ("auto", "off")]
    yield twins
    for twin in twins:
        twin.server.stop()


@pytest.mark.timeout(SECONDS + 400)  # Hypothesis makes a found case small, for minutes
@pytest.mark.provokes("")
def test_no_difference_between_c_and_python(twins, capsys):
    """Neither a client, nor the app, nor a reader of the log can tell the way of a request."""

    def same(example):
        in_c, in_python = (twin.serve(*example) for twin in twins)
        for what in in_python:
            assert in_c[what] == in_python[what], what

    options = settings(
        max_examples=COUNT, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    first, end = 0, time.monotonic() + SECONDS
    if SECONDS:
        first = int(os.environ.get("FUZZ_SEED", "") or random.SystemRandom().getrandbits(32))
        with capsys.disabled():
            print(f"\ntest_no_difference_between_c_and_python: FUZZ_SEED={first}")
    for number in itertools.count(first):
        seed(number)(options(given(examples)(same)))()
        if time.monotonic() >= end:
            break
    # Half of the examples are plain: 63 to 263 requests, by the seed.
    assert twins[0].server.server._listening.lane.native.engine.plain_count > COUNT // 4
