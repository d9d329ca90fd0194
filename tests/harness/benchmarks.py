"""The modules of benchmarks/, for tests: it is no package, and its programs find one another beside them."""

from __future__ import annotations

import importlib
import pathlib
import sys
from types import ModuleType

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


def modules(*names: str) -> list[ModuleType]:
    """Import these; they stay the only ones of their names."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(BENCHMARKS))
