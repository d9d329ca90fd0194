"""Rules tested by promtool, on a test's series."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from typing import Any

HAS_PROMTOOL = shutil.which("promtool") is not None

Samples = dict[str, float]  # by labels in promtool's form: '{alertname="A"}'


def raised(alerts: str, seconds: int, severity: str = ".*") -> str:
    """Return an expression of 1 if one of these alerts was raised in so many seconds."""
    return (
        f'group(max_over_time(ALERTS{{alertstate="firing",alertname=~"{alerts}",severity=~"{severity}"}}[{seconds}s]))'
    )


class RuleTest:
    """Series, and expressions' values at a time after their begin."""

    def __init__(self, series: list[dict[str, str]], interval_seconds: int) -> None:
        self._group: dict[str, Any] = {
            "interval": f"{interval_seconds}s", "input_series": series, "promql_expr_test": [],
        }  # fmt: skip

    def expect(self, expr: str, at_seconds: int, samples: Samples) -> None:
        """Expect an expression's samples."""
        expected = [{"labels": labels, "value": value} for labels, value in samples.items()]
        self._group["promql_expr_test"].append({"expr": expr, "eval_time": f"{at_seconds}s", "exp_samples": expected})

    @property
    def group(self) -> dict[str, Any]:
        """Return promtool's form."""
        return self._group


def run(tests: list[RuleTest], rules: pathlib.Path | None, folder: pathlib.Path, interval_seconds: int = 15) -> str:
    """Run tests, with rules evaluated at this interval, if any; return the faults, "": none."""
    # JSON is YAML.
    text = {
        "rule_files": [str(rules)] if rules else [], "evaluation_interval": f"{interval_seconds}s", "tests": [one.group for one in tests],
    }  # fmt: skip
    path = folder / "rule-tests.yml"
    path.write_text(json.dumps(text))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
