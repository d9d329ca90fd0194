"""The runner of a signal, and its function's name."""

import functools

import pytest

from aserve.compat.uwsgi_api.handlers import (
    ALL,
    ALL_MULES,
    ANY,
    ANY_MULE,
    Handler,
    name_in_all_hosts,
    name_of,
    parse_target,
    places_of,
)
from aserve.compat.uwsgi_api.schedules import Every


@pytest.mark.parametrize(
    ("target", "meant"),
    [("", ANY), ("worker", ANY), ("worker0", ANY), ("spooler", ANY), ("mule", ANY), ("mule3", ANY), ("farm_a", ANY),
     ("workers", ALL), ("active-workers", ALL), ("mules", ALL), ("worker12", 12)],
)  # fmt: skip
def test_targets_name_workers(target, meant):
    """Mules and the spooler serve to keep requests from waiting: without mules, any worker's thread will do."""
    assert parse_target(target) == meant


def test_targets_of_mules():
    """With mules, their signals run in mules: in any, in each, or in the named mule; a number beyond the mules is any worker's."""
    assert (parse_target("mule", 2), parse_target("mule0", 2), parse_target("mules", 2)) == (
        ANY_MULE,
        ANY_MULE,
        ALL_MULES,
    )
    for target in ("mule", "mules", "mule2"):
        assert parse_target(target, 2) in places_of(0, 2) and parse_target(target, 2) not in places_of(2)
    assert parse_target("mule1", 2) not in places_of(0, 2) and parse_target("mule3", 2) == ANY
    assert {ANY, ALL, 3} == places_of(3)


@pytest.mark.parametrize("target", ["subscribed", "workerx", "emperor"])
def test_no_such_target(target):
    with pytest.raises(ValueError, match=f"'{target}' is no target"):
        parse_target(target)


def test_names_are_the_same_on_all_hosts():
    """A function is known by name, whatever the signal's number; two of the same name and schedule are two."""
    handlers = {
        number: Handler(function, ANY) for number, function in ((5, len), (7, len), (8, len), (9, print), (3, len))
    }
    schedules = {5: Every(60.0), 7: Every(60.0), 8: Every(30.0), 9: Every(60.0)}
    names = {number: name_in_all_hosts(number, handlers, schedules) for number in sorted(handlers)}
    assert names == {
        3: "builtins.len:0", 5: "builtins.len:0", 7: "builtins.len:1", 8: "builtins.len:0", 9: "builtins.print:0",
    }  # fmt: skip
    assert name_of(len) == "builtins.len"


def test_names_without_addresses():
    """A nameless function has the same name in all processes: otherwise each of them would run a tick."""

    class Job:
        def __call__(self, number):
            raise AssertionError

    job = f"{__name__}.test_names_without_addresses.<locals>.Job"
    assert name_of(functools.partial(functools.partial(len))) == "builtins.len"
    assert (
        name_of(Job()) == name_of(functools.partial(Job(), 1)) == job and name_of(Job().__call__) == f"{job}.__call__"
    )
