"""The settings of other servers, as they are: uWSGI's and gunicorn's become ours."""

from .origin import Origin, hooks_of, read_origin, take_flags

__all__ = ["Origin", "hooks_of", "read_origin", "take_flags"]
