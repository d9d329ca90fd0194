"""In the place of `gunicorn.app.wsgiapp`: an application whose app is named, "module:app".

Owns:     WSGIApplication; `run`, which is the command gunicorn.
Thread:   the main thread.
Spec:     gunicorn 23.0.0, gunicorn/app/wsgiapp.py.
Not here: finding and importing the app (lifecycle/loading.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ....lifecycle.loading import PASTE, load_app
from ....settings import ConfigError
from ..util import import_app
from .base import Application

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication as App


class WSGIApplication(Application):
    """An application whose app `app_uri` names; a program may set that itself."""

    app_uri: str | None = None

    def init(self, parser: Any, opts: Any, args: Sequence[str]) -> dict[str, Any] | None:
        """Take the app from the command line."""
        if opts.paste:
            self.app_uri = os.path.abspath(opts.paste)
        elif args:
            self.app_uri = args[0]
        return None

    def load_config(self) -> None:
        """
        Read the settings, and the name of the app.

        Raises:
            ConfigError: no app is named.
        """
        super().load_config()
        self.app_uri = self.app_uri or self.cfg.wsgi_app
        if self.app_uri is None:
            raise ConfigError("No application module specified.")

    def load_wsgiapp(self) -> App:
        """Import the app."""
        return import_app(str(self.app_uri))

    def load_pasteapp(self) -> App:
        """Let PasteDeploy make the app."""
        return load_app(f"{PASTE}{self.app_uri}")

    def load(self) -> App:
        """Return the app."""
        return self.load_pasteapp() if self.cfg.paste else self.load_wsgiapp()


def run(prog: str | None = None) -> NoReturn:
    """Serve the app that the process's command line names, as the command gunicorn."""
    WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog).run()
