"""What the tests share and what is no test: apps, fakes, clients, servers, fronts.

Tests and the commands beside them (soak.py, million.py) import it by this name: `from harness import apps`,
`from harness.fakes import Harness`. conftest.py makes fixtures of it.
"""
