# a command of Flask's, which serves the app | http | python -m flask --app case serve --workers 2
import click
from app import application
from flask import Flask
from gunicorn.app.base import BaseApplication

app = Flask(__name__, static_folder=None)
app.wsgi_app = application


class FlaskApplication(BaseApplication):
    """An app of Flask's."""

    def __init__(self, app, **options):
        self.app, self.options = app, options
        super().__init__()

    def load_config(self):
        """Set the options."""
        for key, value in self.options.items():
            self.cfg.set(key, value)

    def load(self):
        """Return the app."""
        return self.app


@app.cli.command("serve")
@click.option("--workers", default=1)
@click.option("--threads", default=2)
def serve(workers, threads):
    """Serve the app as in production."""
    FlaskApplication(app, bind="127.0.0.1:@PORT@", workers=workers, threads=threads, proc_name="shop").run()
