"""The settings of other servers, as they are: uWSGI's and gunicorn's become ours."""

from .origin import Origin, read_origin, take_flags

__all__ = ["Origin", "read_origin", "take_flags"]
