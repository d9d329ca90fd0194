"""The whole suite runs in steps, which together are all tests, and a run that was stopped goes on."""

from __future__ import annotations

import pathlib
import sys

import pytest
import whole
from harness.interpreter import ONCE

pytestmark = [pytest.mark.checkout, ONCE]

TESTS = pathlib.Path(__file__).parent
VENV = sys.prefix  # of the interpreter that runs this: `make test-all` has other names


def test_steps_are_all_tests():
    """Each file is in one step of a round, and no step has many of e2e."""
    steps = whole.steps_of([".venv", ".venv-pypy"], rounds=2)
    for number, venv in [(1, ".venv"), (1, ".venv-pypy"), (2, ".venv")]:
        paths = [path for step in steps if (step.round, step.venv) == (number, venv) for path in step.paths]
        assert sorted(paths) == sorted(str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("test_*.py"))
    assert len({step[:3] for step in steps}) == len(steps)
    assert max(len(step.paths) for step in steps if step.name.startswith("e2e")) <= whole.FILES_EACH


def test_it_goes_on(tmp_path, capsys):
    """What has passed with the same files is not run again; what has failed is, and keeps its log; a line that was cut off counts for nothing."""
    steps = [whole.Step(1, ".venv", name, (f"tests/{name}",)) for name in ("a", "b", "c")]
    statuses = {"a": [0], "b": [1, 0], "c": [0, 0]}

    def run(step, log):
        assert not log.exists()
        log.write_text("what pytest said")
        return statuses[step.name].pop(0)

    assert whole.run_steps(steps, tmp_path, "0abc", run) == [steps[1]]
    assert "2/3: round 1, .venv, b: FAILED, see " in capsys.readouterr().out
    with (tmp_path / "0abc.jsonl").open("a") as out:
        out.write('{"round": 1, "ve')
    assert whole.run_steps(steps, tmp_path, "0abc", run) == []
    assert capsys.readouterr().out.startswith("3 steps, 2 of them have passed before")
    steps[2] = steps[2]._replace(paths=("tests/c", "tests/d"))
    assert whole.run_steps(steps, tmp_path, "0abc", run) == []
    assert statuses == {"a": [], "b": [], "c": []}
    assert "failed before: round 1, .venv, b, see " in capsys.readouterr().out


def test_a_step_runs_pytest(tmp_path, monkeypatch):
    """All that it prints is in the log."""
    monkeypatch.setattr(whole, "SPREAD", ())
    file = tmp_path / "test_it.py"
    file.write_text("def test_it():\n    assert 1 == 2\n")
    log = tmp_path / "log"
    assert whole.run_step(whole.Step(1, VENV, "it", (str(file),)), log) == 1
    assert "assert 1 == 2" in log.read_text()


def test_a_step_that_hangs(tmp_path, monkeypatch):
    """It ends at its limit, and says so."""
    file = tmp_path / "test_it.py"
    file.write_text("import time\n\n\ndef test_it():\n    time.sleep(1000)\n")
    monkeypatch.setattr(whole, "SPREAD", ())
    monkeypatch.setattr(whole, "LIMIT_SECONDS", 1)
    log = tmp_path / "log"
    assert whole.run_step(whole.Step(1, VENV, "it", (str(file),)), log)
    assert "This has taken 1 s, its limit" in log.read_text()
