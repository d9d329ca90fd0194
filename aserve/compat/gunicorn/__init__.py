"""Names of gunicorn's for programs: `aserve.compat.gunicorn.app.base` in the place of `gunicorn.app.base`, and so on."""

from ..moving.gunicorn_stand_in import VERSION
from .app.base import program

__all__ = ["SERVER", "SERVER_SOFTWARE", "__version__", "program", "version_info"]

version_info = VERSION
__version__ = ".".join(map(str, version_info))
SERVER = "gunicorn"  # a program that sets another hides the server, see --server-name
SERVER_SOFTWARE = f"{SERVER}/{__version__}"
