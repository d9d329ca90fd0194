"""Which of our files does a SIGHUP run? python tests/reload_files.py prints them; test_measures.py holds them to the bound.

A supervisor of two workers reloads, from the signal until the last successor serves: with the command's own reading of settings, of which none has
changed, and with processes that only have numbers (harness/supervising.py). Time stands still, so what is done each second without any signal is left
out. A file counts if one of its functions is called in the supervisor.
"""

from __future__ import annotations

import collections
import signal
import sys
import tempfile
from typing import Any

import pytest
from harness.modules import PACKAGE
from harness.supervising import Supervised

from aserve.command.plans import read_again, read_plan
from aserve.core.page import State
from aserve.core.start_folder import StartFolder
from aserve.features import supervised_of
from aserve.lifecycle.supervision import Supervision, SupervisorContext
from aserve.processes.fleet.plan import Plan

BOUND, GOAL = 22, 20  # as in measures.py: what is reached, and how far it is to come down
ARGS = {"app": "aserve.demo:app", "workers": "2"}


class Reloading(Supervised):
    """A supervisor that reads its settings as the command does."""

    def _supervise(self, context: SupervisorContext) -> list[Supervision]:
        return supervised_of(context.observed.config).supervise(context)

    def _read(self, before: Plan | None = None) -> Plan:
        if before is None:
            return read_plan(ARGS)
        return read_again(ARGS, StartFolder(".", False), frozenset(sys.modules), before)


def functions_of_a_reload() -> dict[str, set[str]]:
    """Return the functions that run, by the file below aserve/."""
    found: dict[str, set[str]] = collections.defaultdict(set)

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}/"):
            found[code.co_filename[len(str(PACKAGE)) + 1 :]].add(code.co_name)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # which has no TOML file
        one = Reloading(patch)
        try:
            one.start()
            before = one.children
            sys.setprofile(note)
            one.signal(signal.SIGHUP)
            while starting := [each for each in one.children if each.state is State.STARTING]:
                one.say(starting[0], say="ready")
            sys.setprofile(None)
            assert all(each.state is State.DRAINING for each in before)
        finally:
            sys.setprofile(None)
            one.close()
    return found


def main() -> None:
    """Print each file with its functions, by room."""
    found = functions_of_a_reload()
    for name, functions in sorted(found.items()):
        print(f"{name:36}  {' '.join(sorted(functions))}")
    print(f"{len(found)} files; bound {BOUND}, goal {GOAL}")


if __name__ == "__main__":
    main()
