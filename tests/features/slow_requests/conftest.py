"""Fixtures of slow requests."""

from __future__ import annotations

from harness.supervising import supervised, system

__all__ = ["supervised", "system"]
