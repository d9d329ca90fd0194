"""The module's names in a process."""

import os

import pytest

from aserve.compat.uwsgi_api.process import Process
from aserve.compat.uwsgi_api.provided import PROVIDED, names_of
from aserve.compat.uwsgi_api.settings import Extras


@pytest.mark.parametrize(
    ("process", "names"),
    [
        (Process(), ()),
        (Process(extras=Extras("items=7")), ("queue_push", "queue_size")),
        (Process(extras=Extras(areas=("4k",))), ("sharedarea_read",)),
        (Process(extras=Extras(metrics=("m",))), ("metric_inc",)),
        (Process(spoolers=("/jobs",)), ("spool", "SPOOL_OK")),
    ],
)
def test_what_settings_add(process, names):
    found = names_of(process)
    assert {*names} <= {*found} - {*PROVIDED} and bool({*found} - {*PROVIDED}) is bool(names)
    assert found.get("queue_size") == (7 if "queue_size" in names else None)


def test_values_are_of_process_and_settings():
    found = names_of(Process(2, 4242, 8, threads=5, spoolers=("/a", "/b"), options={"master": b"0", "vacuum": True}))
    assert (found["numproc"], found["cores"], found["version_info"][:2]) == (8, 5, (2, 0))
    assert (
        found["opt"]["spooler"] == [os.fsencode("/a"), b"/b"]
        and found["opt"]["master"] is found["opt"]["vacuum"] is True
    )
    assert names_of(Process(mules=3))["opt"]["mules"] == b"3"
    assert "mules" not in names_of(Process(mules=3, options={"mule": True}))["opt"]
