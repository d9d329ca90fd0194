"""The fixtures of the tests of native/: each part of it against its twin in Python."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def native() -> Any:
    """The module; a test that asks for it is skipped where it is not built."""
    return pytest.importorskip("aserve._native", reason="aserve._native is not built here")
