# greenlets
import os

bind = "127.0.0.1:@PORT@"
worker_class = "gevent"
worker_connections = 50
workers = int(os.environ.get("NO_SUCH_WORKERS", 1))


def post_fork(server, worker):
    """Log it."""
    server.log.info("spawned %s", worker.pid)
