"""The corpus in C: compiled with every warning, run against guard pages under the sanitizers.

Longer runs are beside the suite: the fuzzers, and the lane under the thread sanitizer (.ci/beside).
"""

import pathlib
import shutil
import subprocess

import pytest
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

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


@pytest.fixture
def need_sanitizers(tmp_path):
    """Skip where clang has no sanitizers, or they do not run."""
    need("make", "clang")
    source, program = tmp_path / "probe.c", tmp_path / "probe"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(["clang", "-fsanitize=address,undefined", "-o", program, source], capture_output=True)
    if built.returncode or subprocess.run([program], capture_output=True).returncode:
        pytest.skip("clang's sanitizers are not here")


@pytest.mark.timeout(600)  # seconds; it compiles all of C twice: beyond 120 s at a load of 30 on two cores
def test_a_replay_keeps_every_promise(need_sanitizers, tmp_path):
    """Each parser keeps the promises of its fuzz target for each file of the corpus; one make compiles all, as most is shared."""
    ran = make("-j2", "--keep-going", "replay", f"BIN={tmp_path}")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.count("files kept every promise") == len(list(FUZZ.glob("fuzz_*.c"))), ran.stdout
