"""Modules outside of packages, for tests; modules of benchmarks/ find one another beside them."""

import importlib.util
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


def load_module(path: pathlib.Path) -> ModuleType:
    """Return a file as its own module, run anew."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
