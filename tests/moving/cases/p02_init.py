# an Application whose init() checks and returns settings, over which the command line wins | http | python case.py --threads 2 --env SITE=shop
from app import application
from gunicorn.app.base import Application
from gunicorn.config import Config


class Checked(Application):
    """A framework's application."""

    settings = {"bind": "127.0.0.1:@PORT@", "workers": "2", "threads": 4, "timeout": "60", "raw_env": ["SITE=other"]}

    def init(self, parser, opts, args):
        """Return the settings of the framework's own."""
        unknown = set(self.settings) - set(Config().settings)
        if unknown:
            parser.error(f"unknown settings: {unknown}")
        return self.settings

    def load(self):
        """Return the app."""
        return application


if __name__ == "__main__":
    Checked("%(prog)s [OPTIONS]").run()
