# folders to import from, the last before the first, and a hook that counts workers
bind = "127.0.0.1:@PORT@"
pythonpath = "run,static"
workers = 2


def post_fork(server, worker):
    worker.log.info("%s of %s", worker.age, len(server.WORKERS))
