# the server in a child process that is not forked | http | python case.py
import multiprocessing
import signal
import sys

from app import application
from gunicorn.app.base import BaseApplication


class Embedded(BaseApplication):
    """The app."""

    def load_config(self):
        """Set the options."""
        self.cfg.set("bind", "127.0.0.1:@PORT@")
        self.cfg.set("workers", 2)

    def load(self):
        """Return the app."""
        return application


def serve():
    """Serve in this process."""
    Embedded().run()


if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=serve)
    child.start()
    signal.signal(signal.SIGTERM, lambda number, frame: child.terminate())
    child.join()
    sys.exit(child.exitcode)
