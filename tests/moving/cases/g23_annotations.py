# hooks with annotations, which read the settings as an object
from __future__ import annotations

from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

bind = ["127.0.0.1:@PORT@"]
workers = 2
raw_env = ["SITE=shop"]


def when_ready(server: Arbiter) -> None:
    """Log where it listens."""
    (host, port), *_ = server.cfg.address
    with open("ready.log", "a") as file:
        file.write(f"{host} {port} {server.cfg.settings['workers'].get()} {server.cfg.env['SITE']}\n")


def post_fork(server: Arbiter, worker: Worker) -> None:
    """Log the name."""
    with open("forked.log", "a") as file:
        file.write(f"{worker.cfg.proc_name} {worker.cfg.is_ssl} {server.cfg.worker_connections}\n")
