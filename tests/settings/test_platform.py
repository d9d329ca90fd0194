"""The meaning of the platform's own variables."""

import os

import pytest

from aserve.features import Config
from aserve.settings import platform_settings, service_variables, unbound_sockets

PID = 4711
US = {"LISTEN_PID": str(PID)}


@pytest.fixture(autouse=True)
def number(monkeypatch):
    """This process has the number in the tables."""
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
def test_platform_settings_prefer_systemd_to_port(environ, name, value):
    """The sockets of systemd count only if meant for this process."""
    said = platform_settings(environ).get(name)
    assert (said and said[:2]) == value


SOCKETS = {**US, "LISTEN_FDS": "3", "LISTEN_FDNAMES": "web:web:tls"}


@pytest.mark.parametrize(
    ("environ", "binds", "unbound"),
    [
        ({}, (":80",), []),
        (SOCKETS, ("systemd:web", "https://systemd:tls"), []),
        (SOCKETS, ("fd:3", "uwsgi://fd:4"), ["tls"]),
        (SOCKETS, ("127.0.0.1:80",), ["web", "tls"]),
        ({**SOCKETS, "LISTEN_PID": "1"}, ("127.0.0.1:80",), []),
    ],
)
def test_sockets_that_no_bind_takes(environ, binds, unbound):
    """By the name or by the numbers; sockets of another process are none of ours."""
    assert unbound_sockets(environ, binds) == unbound


LINKS = {
    "ASERVE_SERVICE_HOST": "10.0.0.1",
    "ASERVE_SERVICE_PORT": "80",
    "ASERVE_SERVICE_PORT_HTTP": "80",
    "ASERVE_PORT": "tcp://10.0.0.1:80",
    "ASERVE_PORT_80_TCP": "tcp://10.0.0.1:80",
    "ASERVE_PORT_80_TCP_PROTO": "tcp",
    "ASERVE_PORT_80_TCP_PORT": "80",
    "ASERVE_PORT_80_TCP_ADDR": "10.0.0.1",
}


@pytest.mark.parametrize(
    ("environ", "ignored"),
    [
        (LINKS, LINKS),
        ({name.replace("ASERVE", "ASERVE_WEB"): value for name, value in LINKS.items()}, "same"),
        ({**LINKS, "ASERVE_THREADS": "3", "ASERVE_PORT_80": "1", "ASERVE_SERVICE": "1", "PORT": "80"}, LINKS),
        ({**LINKS, "ASERVE_PORT": "udp://10.0.0.1:80"}, LINKS),
        ({**LINKS, "ASERVE_PORT": "80"}, ()),
        ({name: value for name, value in LINKS.items() if name != "ASERVE_SERVICE_HOST"}, ()),
        ({name: value for name, value in LINKS.items() if name != "ASERVE_PORT"}, ()),
        ({name.replace("ASERVE", "WEB"): value for name, value in LINKS.items()}, ()),
    ],
)
def test_services_of_kubernetes(environ, ignored):
    """The variables of a service with our name are known by their form; a user's mistake has another form."""
    assert service_variables(environ) == list(environ if ignored == "same" else ignored)
    if ignored:
        threads = int(environ.get("ASERVE_THREADS", "32"))
        known = {name: value for name, value in environ.items() if name not in ("ASERVE_PORT_80", "ASERVE_SERVICE")}
        assert Config.from_sources({}, known, {}).threads == threads


def test_notes_tell_the_platform_in_words():
    notes = [said.note for said in platform_settings({"PORT": "5000", "WEB_CONCURRENCY": "4"}).values()]
    assert notes == [
        "no --bind, and PORT is 5000: listening on all IPv4 interfaces",
        "WEB_CONCURRENCY is 4",
    ]
