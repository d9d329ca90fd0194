"""The role of a forked process."""

import pytest

from aserve.core.page import MOLD, TRIAL
from aserve.processes.children.role import Role


@pytest.mark.parametrize(("slot", "name"), [(TRIAL, "the trial"), (3, "worker 3"), (MOLD, "the mold")])
def test_its_slot_tells_the_role(slot, name):
    """The slot tells whether the process serves, imports the app for others, or tries new code; the log has its name."""
    role = Role(slot, 1, None, None, (), None)
    assert role.name == name
    assert (role.is_trial, role.is_worker, role.is_mold) == (slot == TRIAL, slot == 3, slot == MOLD)
