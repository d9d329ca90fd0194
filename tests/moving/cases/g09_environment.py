# values of the environment
import os

bind = f"{os.environ.get('HOST', '127.0.0.1')}:@PORT@"
workers = int(os.environ.get("NO_SUCH", "2"))
threads = int(os.getenv("NO_SUCH_THREADS", "2"))
worker_tmp_dir = "/dev/shm"
timeout = int(os.getenv("NO_SUCH_TIMEOUT", "172800"))
loglevel = "warn" if False else "warning"
