"""Reads uWSGI's and gunicorn's settings, and turns them into aserve's."""

from .origin import Origin, read_origin, take_flags

__all__ = ["Origin", "read_origin", "take_flags"]
