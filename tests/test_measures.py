"""The ties of the parts are no worse than before, and each bound is the reached number."""

import measures
import pytest
import reload_files
from harness.interpreter import ONCE
from harness.modules import MODULES, room_of

pytestmark = [pytest.mark.checkout, ONCE]


@pytest.mark.parametrize("measure", measures.MEASURES, ids=lambda measure: measure.name)
def test_a_bound_is_what_is_reached(measure):
    """A better number has a new bound in the same commit, and stays."""
    assert measure.bound * 0.95 <= measure.count() <= measure.bound


def test_files_and_functions_of_a_reload():
    """A SIGHUP of real processes, and idle seconds, run as many files and functions as noted, to a tenth: a busy machine adds some."""
    # In a process of its own: CPython 3.11 calls no function that is profiled while a thread has an exception that it cannot take, as it waits
    # outside the interpreter; other tests leave such threads.
    found = reload_files.functions()
    for name in ("a reload", "idle seconds"):  # the difference of both is printed only: it has the noise of both
        noted = reload_files.NOTED[name]
        files, functions = reload_files.count(found[name])
        assert abs(files - noted.files) <= noted.files / 10, (name, sorted(found[name]))
        assert abs(functions - noted.functions) <= noted.functions / 10, (name, sorted(found[name]))


def test_rooms_are_there():
    """A renamed room would count for nothing."""
    rooms = {room_of(name) for name in MODULES}
    assert rooms >= measures.ENGINE | measures.OPTIONS and not measures.ENGINE & measures.OPTIONS


def test_imports_are_found():
    """Of modules and of names, from beside and from above."""
    found = {name for importer, name in measures.our_imports() if importer == "features.files.static"}
    assert {"features.files.settings", "wsgi", "features.files.reply"} <= found
