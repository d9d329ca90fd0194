"""Fixtures of the tests of the command."""

import types

import pytest

from aserve.command import apps, as_child, with_workers


@pytest.fixture
def supervised(served, monkeypatch):
    """The arguments of a supervisor without a run: supervised.outcome is the run's result, or exception."""
    calls = types.SimpleNamespace(outcome=0, made=[], inherited=[], roles=[], shared=[])

    class FakeSupervisor:
        def __init__(self, site):
            calls.made.append(site[:4])
            calls.supervise = site.supervise

        def run(self, inherited):
            calls.inherited.append(inherited)
            calls.shared.append("forks")
            if isinstance(calls.outcome, Exception):
                raise calls.outcome
            return calls.outcome

    monkeypatch.setattr(with_workers, "Supervisor", FakeSupervisor)
    monkeypatch.setattr(with_workers, "bind_listeners", lambda config: f"bound for {config.workers}")
    monkeypatch.setattr(apps, "loop_factory", calls.shared.append)
    # This process goes on.
    monkeypatch.setattr(with_workers, "gc", types.SimpleNamespace(freeze=lambda: calls.shared.append("freeze")))
    monkeypatch.setattr(as_child, "run_worker", lambda role, load: calls.roles.append((role, load())) or 7)
    return calls
