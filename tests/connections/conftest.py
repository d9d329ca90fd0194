"""Fixtures of the tests of connections."""

import logging
import socket
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import pytest
from harness.fakes import Harness
from harness.replies import echo
from harness.tls_lines import Line

import aserve.core.incident
from aserve.connections.carrier import Carriers
from aserve.connections.limit import ConnectionLimit
from aserve.connections.listeners import open_listeners
from aserve.settings import parse_bind
from aserve.tls.certificates import Certificates


@pytest.fixture
def new() -> Iterator[Callable[..., tuple[Harness, Any, Any]]]:
    """Make a harness with a client: new(app, **settings) -> harness, connection, transport."""
    harnesses: list[Harness] = []

    def make(app: Any = echo, **settings: Any) -> tuple[Harness, Any, Any]:
        harness = Harness(app, **settings)
        harnesses.append(harness)
        return (harness, *harness.connect())

    yield make
    for harness in harnesses:
        harness.dispose()


@pytest.fixture
def socket_ends():
    """The two ends of a connection; neither blocks."""
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def new_line(authority, localhost):
    """Make a line: new_line(app, client={...}, **settings) -> Line, its handshake not begun."""
    harnesses = []

    def make(app=echo, client=None, carriers=MappingProxyType({}), **settings):
        settings.setdefault("bind", "https://127.0.0.1:0")
        harness = Harness(app, certificate=localhost.certificate, key=localhost.key, **settings)
        tls_settings = harness.config.tls_settings(parse_bind(harness.config.bind[0]))
        harness.service.wrap = Certificates([tls_settings], carriers).wrap_by(tls_settings)
        harness.service.carriers = Carriers(carriers)
        harnesses.append(harness)
        line = Line(harness, authority, **(client or {}))
        harness.lines = [line]
        return line

    yield make
    for harness in harnesses:
        for line in harness.lines:
            line.check_records()
        harness.dispose()


@pytest.fixture
def opened():
    """Open listeners by spec, closed in the end."""
    found = []

    def open_(*specs):
        new = open_listeners([parse_bind(spec) for spec in specs])
        found.extend(new)
        return new

    yield open_
    for listener in found:
        listener.close()


@pytest.fixture
def log(caplog):
    """Return the log, everything included."""
    caplog.set_level(logging.INFO)
    return caplog


@pytest.fixture
def limit(monkeypatch, caplog):
    """A limit of three at most, without the log's line about the limit."""
    caplog.set_level(logging.INFO, "aserve")
    monkeypatch.setattr(aserve.core.incident, "CALM_SECONDS", 1)
    limit = ConnectionLimit()
    limit.find_limit(3, threads=1)
    return limit
