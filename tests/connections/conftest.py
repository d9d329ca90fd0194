"""What the tests of connections share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harness.fakes import Bench
from harness.replies import echo


@pytest.fixture
def new() -> Iterator[Callable[..., tuple[Bench, Any, Any]]]:
    """Make a bench with a client: new(app, **settings) -> bench, connection, transport."""
    benches: list[Bench] = []

    def make(app: Any = echo, **settings: Any) -> tuple[Bench, Any, Any]:
        bench = Bench(app, **settings)
        benches.append(bench)
        return (bench, *bench.connect())

    yield make
    for bench in benches:
        bench.dispose()
