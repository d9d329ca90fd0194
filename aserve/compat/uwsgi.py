"""`import uwsgi` for a program that serves by itself: `aserve.compat.uwsgi.install()` (docs/uwsgi-api.md)."""

from .uwsgi_api.module import install

__all__ = ["install"]
