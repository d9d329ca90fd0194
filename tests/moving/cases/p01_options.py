# options in a dictionary, workers by the number of CPUs | http | python case.py
import multiprocessing

import gunicorn.app.base
from app import application


def number_of_workers():
    """Return gunicorn's advice, but not more than this test bears."""
    return min(multiprocessing.cpu_count() * 2 + 1, 3)


class StandaloneApplication(gunicorn.app.base.BaseApplication):
    """An app and its options."""

    def __init__(self, app, options=None):
        self.options = options or {}
        self.application = app
        super().__init__()

    def load_config(self):
        """Set the options that gunicorn knows."""
        known = {key: value for key, value in self.options.items() if key in self.cfg.settings and value is not None}
        for key, value in known.items():
            self.cfg.set(key.lower(), value)

    def load(self):
        """Return the app."""
        return self.application


if __name__ == "__main__":
    StandaloneApplication(application, {"bind": "127.0.0.1:@PORT@", "workers": number_of_workers(), "shop": 1}).run()
