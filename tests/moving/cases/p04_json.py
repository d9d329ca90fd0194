# a Logger that writes a line of JSON for each request | http | python case.py
import json

from app import application
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger


class JSONLogger(Logger):
    """Writes JSON."""

    def access(self, resp, req, environ, request_time):
        """Write the line of a request."""
        found = self.atoms(resp, req, environ, request_time)
        line = {
            "method": found["m"],
            "path": found["U"],
            "status": int(found["s"]),
            "agent": found["a"],
            "size": found["B"],
        }
        self.access_log.info(json.dumps(line, sort_keys=True))


class Shop(BaseApplication):
    """The app, with such lines."""

    def load_config(self):
        """Set the options."""
        self.cfg.set("bind", "127.0.0.1:@PORT@")
        self.cfg.set("workers", 2)
        self.cfg.set("accesslog", "access.log")
        self.cfg.set("logger_class", JSONLogger)

    def load(self):
        """Return the app."""
        return application


if __name__ == "__main__":
    Shop().run()
