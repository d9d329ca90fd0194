"""In the place of `gunicorn.util`: importing an app, for programs that do it in `load`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lifecycle.loading import load_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication as App


def import_app(module: str) -> App:
    """Return the app of "module", "module:name" or "module:function(arguments)"."""
    return load_app(module if ":" in module else f"{module}:application")
