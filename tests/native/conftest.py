"""The fixtures of the tests of native/: each part against the twin in Python."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def native() -> Any:
    """The module; a test with this fixture is skipped where the module is not built."""
    return pytest.importorskip("aserve._native", reason="aserve._native is not built here")


@pytest.fixture
def forget(native: Any) -> Iterator[None]:
    """Begin a test with nothing kept, and leave nothing."""
    native.forget()
    yield
    native.forget()
