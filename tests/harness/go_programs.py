"""Programs in Go for tests: `.ci/go` builds those of tests/go."""

import os
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "build/go/bin"


def go_program(name: str) -> str:
    return str(FOLDER / name)


def needs_go_programs(*names: str) -> pytest.MarkDecorator:
    """Skip a test where one of them has not been built."""
    missing = [name for name in names if not os.access(FOLDER / name, os.X_OK)]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)}: not built; run .ci/go")
