# hooks that keep something in the worker
bind = "127.0.0.1:@PORT@"
workers = 1


def pre_fork(server, worker):
    """Number the worker."""
    worker.number = 1


def post_worker_init(worker):
    """Log it."""
    worker.log.info("worker %s", getattr(worker, "number", None))


def worker_exit(server, worker):
    """Log the end."""
    server.log.info("end of %s", worker.pid)
