"""The corpus in C: compiled with every warning, run against guard pages under the sanitizers; the lane between threads."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.checkout

FUZZ = pathlib.Path(__file__).parents[1] / "fuzz"


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in tests/fuzz."""
    command = ["make", "-C", str(FUZZ), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def need(*programs: str) -> None:
    """Skip without these programs."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")


def need_sanitizer(compiler: str, names: str, folder: pathlib.Path) -> None:
    """Skip where a C compiler has no such sanitizers, or they do not run."""
    need("make", compiler)
    source, program = folder / "probe.c", folder / "probe"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run([compiler, f"-fsanitize={names}", "-o", program, source], capture_output=True)
    if built.returncode or subprocess.run([program], capture_output=True).returncode:
        pytest.skip(f"{compiler}'s sanitizers ({names}) are not here")


@pytest.fixture
def need_sanitizers(tmp_path):
    """Skip where the C compiler has no sanitizers, or they do not run."""
    need_sanitizer("cc", "address,undefined", tmp_path)


@pytest.mark.parametrize("parser", ["http1", "chunked", "uwsgi", "scgi"])
def test_replay(parser, need_sanitizers, tmp_path):
    """The parser keeps the promises of its fuzz target for each file of the corpus."""
    ran = make(f"replay-{parser}", f"BIN={tmp_path}")
    assert ran.returncode == 0, ran.stdout
    assert "files kept every promise" in ran.stdout


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warning(compiler, tmp_path):
    """Every C source is C99 without a warning."""
    need("make", compiler)
    ran = make("check", f"CC={compiler}", f"BIN={tmp_path}")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="a lane needs Linux")
def test_race(tmp_path):
    """A lane between threads, as a server uses it, keeps its promises; the thread sanitizer sees no race."""
    need_sanitizer("clang", "thread", tmp_path)
    ran = make("race", f"BIN={tmp_path}", "SECONDS=3")
    assert ran.returncode == 0, ran.stdout
    assert "every promise kept" in ran.stdout
