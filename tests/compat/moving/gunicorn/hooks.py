import pathlib

wsgi_app = "shop.wsgi"
workers = 1
told = pathlib.Path("hooks.txt")


def _tell(text):
    with told.open("a") as file:
        file.write(text + "\n")


def on_starting(server):
    _tell(f"on_starting {server.cfg.workers}")


def when_ready(server):
    _tell("when_ready")


def post_fork(server, worker):
    _tell(f"post_fork {worker.age} of {server.pid == worker.ppid}")


def post_worker_init(worker):
    _tell("post_worker_init")


def worker_exit(server, worker):
    _tell("worker_exit")


def child_exit(server, worker):
    _tell(f"child_exit {worker.age}")


def on_reload(server):
    _tell("on_reload")


def on_exit(server):
    _tell("on_exit")


def nworkers_changed(server, new_value, old_value):
    _tell("never")
