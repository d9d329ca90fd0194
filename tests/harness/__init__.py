"""Shared parts that are no tests: apps, fakes, clients, servers, fronts.

Tests and the commands beside them (soak.py, million.py) import by this name: `from harness import apps`, `from harness.fakes import Harness`.
conftest.py makes fixtures of them.
"""
