"""The fixtures of the tests in this folder."""

from harness.cluster import cluster, kept_results

__all__ = ["cluster", "kept_results"]
