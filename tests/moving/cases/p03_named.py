# a WSGIApplication whose app and options the program sets | http | python case.py
from gunicorn.app.wsgiapp import WSGIApplication


class NamedApplication(WSGIApplication):
    """An app by its name."""

    def __init__(self, app_uri, options=None):
        self.options = options or {}
        self.app_uri = app_uri
        super().__init__()

    def load_config(self):
        """Set the options."""
        for key, value in self.options.items():
            if key in self.cfg.settings and value is not None:
                self.cfg.set(key.lower(), value)


def run():
    """Serve it."""
    NamedApplication("app:make(None)", {"bind": ["127.0.0.1:@PORT@"], "workers": 1, "threads": 3, "keepalive": 5}).run()


if __name__ == "__main__":
    run()
