# a worker class of its own, derived from gevent's, and a run() by gunicorn's Arbiter | http | python case.py
from app import application
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.ggevent import GeventWorker


class Patient(GeventWorker):
    """A worker that logs its end."""

    def handle_quit(self, sig, frame):
        """Log it, and end."""
        self.log.info("end")
        super().handle_quit(sig, frame)


class Supervised(BaseApplication):
    """The app, with what serves it at hand."""

    def load_config(self):
        """Set the options."""
        for name, value in {"bind": "127.0.0.1:@PORT@", "worker_class": Patient, "worker_connections": 50}.items():
            self.cfg.set(name, value)

    def load(self):
        """Return the app."""
        return application

    def run(self):
        """Serve it."""
        self.arbiter = Arbiter(self)
        self.arbiter.run()


if __name__ == "__main__":
    Supervised().run()
