"""The shared parts of the tests with Hypothesis."""

import itertools
import os
import random
import time
from typing import Any

import pytest
from harness.fuzzing import SECONDS
from hypothesis import HealthCheck, given, seed, settings


@pytest.fixture
def hold(capsys):
    """Try a property on so many examples, hold(property, count, **strategies); or for FUZZ_SECONDS."""

    def try_on(property: Any, count: int, **strategies: Any) -> None:
        options = settings(
            max_examples=count, deadline=None, database=None, print_blob=True, derandomize=not SECONDS,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        if not SECONDS:
            options(given(**strategies)(property))()
            return
        first = int(os.environ.get("FUZZ_SEED", "") or random.SystemRandom().getrandbits(32))
        with capsys.disabled():
            print(f"\n{property.__qualname__.partition('.')[0]}: FUZZ_SEED={first}")
        end = time.monotonic() + SECONDS / 2  # there are two properties of each protocol
        for number in itertools.count(first):
            seed(number)(options(given(**strategies)(property)))()
            if time.monotonic() > end:
                break

    return try_on
