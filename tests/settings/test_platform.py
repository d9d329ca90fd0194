"""What the platform's own variables stand for."""

from __future__ import annotations

import os

import pytest

from aserve.settings import platform_settings

PID = 4711
US = {"LISTEN_PID": str(PID)}


@pytest.fixture(autouse=True)
def number(monkeypatch):
    """This process has the number that the tables were written with."""
    monkeypatch.setattr(os, "getpid", lambda: PID)


@pytest.mark.parametrize(
    ("environ", "name", "value"),
    [
        ({}, "bind", None),
        ({"PORT": ""}, "bind", None),
        ({"PORT": "5000"}, "bind", ("PORT", ("0.0.0.0:5000",))),
        ({**US, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web:web"}, "bind", ("LISTEN_FDS", ("systemd:web",))),
        ({**US, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web:b"}, "bind", ("LISTEN_FDS", ("systemd:web", "systemd:b"))),
        ({**US, "LISTEN_FDS": "1", "PORT": "5000"}, "bind", ("LISTEN_FDS", ("systemd:unknown",))),
        ({**US, "LISTEN_FDS": "0", "PORT": "5000"}, "bind", ("PORT", ("0.0.0.0:5000",))),
        ({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, "bind", None),
        ({}, "workers", None),
        ({"WEB_CONCURRENCY": ""}, "workers", None),
        ({"WEB_CONCURRENCY": "4"}, "workers", ("WEB_CONCURRENCY", "4")),
    ],
)
def test_platform_settings(environ, name, value):
    """Each variable, for one setting; systemd's sockets before PORT, and only if they are for this process."""
    said = platform_settings(environ).get(name)
    assert (said and said[:2]) == value


def test_notes():
    """What it says is told in words."""
    notes = [said.note for said in platform_settings({"PORT": "5000", "WEB_CONCURRENCY": "4"}).values()]
    assert notes == [
        "no --bind, and PORT is 5000: listening on all IPv4 interfaces",
        "WEB_CONCURRENCY is 4",
    ]
