# threads, with a folder for the workers' files
import os

bind = [f"127.0.0.1:{os.getenv('NO_SUCH_PORT', '@PORT@')}"]
worker_class = "gthread"
workers, threads = 2, 4
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None
graceful_timeout = 10
timeout = 0
reuse_port = False
accesslog = "access.log"
access_log_format = '%({x-forwarded-for}i)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" %(D)s'
