# hooks among the options | http | python case.py
import os

from app import application
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker


def _note(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\n")


def when_ready(server: Arbiter) -> None:
    """Write the pid of the master, for a script."""
    _note("ready.pid", server.pid)
    server.log.info("%s workers at %s", server.cfg.workers, server.cfg.address)


def post_fork(server: Arbiter, worker: Worker) -> None:
    """Note a worker."""
    _note("forked.log", f"{worker.age} {server.pid == os.getppid()}")


def post_worker_init(worker: Worker) -> None:
    """Note that it has the app."""
    _note("init.log", worker.pid == os.getpid())


def worker_exit(server: Arbiter, worker: Worker) -> None:
    """Note the end of a worker."""
    _note("exit.pid", worker.pid)


def on_exit(server: Arbiter) -> None:
    """Remove the file of the script, if workers have ended."""
    if os.path.exists("exit.pid"):
        os.remove("ready.pid")


class Hooked(BaseApplication):
    """An app with hooks."""

    def load_config(self):
        """Set them."""
        options = {"bind": "127.0.0.1:@PORT@", "workers": 2, "loglevel": "debug"}
        hooks = (when_ready, post_fork, post_worker_init, worker_exit, on_exit)
        for key, value in {**options, **{hook.__name__: hook for hook in hooks}}.items():
            self.cfg.set(key, value)

    def load(self):
        """Return the app."""
        return application


if __name__ == "__main__":
    Hooked().run()
