"""Rules tested by promtool, on series that a test gives it."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from typing import Any

HAS_PROMTOOL = shutil.which("promtool") is not None

Samples = dict[str, float]  # by labels as promtool writes them: '{alertname="A"}'


def raised(alerts: str, seconds: int, severity: str = ".*") -> str:
    """Return what gives 1 if one of these alerts was raised in so many seconds."""
    return (
        f'group(max_over_time(ALERTS{{alertstate="firing",alertname=~"{alerts}",severity=~"{severity}"}}[{seconds}s]))'
    )


class RuleTest:
    """Series, and what expressions give at a time after they have begun."""

    def __init__(self, series: list[dict[str, str]], interval_seconds: int) -> None:
        self._group: dict[str, Any] = {
            "interval": f"{interval_seconds}s", "input_series": series, "promql_expr_test": [],
        }  # fmt: skip

    def expect(self, expr: str, at_seconds: int, samples: Samples) -> None:
        """Say what an expression is to give."""
        expected = [{"labels": labels, "value": value} for labels, value in samples.items()]
        self._group["promql_expr_test"].append({"expr": expr, "eval_time": f"{at_seconds}s", "exp_samples": expected})

    @property
    def group(self) -> dict[str, Any]:
        """As promtool reads it."""
        return self._group


def run(tests: list[RuleTest], rules: pathlib.Path | None, folder: pathlib.Path, interval_seconds: int = 15) -> str:
    """Run tests, on rules that are evaluated so often if there are any; return what is wrong, "": nothing."""
    # JSON is YAML.
    text = {
        "rule_files": [str(rules)] if rules else [], "evaluation_interval": f"{interval_seconds}s", "tests": [one.group for one in tests],
    }  # fmt: skip
    path = folder / "rule-tests.yml"
    path.write_text(json.dumps(text))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
