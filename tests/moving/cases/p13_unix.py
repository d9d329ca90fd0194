# a unix socket, a pid file, and a run() of its own | http:shop.sock | python case.py
import os

from app import application
from gunicorn.app.base import BaseApplication


class Behind(BaseApplication):
    """An app behind nginx."""

    def load_config(self):
        """Read the settings from the environment, as a container has them."""
        settings = {
            "bind": "unix:shop.sock",
            "workers": "2",
            "pidfile": "shop.pid",
            "umask": "7",
            "preload_app": "true",
        }
        for name, value in settings.items():
            self.cfg.set(name, os.environ.get(f"SHOP_{name.upper()}", value))

    def load(self):
        """Return the app."""
        return application

    def run(self):
        """Serve it, after a word."""
        print("serving", self.cfg.address, flush=True)
        super().run()


if __name__ == "__main__":
    Behind().run()
