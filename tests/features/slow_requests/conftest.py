"""Fixtures of slow requests."""

from harness.supervising import supervised, system

__all__ = ["supervised", "system"]
