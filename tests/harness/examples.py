"""Hypothesis' examples for tests: the same ones every time, however slow the machine."""

from hypothesis import HealthCheck, settings

EXAMPLES = settings(deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
