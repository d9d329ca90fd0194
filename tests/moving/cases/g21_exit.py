# hooks of workers, with a name for each
import time

bind = "127.0.0.1:@PORT@"
workers = 1
began = time.time()


def _note(what, worker):
    with open(f"{what}.log", "a") as file:
        file.write(f"{worker.age} {worker.nr}\n")


def post_worker_init(worker):
    """Note it."""
    _note("init", worker)


def worker_int(worker):
    """Note it."""
    _note("int", worker)


def worker_abort(worker):
    """Note it."""
    _note("abort", worker)


def worker_exit(server, worker):
    """Note it."""
    _note("exit", worker)


def child_exit(server, worker):
    """Log it."""
    server.log.info("%s has ended after %s", worker.pid, time.time() - began)
