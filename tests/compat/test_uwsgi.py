"""The import of a program that serves by itself: the name in docs/uwsgi-api.md."""

from aserve.compat.uwsgi import install
from aserve.compat.uwsgi_api import module


def test_the_name_is_the_modules_function():
    assert install is module.install
