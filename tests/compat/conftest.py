"""The fixtures of the tests in this folder."""

from harness.gateways import closed_streams, fork

__all__ = ["closed_streams", "fork"]
