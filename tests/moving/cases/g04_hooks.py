# hooks
bind = "127.0.0.1:@PORT@"
raw_env = ["SITE=shop"]
timeout = 60


def on_starting(server):
    """Log the address."""
    server.log.info("at %s", server.address)


def post_fork(server, worker):
    """Log the worker."""
    server.log.info("worker %s", worker.pid)
