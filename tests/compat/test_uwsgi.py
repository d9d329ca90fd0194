"""What a program that serves by itself imports: the name that docs/uwsgi-api.md gives."""

from __future__ import annotations

from aserve.compat.uwsgi import install
from aserve.compat.uwsgi_api import module


def test_the_name():
    """It is the function of the module."""
    assert install is module.install
