# a Logger without the lines of health checks, preloaded, its app imported in load() | http | python case.py
import logging

from gunicorn import util
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger


class WithoutHealthChecks(logging.Filter):
    """Lets no line of a health check pass."""

    def filter(self, record):
        """Whether a line is written."""
        return "/slow" not in record.getMessage()


class QuietLogger(Logger):
    """Has that filter."""

    def setup(self, cfg):
        """Add it."""
        super().setup(cfg)
        self.access_log.addFilter(WithoutHealthChecks())


class StandaloneApplication(BaseApplication):
    """An app by its name."""

    def __init__(self, app_uri, options):
        self.app_uri, self.options = app_uri, options
        super().__init__()

    def load_config(self):
        """Set the options."""
        for key, value in self.options.items():
            self.cfg.set(key, value)

    def load(self):
        """Import the app."""
        return util.import_app(self.app_uri)


if __name__ == "__main__":
    options = {
        "bind": "127.0.0.1:@PORT@", "workers": 2, "preload_app": True, "accesslog": "access.log", "errorlog": "error.log",
        "logger_class": QuietLogger, "access_log_format": '%(h)s "%(r)s" %(s)s %(b)s',
    }  # fmt: skip
    StandaloneApplication("app:application", options).run()
