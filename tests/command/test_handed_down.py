"""The legacy of earlier code: descriptors, by variables for this process alone."""

import os

import pytest

from aserve.command.handed_down import take_handed_down
from aserve.processes.children.command import INHERITANCE_VARIABLE, TRIAL_VARIABLE
from aserve.settings import ConfigError


def test_a_person_hands_nothing_down():
    """Most processes are started without."""
    environ = {"HOME": "/"}
    assert take_handed_down(environ) == (None, None) and environ == {"HOME": "/"}


def test_descriptors_are_taken_from_variables_once(tmp_path):
    """A variable is removed once read: the app's own processes do not see the name."""
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        environ = {TRIAL_VARIABLE: str(fd), INHERITANCE_VARIABLE: str(fd)}
        assert take_handed_down(environ) == (fd, fd) and environ == {}
    finally:
        os.close(fd)


@pytest.mark.parametrize("text", ["", "x", "1000000"])
def test_another_program_has_set_it(text):
    """The error says so, with the remedy."""
    with pytest.raises(ConfigError, match=f"{TRIAL_VARIABLE} is for aserve itself, when it is upgraded; unset it"):
        take_handed_down({TRIAL_VARIABLE: text})
