"""The fixtures of the tests in this folder."""

from harness.gateways import closed_streams

__all__ = ["closed_streams"]
