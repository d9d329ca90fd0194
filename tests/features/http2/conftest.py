"""Fixtures of the tests of HTTP/2."""

import pytest
from harness.http2 import Client


@pytest.fixture
def connect():
    """Make a client: connect(app, **settings) -> Client."""
    made = []

    def make(*args, **settings):
        made.append(Client(*args, **settings))
        return made[-1]

    yield make
    for client in made:
        client.dispose()
