"""In the place of `gunicorn.config`: the settings, for programs that ask which there are."""

from ..moving.gunicorn_cfg import Cfg as Config

__all__ = ["Config"]
