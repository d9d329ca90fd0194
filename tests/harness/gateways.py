"""Shared parts of gateway tests: an exchange for a response, and the returned octets."""

import inspect

import pytest

from aserve.core import forks
from aserve.core.exchange import Exchange
from aserve.wsgi import FileWrapper, Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import CommonFields

from .fakes import FakeConnection

VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/x?y\0PATH_INFO\0/x\0QUERY_STRING\0y\0SERVER_PROTOCOL\0HTTP/1.1"


def new_exchange():
    exchange = Exchange(VARS, 5)
    exchange.connection = FakeConnection(
        build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=FileWrapper)
    )
    return exchange


_streams = []  # of the running test


def respond(app, exchange=None, has_sendfile=True):
    gateway = Gateway(app, CommonFields("s"), has_sendfile)
    reply = gateway.respond(new_exchange() if exchange is None else exchange)
    if inspect.isgenerator(reply):
        _streams.append(reply)
    return reply


@pytest.fixture(autouse=True)
def closed_streams():
    """Close streams not read to their end: PyPy finds them later, in any thread, which may not release this one's lock."""
    yield
    while _streams:
        _streams.pop().close()


class Left(BaseException):
    """The child has ended."""


@pytest.fixture
def fork(monkeypatch):
    """Return a function that makes this process a child, and the list of its left parts."""
    left = []

    def leave(exc=None):
        if not isinstance(exc, Left):
            left.append(exc)
        raise Left

    monkeypatch.setattr(forks, "end_child", leave)
    yield lambda: forks.forked.append(None), left
    del forks.forked[:]
