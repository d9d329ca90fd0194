import os

wsgi_app = "shop.wsgi"
preload_app = True
workers = 2
threads = 2
chdir = os.path.dirname(os.path.abspath(__file__))
raw_env = "SHOP_MODE=preloaded"


def post_fork(server, worker):
    os.environ["SHOP_WORKER"] = "forked"


def post_worker_init(worker):
    os.environ["SHOP_WORKER"] += f" and initialized {worker.age > 0}"


def child_exit(server, worker):
    server.log.info("gone: %s of %s", worker.pid, server.pid)
